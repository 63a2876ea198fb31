"""The pass as a linear map, in both readings: pulled as it is pushed, a product of its pieces, and the model's own."""

from dataclasses import replace

import pytest
import torch
from torch.func import jacrev

from tests.families import DISTINCT, NO_VALUE_MAP, UNREAD_EXPERTS, batch, build
from whence.errors import Unsupported
from whence.linear.chain import tangents
from whence.linear.matrices import matrices
from whence.linear.secant import secants
from whence.linear.tangent import by_parts
from whence.models.encode import encode
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.text.sentence import sentence

TOKENS = 5


def pairs(like, count=2):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(count, *like.shape, generator=generator, dtype=torch.float64).to(like) for _ in range(2))


def check(model):
    """u (M v) = (u M) v between any two layers, and from a to c is from a to b, then from b to c, both ways."""
    vectors, covectors = pairs(model.last)
    depth = len(model.blocks)
    for start, end in ((0, depth), (1, depth), (0, 1)):
        pushed, pulled = model.push(vectors, start, end), model.pull(covectors, end, start)
        products = covectors * pushed
        error = (products.sum(dim=(1, 2)) - (pulled * vectors).sum(dim=(1, 2))).abs()
        assert (error <= 1e-6 * products.abs().sum(dim=(1, 2))).all()
    for middle in {1, depth // 2, depth - 1}:
        torch.testing.assert_close(model.push(model.push(vectors, 0, middle), middle), model.push(vectors))
        torch.testing.assert_close(model.pull(model.pull(covectors, None, middle), middle), model.pull(covectors))


@pytest.mark.parametrize("name", DISTINCT)
def test_the_tangent_of_every_kind_of_block(name):
    with tangents(locate(build(name).double()), batch([TOKENS])) as model:
        check(model)


@pytest.mark.parametrize("name", [name for name in DISTINCT if name not in NO_VALUE_MAP | UNREAD_EXPERTS])
def test_the_secant_of_every_kind_of_block(name):
    check(secants(locate(build(name).double()), batch([TOKENS])))


@pytest.mark.parametrize(("name", "text"), [("builtin", "Paris is the capital of [MASK]."), ("smollm2", "Paris is")])
def test_real_weights(name, text, request):
    loaded = request.getfixturevalue(name)
    given = encode(loaded.anatomy, loaded.tokenizer, sentence(text)).batch
    check(secants(loaded.anatomy, given))
    with tangents(loaded.anatomy, given) as model:
        check(model)


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "olmo2", "phi", "mixtral", "xlnet"])
def test_the_tangent_is_jacrev_end_to_end(name):
    """Of the blocks' own code, composed; from layer 0 and from a middle one."""
    anatomy, given = locate(build(name)), batch([4])
    with linearised(anatomy, given) as chain:
        own = [jacrev(step.block)(step.states) for step in chain.steps]
    with tangents(anatomy, given) as model:
        vectors, covectors = pairs(model.last)
        for start in (0, 1):
            jacobian = own[start]
            for block in own[start + 1 :]:
                jacobian = torch.tensordot(block, jacobian, dims=2)
            pushed = torch.einsum("tmsn,ksn->ktm", jacobian, vectors)
            pulled = torch.einsum("ktm,tmsn->ksn", covectors, jacobian)
            for found, expected in ((model.push(vectors, start), pushed), (model.pull(covectors, None, start), pulled)):
                assert (found - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "phi"])
def test_a_wrong_transpose_is_found_out(name, monkeypatch):
    """The pull of a block by its parts, and of its matrices, is held against the block's own."""
    with linearised(locate(build(name)), batch([TOKENS])) as chain:
        step = chain.steps[-1]
        parts = by_parts(step, back=True)
        assert parts is not None and matrices(step, parts, 50, back=True) is not None
        monkeypatch.setattr("whence.linear.tangent.heads_pull", lambda attended, heads: _wrong(attended, heads))
        monkeypatch.setattr("whence.linear.matrices.heads_pull", lambda attended, heads: _wrong(attended, heads))
        assert by_parts(step, back=True) is None and by_parts(step) is not None
        assert matrices(step, parts, 50, back=True) is None and matrices(step, parts, 50) is not None


def _wrong(attended, heads):
    groups = len(attended.key)
    return heads[..., : groups * attended.key.shape[-1]], heads[..., : groups * attended.value.shape[-1]]


def test_paths_beside_the_stream_are_refused():
    anatomy = replace(locate(build("bert")), side_paths=True)
    with pytest.raises(Unsupported, match="no product of its blocks'"), tangents(anatomy, batch([TOKENS])):
        pass
