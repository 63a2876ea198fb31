"""The sweep over all model types: each verdict on a model made for it, trials that end, a table in its place."""

import time
from contextlib import contextmanager
from dataclasses import replace

import jaxtyping
import pytest

from tests.families import build
from tests.sweep import examine
from tests.sweep.examine import CRASHED, FULL, PARTIAL, REFUSED, TEXTLESS, UNBUILT, WRONG, examined, verdict_on
from tests.sweep.shrink import models
from tests.sweep.table import BEGIN, END, write
from tests.sweep.trial import tried


def _never(kind):
    time.sleep(600)


def _answer(kind):
    return {"type": kind, "verdict": {"outcome": REFUSED}}


def test_a_model_that_is_read_whole():
    assert verdict_on(build("bert", num_hidden_layers=2), "bert").outcome == FULL


def test_any_other_exception_is_a_crash(monkeypatch):
    monkeypatch.setattr(examine.whence, "load", lambda *given: 1 / 0)
    found = verdict_on(build("bert", num_hidden_layers=1), "bert")
    assert found.outcome == CRASHED and "ZeroDivisionError" in found.said


def test_a_model_that_loading_changed_is_wrong(monkeypatch):
    load = examine.whence.load

    def changing(model, tokenizer):
        loaded = load(model, tokenizer)
        model.config.hidden_act = "relu"
        return loaded

    monkeypatch.setattr(examine.whence, "load", changing)
    found = verdict_on(build("bert", num_hidden_layers=1), "bert")
    assert found.outcome == WRONG and "changed: settings" in found.said


def test_other_logits_and_derivatives_are_wrong(monkeypatch):
    own = examine.trace

    def other(*given, **more):
        seen = own(*given, **more)
        seen.logits.add_(1)
        return seen

    monkeypatch.setattr(examine, "trace", other)
    chain = examine.linearised

    @contextmanager
    def halved(*given, **more):
        """The derivatives of an honest model, spoilt where the sweep looks: loading would refuse them."""
        with chain(*given, **more) as found:
            yield replace(found, steps=tuple(replace(step, function=lambda states: states / 2) for step in found.steps))

    monkeypatch.setattr(examine, "linearised", halved)
    monkeypatch.setattr(examine, "given_by", lambda *given: ["attention"])
    found = verdict_on(build("gpt2", n_layer=1), "gpt2")
    assert found.outcome == WRONG and "logits" in found.said and "derivatives" in found.said


@pytest.mark.parametrize("kind", ["bert", "bart", "gemma3"])
def test_a_tiny_model_of_a_type(kind):
    found = dict(models(kind))
    assert found and all(sum(p.numel() for p in model.parameters()) < 1_500_000 for model in found.values())


@pytest.mark.parametrize(
    ("kind", "gives"),
    [
        ("ibert", "derivatives"),
        ("gemma3n_text", "values"),
        ("blt_patcher", "attention"),
        ("recurrent_gemma", "derivatives"),
    ],
    ids=["a scale with the embedding", "four states a token", "one number a token", "bfloat16 scalars"],
)
def test_a_type_of_an_unusual_kind_is_read_in_part(kind, gives, monkeypatch):
    """Shapes are checked in tests alone, and a model with four states a token has others than are written there."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    verdict = examined(kind)["verdict"]
    assert verdict["outcome"] == PARTIAL and gives in verdict["gives"]


def test_a_type_with_four_states_behind_each_token_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert examined("hy_v4")["verdict"]["outcome"] == REFUSED


def test_a_type_that_cannot_be_built():
    with pytest.raises(LookupError, match="no model class"):
        list(models("sam_mask_decoder"))


def test_a_trial_that_takes_too_long_is_ended(tmp_path):
    found = tried("x", tmp_path / "x.json", "now", seconds=0.5, examine=_never)
    assert found["verdict"]["outcome"] == CRASHED and "no answer" in found["verdict"]["said"]
    assert tried("x", tmp_path / "x.json", "now", seconds=60, examine=_answer)["verdict"]["outcome"] == REFUSED


def test_the_table_takes_the_place_of_the_last(tmp_path):
    page = tmp_path / "models.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    verdict = {"outcome": REFUSED, "model": "X", "gives": [], "said": "X is an encoder-decoder, which is not read."}
    write([{"type": "x", "verdict": verdict}], page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| refused | an encoder-decoder | 1 | `x` |" in text and "refused 1, crashed 0" in text


@pytest.mark.parametrize(("kind", "outcome"), [("sam_mask_decoder", TEXTLESS), ("t5_gemma_module", UNBUILT)])
def test_what_reads_no_text_is_counted_apart(kind, outcome):
    assert examined(kind)["verdict"]["outcome"] == outcome
