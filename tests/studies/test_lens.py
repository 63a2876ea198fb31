"""The study of lenses: its tables are what the lens reads, on texts that it was not fitted to."""

import numpy as np
import pytest

import whence
from tests import tiny
from whence.studies import lens as study
from whence.studies.frame.context import Context
from whence.studies.frame.study import Absent


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lens")
    texts = [text for text in tiny.texts(80, seed=4, longest=40) if len(text.split()) > 26][:16]
    assert len(texts) == 16
    (folder / "texts.txt").write_text("\n".join(texts))
    corpus = whence.read(f"text:{folder / 'texts.txt'}")
    return Context(tiny.model(), (corpus,), folder, quick=True)


def test_it_reads_texts_that_it_was_not_fitted_to(context):
    fit, read = context.kept(study._texts)
    assert len(fit) == len(read) == 8 and not {text.text for text in fit} & {text.text for text in read}
    table = context.kept(study._tokens)
    lens = context.kept(study._lens)
    assert sum(lens.texts) == 8 and set(table["lens"]) == {"Jacobian lens", "logit lens", "tuned lens"}
    ds = lens.read(context.model, read[3].text, k=1)
    own = table[(table["document"] == "text 3") & (table["lens"] == "logit lens") & (table["layer"] == 1)]
    np.testing.assert_array_equal(own["place"], ds.place.sel(lens="logit", layer=1))
    means = study.by_layer(context, study._tokens, "known")
    assert (means[means["layer"] == 3]["known"] == 1).all()


def test_a_difference_of_lenses_is_that_of_their_means(context):
    found = study.earlier(context, study._tokens, "Jacobian lens", "logit lens")
    table = context.kept(study._tokens)
    means = table[table["layer"] < 3].groupby(["lens", "layer"])["known"].mean().groupby("lens").mean()
    assert found.value == pytest.approx(means["Jacobian lens"] - means["logit lens"]) and found.documents == 8


def test_how_many_texts_and_how_low_the_rank(context):
    texts, rank = study.texts(context), study.rank(context)
    assert texts["texts"].max() == 7 and texts["same"].between(0, 1).all()
    last = rank[rank["layer"] == 3].iloc[0]
    assert last["directions"] == np.ceil(0.9 * 64)  # of the identity, nine tenths of the width


def test_short_texts_are_said_to_be_short(tmp_path):
    (tmp_path / "short.txt").write_text("\n".join(tiny.texts(20)))
    context = Context(tiny.model(), (whence.read(f"text:{tmp_path / 'short.txt'}"),), tmp_path, quick=True)
    with pytest.raises(Absent, match="has 0 texts of at least 25 words, and 8 are needed"):
        study.texts(context)


def test_clozes_are_a_second_corpus(context):
    with pytest.raises(Absent, match="clozes are a second corpus"):
        context.kept(study._clozes)
