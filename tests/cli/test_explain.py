"""What explain measures unasked: as much as fits into memory and on a page; of an encoder-decoder both texts."""

import json

import pytest

from tests import stacks, tiny
from whence.cli import explain
from whence.cli.serve import serve
from whence.cli.shared import Source
from whence.errors import Unsupported
from whence.measures.registry import given_by


@pytest.mark.parametrize(("tokens", "targets", "left"), [(50, None, 0), (2000, None, 4), (2000, [-1], 0)])
def test_what_does_not_fit_is_left_out_and_said(builtin, capsys, tokens, targets, left):
    names = given_by(builtin.gives, explain.EXPLAINED)
    kept = explain._fitting(builtin, names, tokens, None, targets)
    assert kept[0] == "mixing" and len(names) - len(kept) == left
    said = capsys.readouterr().err
    assert ("2,000 tokens would take" in said and "--targets -1" in said) if left else not said


@pytest.fixture(scope="module")
def two_stacks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two_stacks")
    stacks.build("t5").save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("prefix", [None, "fay gus"])
def test_an_encoder_decoder_is_explained_with_a_prefix_or_its_own_answer(two_stacks, tmp_path, capsys, prefix):
    page = tmp_path / "page.html"
    explain.explain("ada bo cy", prefix=prefix, out=page, source=Source(model=two_stacks))
    said = capsys.readouterr().out
    assert "Main sources" in said and "The page: " in said
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert [text["title"] for text in data["texts"]] == ["Source", "Answer"]
    assert data["panels"][0] == "alignment" and data["alignment"]["maps"][0] == "decomposition_share"
    assert [token["text"] for token in data["tokens"]] == [token["text"] for token in data["why"]["tokens"]]
    places = [one["place"] for one in data["why"]["predicted"]]
    border = data["texts"][1]["first"]
    if prefix is None:
        assert places and places == list(range(places[0], len(data["tokens"]))), "each token of its answer"
    else:
        assert places == [-1] and [token["text"] for token in data["tokens"][border:]][-2:] == ["fay", "gus"]


def test_the_explorer_refuses_two_stacks_by_name(two_stacks):
    with pytest.raises(Unsupported, match=r"The explorer shows models of one stack, and .* has two; `whence explain`"):
        serve(two_stacks, browse=False)
