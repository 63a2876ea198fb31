"""A model that writes letters backwards copies each from a known place: contributions and shares have to find it."""

import numpy as np
import pytest
import torch

import whence
from tests.reversing import begun, tokenizer, trained, words

WORDS = 8


@pytest.fixture(scope="module")
def model():
    return whence.load(trained(), tokenizer())


@pytest.fixture(scope="module")
def found(model):
    """By measure, whether the largest of the source's shares is the copied letter's; and whether the model is right."""
    generator, hits = torch.Generator().manual_seed(7), dict[str, list[bool]]()
    for _ in range(WORDS):
        source = words(generator, 1)
        target = source.flip(1)
        copied = np.arange(source.shape[1])[::-1]
        pair = source[0].tolist(), begun(target)[0].tolist()
        cross = whence.measure(model, pair, ["contribution", "decomposition"], layers=[2])["cross"]
        ds = whence.why(model, source[0].tolist(), answer=target[0].tolist(), measures="share")
        maps = {name: cross[name].values[-1] for name in ("contribution", "decomposition", "decomposition_signed")}
        maps |= {"share": ds.share.values[:, 0, : len(copied)]}
        for name, values in maps.items():
            hits.setdefault(name, []).extend(values.argmax(axis=1) == copied)
        hits.setdefault("right", []).extend(ds.place.values == 1)
    return {name: float(np.mean(each)) for name, each in hits.items()}


def test_the_model_has_learnt_it(found):
    assert found["right"] >= 0.99


@pytest.mark.parametrize("name", ["contribution", "decomposition", "decomposition_signed", "share"])
def test_the_copied_letter_is_found(found, name):
    assert found[name] >= 0.95


def test_an_untrained_model_finds_nothing(model):
    """So that the test can fail: with its weights shuffled the largest share is anywhere."""
    import copy

    network = copy.deepcopy(model.model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))
    shuffled, hits = whence.load(network, model.tokenizer), []
    for _ in range(5):
        source = words(generator, 1)
        ds = whence.why(shuffled, source[0].tolist(), answer=source.flip(1)[0].tolist(), measures="share")
        length = source.shape[1]
        hits.extend(ds.share.values[:, 0, :length].argmax(axis=1) == np.arange(length)[::-1])
    assert np.mean(hits) < 0.6


def test_it_writes_letters_backwards_by_itself(model):
    ds = whence.why(model, "c a f e", generate=4, spans="word")
    assert ds.attrs["answer"].split() == ["e", "f", "a", "c"]
    shares = ds.share.sel(layer=0).values[:, :4]
    assert shares.argmax(axis=1).tolist() == [3, 2, 1, 0]
