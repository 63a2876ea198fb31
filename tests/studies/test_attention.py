"""The study of attention: the head and the rows of its pictures, and other attention that the model does not notice."""

import numpy as np
import pytest

import whence
from tests import tiny
from whence.studies import attention_alternatives as study
from whence.studies.frame.context import Context
from whence.studies.frame.study import Absent


def context_of(folder, texts, **more):
    (folder / "texts.txt").write_text("\n\n".join(texts))
    return Context(tiny.model(**more), (whence.read(f"text:{folder / 'texts.txt'}"),), folder, quick=True)


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    texts = [text for text in tiny.texts(200, seed=3, longest=60) if len(text.split()) > 40][:8]
    return context_of(tmp_path_factory.mktemp("attention"), texts)


def test_the_head_of_the_pictures_is_the_one_whose_effective_attention_is_least_alike(context):
    text = study.example(context)
    ds = whence.measure(context.model, text, ["attention", "effective"])
    found = {}
    for layer in ds["layer"].values:
        for head in ds["head"].values:
            both = [ds[name].sel(layer=layer, head=head).values.ravel() for name in ("attention", "effective")]
            found[int(layer), int(head)] = np.corrcoef(*both)[0, 1]
    assert study.least_alike(context, text) == min(found, key=found.get)


def test_the_middle_rows_of_a_map_are_drawn_with_every_source(context):
    values = whence.measure(context.model, study.example(context), ["attention"])["attention"].isel(layer=0, head=1)
    table = study.cells("raw", values)
    count = values.sizes["source"]
    first = (count - study.ROWS) // 2
    assert len(table) == study.ROWS * count
    np.testing.assert_array_equal(
        table["weight"].to_numpy().reshape(study.ROWS, count), values[first : first + study.ROWS]
    )
    names = [name.split(study.SEPARATOR)[0] for name in dict.fromkeys(table["source"])]
    assert names == values["source_token"].values.tolist()


def test_the_share_that_moved_is_half_the_differences_and_no_logit_moves(context):
    table = context.kept(study.moves)
    assert set(table["kind"]) == set(study.KINDS.values()) and table["sentence"].nunique() == 6
    row = table[table["kind"] == "least alike"].iloc[2]
    text, layer, head = study.texts(context)[row["sentence"]], int(row["layer"]), int(row["head"])
    ds = whence.alternative_attention(context.model, text, layer, head, direction="unlike")
    differences = np.abs(ds["alternative"].values - ds["attention"].values).sum(axis=1) / 2
    assert row[study.MOVED] == pytest.approx(differences.mean(), rel=1e-6)
    assert study.logits_moved(context).value == table[study.LOGITS].max() < 1e-3
    means = table[table["kind"] == "least alike"][study.MOVED].mean()
    assert study.attention_moved(context).value == pytest.approx(means)


def test_texts_without_a_null_space_have_no_other_attention(tmp_path):
    context = context_of(
        tmp_path, ["ada bo cy dee ed fay gus hal ivy jo kim ."], hidden_size=256, num_attention_heads=4
    )
    with pytest.raises(Absent, match="has 72 words, more than a head is wide"):
        study.moves(context)
