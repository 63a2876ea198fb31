"""Effective attention equals a full SVD of every row, for every family; its identities hold on any numbers."""

import dataclasses
import itertools

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.families import DISTINCT, batch, build
from tests.measures.rows import (
    MASKS,
    allowed,
    apart,
    block_of,
    everything,
    naive_projection,
    outputs_per_source,
    padded_batch,
    random_block,
)
from whence.measures.attention import spaces, supports
from whence.measures.attention.effective import correlation, effective, nullity, nullity_with_sums, rank
from whence.models.block import Batch
from whence.models.capture import trace
from whence.models.locate import locate
from whence.models.weights import Projection

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT = (
    "The history of the city begins in the ninth century, when merchants from the north built a small harbour at the"
    " mouth of the river and traded furs, amber and salt with the towns of the south. In later centuries the harbour"
    " grew, and with it the quarrels between the guilds and the bishop, who claimed the right to tax every ship that"
    " entered the river. A great fire destroyed most of the wooden houses; the new town was built of brick."
)


def traced(name: str, lengths: tuple[int, ...], side: str, **more):
    model = build(name, **more)
    return trace(locate(model), padded_batch(model.config.vocab_size, lengths, side))


TRACED = {name: traced(name, (30, 22), "right") for name in ("bert", "llama")}


@pytest.mark.parametrize("name", DISTINCT)
def test_equals_the_svd_of_every_row_in_every_family(name):
    found = traced(name, (34, 20, 9), "right")
    for block in found.blocks:
        assert apart(effective(block, found.batch.mask), naive_projection(block, found.batch.mask)) < 1e-5


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("bert", {}),
        ("xlnet", {}),
        ("llama", {}),
        ("gpt2", {}),
        ("mistral", {"sliding_window": 22}),
        ("gemma2", {"sliding_window": 19}),
        ("modernbert", {"local_attention": 44}),
    ],
)
def test_equals_it_with_padding_on_the_left_and_windows_wider_than_a_head(name, more):
    found = traced(name, (36, 26, 12), "left", **more)
    for block in found.blocks:
        assert apart(effective(block, found.batch.mask), naive_projection(block, found.batch.mask)) < 1e-5


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("length", [6, 8, 9, 30])
def test_float64_agrees_to_ten_digits(kind, length):
    block = random_block(kind, length, width=8, dtype=torch.float64)
    found = effective(block, everything(block))
    assert found.dtype == torch.float64
    assert apart(found, naive_projection(block, everything(block))) < 1e-10


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("decades", [3, 5, 9])
def test_ill_conditioned_values(kind, decades):
    """Singular values over many decades: kept or dropped as the SVD does, within float32's five digits."""
    block = random_block(kind, 30, width=8)
    sizes = torch.logspace(0, -decades, 8)
    sizes = torch.where(sizes < 1e-4, sizes * 1e-3, sizes)  # nothing near the tolerance, where either answer is right
    block = dataclasses.replace(block, grouped_values=block.grouped_values * sizes)
    assert apart(effective(block, everything(block)), naive_projection(block, everything(block))) < 1e-5


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("length", [7, 24])
@pytest.mark.parametrize("repeated", [1, 3, 6])
def test_equal_tokens_share_their_weight(kind, length, repeated):
    block = random_block(kind, length, width=8)
    values = block.grouped_values[:, :, torch.arange(length) % (length // 2) // repeated * repeated]
    block = dataclasses.replace(block, grouped_values=values)
    assert apart(effective(block, everything(block)), naive_projection(block, everything(block))) < 1e-5


@pytest.mark.parametrize("kind", MASKS)
def test_zero_values_get_no_weight(kind):
    block = random_block(kind, 20, width=8)
    values = block.grouped_values.clone()
    values[:, :, [0, 3]] = 0
    values[0, 1] = 0
    found = effective(dataclasses.replace(block, grouped_values=values), everything(block))
    assert found[..., [0, 3]].abs().max() < 1e-6
    assert found[0, 2:].abs().max() == 0


def test_a_projection_changed_behind_torchs_back_is_noticed(monkeypatch):
    """What is known of a projection is remembered; a change through .data leaves a tensor's version as it was."""
    asked, own_room = [], spaces._room
    monkeypatch.setattr(spaces, "_room", lambda weight: asked.append(weight) or own_room(weight))
    spaces._rooms.clear()
    anatomy, tokens = locate(build("bert")), batch([40])

    def correct():
        return all(
            apart(effective(block, tokens.mask), naive_projection(block, tokens.mask)) < 1e-5
            for block in trace(anatomy, tokens).blocks
        )

    assert correct() and correct()
    assert len(asked) == anatomy.layers
    for module in anatomy.projections.values():
        module.weight.data[:, 1] = module.weight.data[:, 0]
    assert correct()
    assert len(asked) == 2 * anatomy.layers


def test_a_projection_that_lacks_rank_leaves_less():
    found = traced("llama", (30,), "right")
    block = found.blocks[1]
    weight = block.parts.projection.weight.clone()
    weight[1, 5:] = weight[1, :11]
    weight[2] = 0
    block = dataclasses.replace(block, parts=dataclasses.replace(block.parts, projection=Projection(weight, None)))
    got = effective(block, found.batch.mask)
    assert apart(got, naive_projection(block, found.batch.mask)) < 1e-5
    assert rank(block, found.batch.mask).tolist() == [[16, 5, 0, 16]]
    assert got[:, 2].abs().max() == 0


def with_slices(block, sizes):
    """The block with the singular values of each head's slice of W_O changed to these."""
    left, _, right = torch.linalg.svd(block.parts.projection.weight, full_matrices=False)
    weight = left * sizes.to(left)[:, None] @ right
    return dataclasses.replace(block, parts=dataclasses.replace(block.parts, projection=Projection(weight, None)))


@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize("least", [1e-2, 3e-4, 1e-7])
def test_a_projection_that_nearly_lacks_rank_counts_past_it(name, least):
    """Heads that share their values differ in what they pass on; V alone has full rank in all of them."""
    found = traced(name, (34, 30), "right")
    mask = found.batch.mask
    sizes = torch.ones(4, 16)
    sizes[1, 9:], sizes[3, -1] = least, least
    block = with_slices(found.blocks[1], sizes)
    assert apart(effective(block, mask), naive_projection(block, mask)) < 1e-5
    assert rank(block, mask).tolist() == by_svd(block, mask)
    assert rank(block, mask)[0].tolist() == ([16, 9, 16, 15] if least < 1e-6 else [16] * 4)


@given(st.sampled_from(["bert", "llama"]), st.floats(0, 8), st.floats(0, 3), st.integers(0, 2**16))
@settings(deadline=None, max_examples=30)
def test_rank_is_that_of_values_and_projection_together(name, decades, more, seed):
    """However the small singular values are shared out between V and W_O, the same tolerance rule on T decides."""
    torch.manual_seed(seed)
    found = TRACED[name]
    block = with_slices(found.blocks[0], torch.logspace(0, -decades, 16).expand(4, -1))
    turned = block.grouped_values * torch.logspace(0, -more, 16)
    block = dataclasses.replace(block, grouped_values=turned[..., torch.randperm(16)])
    assert rank(block, found.batch.mask).tolist() == by_svd(block, found.batch.mask)


def by_svd(block, mask):
    """Ranks by the singular values of T itself; a size within a millionth of the limit would be anybody's guess."""
    counted = []
    for values, real in zip(outputs_per_source(block), mask, strict=True):
        sizes = torch.linalg.svdvals(values[:, real])
        limit = torch.finfo(torch.float32).eps * max(int(real.sum()), block.grouped_values.shape[-1]) * sizes[:, :1]
        counted.append((sizes > limit).sum(dim=-1).tolist())
    return counted


@given(st.sampled_from(MASKS), st.integers(2, 24), st.integers(1, 9), st.sampled_from([1, 2, 4]), st.integers(0, 2**16))
@settings(deadline=None, max_examples=40)
def test_identities(kind, length, width, groups, seed):
    torch.manual_seed(seed)
    block = random_block(kind, length, width, groups=groups, dtype=torch.float64)
    mask = everything(block)
    found = effective(block, mask)
    outputs = outputs_per_source(block)
    assert torch.allclose(found @ outputs, block.attention @ outputs, atol=1e-9)
    again = effective(dataclasses.replace(block, attention=found), mask)
    assert torch.allclose(again, found, atol=1e-9)
    if block.mask is not None:
        assert found.masked_fill(block.mask, 0).abs().max() == 0
    if length <= width:
        assert torch.equal(found, block.attention)


@given(st.integers(2, 14), st.integers(0, 9), st.sampled_from(["left", "right"]), st.booleans(), st.integers(0, 2**16))
@settings(deadline=None, max_examples=25)
def test_padding_and_the_order_of_the_batch_change_nothing(length, more, side, causal, seed):
    torch.manual_seed(seed)
    block = random_block("causal" if causal else "all", length, width=4)
    size = (more, 0) if side == "left" else (0, more)
    pad = torch.nn.functional.pad
    junk = torch.randn(2, 2, length + more, 4)
    real = pad(everything(block), size)
    mask = allowed("causal" if causal else "all", length + more)
    wider = block_of(
        pad(block.attention, (*size, *size), value=0.25),
        torch.where(real[:, None, :, None], pad(block.grouped_values, (0, 0, *size)), junk),
        None if mask is None else mask.expand(2, -1, -1, -1),
    )
    plain, padded = effective(block, everything(block)), effective(wider, real)
    assert torch.allclose(padded, pad(plain, (*size, *size)), atol=2e-6)
    assert torch.equal(rank(wider, real), rank(block, everything(block)))
    swapped = dataclasses.replace(
        block,
        attention=block.attention.flip(0),
        grouped_values=block.grouped_values.flip(0),
    )
    assert torch.allclose(effective(swapped, everything(block)).flip(0), plain, atol=1e-6)


def test_no_weight_on_the_future_in_a_decoder():
    found = traced("llama", (30, 20), "left")
    for block in found.blocks:
        assert effective(block, found.batch.mask).triu(diagonal=1).abs().max() == 0


def test_rank_and_nullity_count_real_tokens():
    block = random_block("all", 20, width=8)
    mask = everything(block)
    mask[1, 6:] = False
    assert rank(block, mask).tolist() == [[8] * 4, [6] * 4]
    assert nullity(block, mask).tolist() == [[12] * 4, [0] * 4]
    assert nullity_with_sums(block, mask).tolist() == [[11] * 4, [0] * 4]


def test_a_constant_value_already_keeps_the_sum():
    block = random_block("all", 20, width=8)
    values = block.grouped_values.clone()
    values[..., 0] = 3
    block = dataclasses.replace(block, grouped_values=values)
    assert nullity_with_sums(block, everything(block)).tolist() == nullity(block, everything(block)).tolist()


def test_the_tolerance_is_relative_to_the_largest_singular_value():
    block = random_block("all", 20, width=8)
    block = dataclasses.replace(block, grouped_values=1e-6 * block.grouped_values * torch.logspace(0, -3, 8))
    mask = everything(block)
    assert rank(block, mask).unique().tolist() == [8]
    assert int(rank(block, mask, tolerance=0.05).max()) < 8
    loose = effective(block, mask, tolerance=0.05)
    assert apart(loose, naive_projection(block, mask, eps=0.05 / 20)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_float32(dtype):
    block = random_block("causal", 20, width=8)
    half = dataclasses.replace(
        block, attention=block.attention.to(dtype), grouped_values=block.grouped_values.to(dtype)
    )
    found = effective(half, everything(block))
    assert found.dtype == torch.float32
    assert apart(found, naive_projection(half, everything(block))) < 1e-5


def test_on_real_weights_of_an_encoder(builtin):
    for words, limit in ((12, 1.0), (50, 0.9)):
        encoded = builtin.tokenizer(" ".join(TEXT.split()[:words]), return_tensors="pt")["input_ids"]
        found = trace(builtin.anatomy, _batch(encoded))
        for block in found.blocks[::5]:
            got = effective(block, found.batch.mask)
            assert apart(got, naive_projection(block, found.batch.mask)) < 1e-5
            pair = torch.stack([got.flatten(), block.attention.float().flatten()])
            assert torch.corrcoef(pair)[0, 1] <= limit + 1e-6


@pytest.mark.slow
def test_on_real_weights_of_a_decoder_where_equal_tokens_have_equal_values(smollm2):
    encoded = smollm2.tokenizer(TEXT, return_tensors="pt")["input_ids"]
    found = trace(smollm2.anatomy, _batch(encoded))
    for layer in (1, 2, 15):
        block = found.blocks[layer - 1]
        got = effective(block, found.batch.mask)[:, 3:6]
        group = block_of(block.attention[:, 3:6], block.grouped_values[:, 1:2], block.mask)
        assert apart(got, naive_projection(group, found.batch.mask)) < 1e-5


def _batch(ids):
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool))


@pytest.mark.parametrize(("name", "side"), [("bert", "right"), ("llama", "left")])
def test_correlation_equals_numpy_over_the_pairs_that_see_each_other(name, side):
    found = traced(name, (34, 9), side)
    mask = found.batch.mask
    for block in found.blocks:
        given, reached = correlation(block, mask), effective(block, mask)
        for row in range(2):
            real = mask[row].nonzero()[:, 0]
            seen = torch.ones(len(real), len(real), dtype=torch.bool)
            seen = seen.tril() if name == "llama" else seen
            for head in range(block.attention.shape[1]):
                pair = [part[row, head][real][:, real][seen].double().numpy() for part in (block.attention, reached)]
                assert abs(numpy.corrcoef(*pair)[0, 1] - float(given[row, head])) < 1e-5
    assert bool((correlation(found.blocks[0], mask)[1] > 1 - 1e-5).all())  # nine tokens have no null space


def test_a_gram_matrix_is_trusted_where_its_rank_is_certain():
    """A smallest value far above the cut, one below it, and one above it in a matrix that loses too many digits."""
    conditions = torch.tensor([10.0, 1e4, 1e6], dtype=torch.float64)
    cuts = torch.tensor([1e-3, 1e-3, 1e-12], dtype=torch.float64)
    assert spaces.trusted(conditions, cuts).tolist() == [True, False, False]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_heads_may_see_different_sources(groups):
    """Against a pseudo-inverse of what each row of each head sees; the heads of a group share their values."""
    weights, values = torch.rand(2, 4, 9, 9).double(), torch.randn(2, groups, 9, 3).double()
    seen = (torch.rand(2, 4, 9, 9) < 0.6) | torch.eye(9, dtype=torch.bool)
    found = supports.project(weights, values, seen, spaces.Cut(None, torch.float64))
    for batch_row, head, target in itertools.product(range(2), range(4), range(9)):
        chosen = seen[batch_row, head, target]
        own = values[batch_row, head * groups // 4, chosen]
        expected = torch.zeros(9).double()
        expected[chosen] = weights[batch_row, head, target, chosen] @ own @ torch.linalg.pinv(own)
        assert torch.allclose(found[batch_row, head, target], expected, atol=1e-9)
