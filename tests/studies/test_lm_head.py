"""The study of the LM head end to end: the built-in model, a decoder, a model without a head, text without gaps."""

import importlib
import json
import re

import pandas
import pytest
import torch
from transformers import BertModel

import whence
from tests.families import build
from tests.studies.asked import asked
from whence.plot.drawing import draw
from whence.studies.frame.context import Context
from whence.studies.frame.study import Beside, Finding, Left, Shown
from whence.text.sentence import MASK

SORTED = ("last_by_stage", "stage_by_last", "first_by_stage", "stage_by_first")
NAMES = ("spearman", "spearman_published", "spearman_corpus", *(f"sorted_{name}" for name in SORTED))
NAMES += ("norm_weight", "norm_bias", "hits", "changes", "changes_hits", "lens")
LIMIT = 12
pytestmark = pytest.mark.slow  # all of them wait for one study


@pytest.fixture(scope="module")
def corpora(sample):
    names = ("statements", "questions")
    return [whence.read(f"lama:{sample / name}.jsonl", limit=LIMIT) for name in names]


@pytest.fixture(scope="module")
def out(builtin, corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    whence.study("lm-head", builtin, corpora, folder, quick=True)
    return folder


@pytest.fixture(scope="module")
def found(out):
    return json.loads((out / "findings.json").read_text())


def table(out, name):
    return pandas.read_csv(out / "tables" / f"head_{name}.csv")


def test_every_section_draws_and_writes(out, found):
    assert [picture["name"] for picture in found["pictures"]] == [f"head_{name}" for name in NAMES]
    assert all("only" in left["why"] for left in found["left_out"])  # few answers among the ten best
    for name in NAMES:
        assert len(table(out, name)) == len(pandas.read_parquet(out / "tables" / f"head_{name}.parquet")) > 3
        assert (out / "charts" / f"head_{name}.svg").read_text().count("<path") > 6
    for name in ("spearman_last", "hits_published", "changes_published"):
        assert len(table(out, name)) > 3


def test_hits_are_those_of_the_logits(out, builtin, corpora):
    """Counted here from the model's own logits."""
    ranks = []
    for given in corpora[0]:
        tokens = builtin.tokenizer(given.text, return_tensors="pt")
        place = tokens["input_ids"][0].tolist().index(builtin.tokenizer.mask_token_id)
        answer = builtin.tokenizer.convert_tokens_to_ids(given.labels["answer"])
        with torch.no_grad():
            logits = builtin.model(**tokens).logits[0, place]
        ranks.append(int((logits > logits[answer]).sum()) + 1)
    both = table(out, "hits").query("stage == 'lmhead-out'")
    assert both["data"].nunique() == 2
    drawn = both[both["data"] == both["data"].iloc[0]].set_index("k")["found"]
    for k, share in drawn.items():
        assert share == pytest.approx(sum(rank <= k for rank in ranks) / LIMIT)
    before = table(out, "changes_hits").query("change == 'as it is'").set_index("k")["found"]
    assert before.to_numpy() == pytest.approx(drawn.to_numpy())


def test_what_is_drawn_is_consistent(out, builtin):
    grid = table(out, "spearman").pivot(index="stage", columns="other_stage", values="spearman")
    assert grid.to_numpy() == pytest.approx(grid.T.to_numpy(), abs=1e-6)
    weights = table(out, "norm_weight")["weight"]
    assert weights.to_numpy() == pytest.approx(
        builtin.model.cls.predictions.transform.LayerNorm.weight.detach().numpy()
    )
    histogram = table(out, "changes").groupby("change")["sentences"].sum()
    assert (histogram == LIMIT).all()
    lens = table(out, "lens")
    assert (lens[lens["layer"] == 6]["share"] == 1).all()


def test_sorted_scores_are_sorted(out):
    for name in SORTED:
        drawn = table(out, f"sorted_{name}")
        groups = drawn[drawn["line"] == "sorting"].groupby("stage")
        assert len(groups) == 7
        for _, rows in groups:
            assert rows["score"].is_monotonic_increasing
        assert drawn.groupby(["stage", "line"]).size().max() <= 300


def test_published_numbers_are_shares_of_the_clozes(out):
    theirs = table(out, "hits_published").set_index("stage")
    assert theirs["bert-base-uncased @10"]["lmhead-out"] == f"{9460 / 29774:.1%}"
    assert table(out, "changes_published").set_index("change")["bert-base-uncased @1"]["final period removed"] == "7.9%"


def test_findings_carry_their_statistics(found):
    assert len(found["claims"]) + len(found["left_out"]) == 4
    for claim in found["claims"]:
        assert re.search(r"\d", claim["statistic"]), claim["says"]


def test_the_page_needs_nothing_else(out):
    assert not re.search(r"(src|href)=\"(https?:)?//", (out / "report.html").read_text())


def test_it_goes_on_where_it_was(out, builtin, corpora, monkeypatch):
    for name in ("whence.corpus.cloze", "whence.corpus.perturb"):  # the verbs hide the modules
        monkeypatch.setattr(importlib.import_module(name), "answered", lambda *_: pytest.fail("asked again"))
    context = Context(builtin, tuple(corpora), out, quick=True)
    again = asked("lm-head", context)
    drawn = {item.name.removeprefix("head_"): item.written for item in again if isinstance(item, Shown)}
    assert {"hits", "changes", "changes_hits"} < set(drawn)
    for name, written in drawn.items():
        pandas.testing.assert_frame_equal(written, table(out, name), check_dtype=False)


def made(model, corpus, out, **more):
    """What every section gives, drawn but not written, which is what takes long."""
    context = Context(model, (corpus,), out, quick=True, **more)
    out.mkdir(exist_ok=True)
    items = asked("lm-head", context)
    assert all(draw(item.drawing) for item in items if isinstance(item, Shown))
    return {kind: [item for item in items if isinstance(item, kind)] for kind in (Shown, Finding, Beside, Left)}


def test_a_decoder_gets_its_stages_and_is_told_what_it_has_not(builtin, corpora, tmp_path):
    llama = whence.load(build("llama", vocab_size=len(builtin.tokenizer)), builtin.tokenizer)
    found = made(llama, corpora[0], tmp_path, text=f"The {MASK} barked.")
    (hits,) = [item for item in found[Shown] if item.name == "head_hits"]
    assert list(hits.written["stage"].unique()) == ["trf-out", "norm-n", "norm-w", "unembed"]
    assert "“The”" in found[Shown][0].drawing.subtitle, "a decoder reads up to the gap"
    reasons = {item.why for item in found[Left]}
    assert any("has no bias" in why for why in reasons) and any("before the gap" in why for why in reasons)
    assert len(found[Beside]) == 2


def test_a_model_without_a_head_is_told_so(builtin, corpora, tmp_path):
    bare = whence.load(BertModel(builtin.model.config).eval(), builtin.tokenizer)
    page = whence.study("lm-head", bare, corpora[0], tmp_path, quick=True).read_text()
    found = json.loads((tmp_path / "findings.json").read_text())
    assert not found["pictures"] and len(found["left_out"]) == 7 and "needs lm_head" in page


def test_text_without_gaps_is_said_to_have_none(builtin, tmp_path):
    (tmp_path / "plain.txt").write_text("No gap in here.\nNor in here.\n")
    context = Context(builtin, (whence.read(tmp_path / "plain.txt"),), tmp_path, quick=True)
    left = {item.what: item.why for item in asked("lm-head", context) if isinstance(item, Left)}
    for title, reason in (
        ("Many sentences", "cloze corpus"),
        ("Right answers", "cloze corpus"),
        ("Earlier layers", "no sentence"),
        ("Small changes", "no sentence"),
    ):
        assert reason in left[title]
