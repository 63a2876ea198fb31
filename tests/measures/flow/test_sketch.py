"""The sketch: unbiased, exact when complete, the same for the same seed, and no better than it says."""

from itertools import pairwise

import pytest
import torch
from scipy import stats

from tests.families import batch, build
from whence.linear.probes import directions, estimate, misplaced, share_errors
from whence.measures.flow.contribution import jacobian
from whence.models.encode import encode
from whence.models.locate import locate
from whence.text.sentence import sentence

TOKENS = 6


@pytest.fixture(scope="module")
def bert():
    return locate(build("bert"))


@pytest.fixture(scope="module")
def exact(bert):
    return jacobian(bert, batch([TOKENS]), mode="exact")


@pytest.fixture(scope="module")
def encoded(builtin):
    text = "The new bridge over the river will be open to visitors in May."
    return encode(builtin.anatomy, builtin.tokenizer, sentence(text)).batch


@pytest.fixture(scope="module")
def true(builtin, encoded):
    return jacobian(builtin.anatomy, encoded, mode="exact").norms


def test_probes_are_orthogonal_and_nested():
    few, many = directions(40, 5, seed=1), directions(40, 12, seed=1)
    torch.testing.assert_close(many @ many.T, 40 * torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(few.abs(), many[:5].abs())
    assert not torch.allclose(few, directions(40, 5, seed=2))


def test_all_probes_are_exact(bert, exact):
    flow = jacobian(bert, batch([TOKENS]), mode="sketch", error=1e-6)
    assert flow.probes == 64
    torch.testing.assert_close(flow.norms, exact.norms, rtol=1e-5, atol=0)
    assert not flow.standard_error.any()


def test_unbiased():
    """E[u u^T] = I, hence E|J u|^2 = |J|^2 for any J: the mean over seeds, within its own standard error."""
    drawn = torch.stack([directions(6, 3, seed) for seed in range(3000)])
    products = drawn[..., None] * drawn[..., None, :]
    error = products.std(dim=0) / 3000**0.5
    assert ((products.mean(dim=0) - torch.eye(6)).abs() < 5 * error).all()


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_same_seed_same_numbers_whatever_the_memory(name):
    anatomy, given = locate(build(name)), batch([TOKENS])
    flows = [jacobian(anatomy, given, mode="sketch", memory=memory, seed=7) for memory in (3 * 10**5, 10**6, 2**30)]
    for flow in flows[1:]:
        assert flow.probes == flows[0].probes
        torch.testing.assert_close(flow.norms, flows[0].norms, rtol=1e-5, atol=0)
        torch.testing.assert_close(flow.standard_error, flows[0].standard_error, rtol=1e-3, atol=1e-7)
    other = jacobian(anatomy, given, mode="sketch", seed=8)
    assert not torch.allclose(other.norms, flows[0].norms)


def test_a_source_is_the_same_alone(bert):
    whole = jacobian(bert, batch([TOKENS]), mode="sketch", error=0.5)
    alone = jacobian(bert, batch([TOKENS]), mode="sketch", error=0.9, sources=[4])
    assert alone.probes == whole.probes
    torch.testing.assert_close(alone.norms[..., 0], whole.norms[..., 4], rtol=1e-5, atol=0)


@pytest.mark.parametrize("sources", [[4], [1, 4, 9]])
def test_some_sources_are_as_good_as_all(builtin, encoded, true, sources):
    """Half the mean deviation of a norm is 2 %: a single source cannot hide behind its share, which is one."""
    flow = jacobian(builtin.anatomy, encoded, mode="sketch", sources=sources, seed=1)
    assert flow.probes > 8 and 0.015 < flow.misplaced <= 0.02
    off = (flow.norms - true[..., sources]).abs().sum(dim=-1) / true[..., sources].sum(dim=-1)
    assert 0.5 * flow.misplaced < off.mean() / 2 < 2 * flow.misplaced


def test_few_targets_are_within_their_standard_errors(builtin, encoded, true):
    """Pulled probes of one target, whose errors go together along the row: norms, shares and what is misplaced."""
    norms = true[5:, [4, 9]]
    truth = norms / norms.sum(dim=-1, keepdim=True)
    held, stated, happened = [], [], []
    for seed in range(12):
        flow = jacobian(builtin.anatomy, encoded, mode="sketch", seed=seed, targets=[4, 9], layers=[6])
        margin = stats.t.ppf(0.975, flow.probes - 1)
        off = (flow.contribution - truth).abs()
        of_norms = (flow.norms - norms).abs() <= margin * flow.standard_error
        held.append(torch.stack([off <= margin * flow.contribution_error, of_norms]))
        stated.append(flow.misplaced)
        happened.append(off.sum(dim=-1).mean().item() / 2)
    assert torch.stack(held).float().mean(dim=(0, 2, 3, 4)).min() >= 0.93
    assert sum(stated) == pytest.approx(sum(happened), rel=0.25)


def test_progress_does_not_begin_again(builtin, encoded):
    """The sources that are tried first are a part of the whole; only a last round may take the share back a little."""
    told = []
    jacobian(builtin.anatomy, encoded, mode="sketch", progress=lambda done, whole: told.append((done, whole)))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    shares = [done / whole for done, whole in told]
    assert shares[-1] == 1 and min(later - share for share, later in pairwise(shares)) > -0.2


def test_sum_of_the_embeddings(bert):
    exact = jacobian(bert, batch([TOKENS]), mode="exact", start="sum").norms
    flow = jacobian(bert, batch([TOKENS]), mode="sketch", start="sum", error=0.01)
    assert ((flow.norms - exact).abs() / exact).mean() < 0.05


def test_stated_error_covers_the_true_one(builtin, encoded, true):
    """norm ± t standard errors, Student's t for 95 %, holds the true norm in 95 % of the cells."""
    held = []
    for seed in range(6):
        flow = jacobian(builtin.anatomy, encoded, mode="sketch", seed=seed)
        margin = stats.t.ppf(0.975, flow.probes - 1) * flow.standard_error
        held.append((flow.norms - true).abs() <= margin)
    assert torch.stack(held).float().mean() >= 0.95


def test_stated_error_covers_the_true_one_in_short_texts(builtin):
    """The cells of one seed go together, so that it takes many seeds."""
    given = encode(builtin.anatomy, builtin.tokenizer, sentence("Paris is in [MASK].")).batch
    short, held = jacobian(builtin.anatomy, given, mode="exact").norms, []
    for seed in range(16):
        flow = jacobian(builtin.anatomy, given, mode="sketch", seed=seed)
        margin = stats.t.ppf(0.975, flow.probes - 1) * flow.standard_error
        held.append((flow.norms - short).abs() <= margin)
    assert torch.stack(held).float().mean() >= 0.95


def test_stated_share_is_what_is_misplaced(builtin, encoded, true):
    stated, found = [], []
    truth = true / true.sum(dim=-1, keepdim=True)
    for seed in range(4):
        flow = jacobian(builtin.anatomy, encoded, mode="sketch", error=0.03, seed=seed)
        stated.append(flow.misplaced)
        found.append((flow.contribution - truth).abs().sum(dim=-1).mean().item() / 2)
        assert flow.misplaced <= 0.03 < 1.4 * misplaced(flow.share_error)
    assert sum(stated) / 4 == pytest.approx(sum(found) / 4, rel=0.1)


def test_tighter_costs_more(bert):
    flows = [jacobian(bert, batch([TOKENS]), mode="sketch", error=error) for error in (0.04, 0.02)]
    assert flows[0].probes < flows[1].probes
    assert flows[0].standard_error.mean() > flows[1].standard_error.mean()


@pytest.mark.parametrize("together", [0.0, 0.9], ids=["independent", "correlated"])
def test_share_errors_are_those_of_simulated_shares(together):
    """Whether the norms of a row err alone or together: what they have in common no share sees."""
    generator, count = torch.Generator().manual_seed(0), 40_000
    common, own = (torch.randn(count, 1, 1, sources, generator=generator) for sources in (1, 3))
    relative = 1 + 0.02 * (together**0.5 * common + (1 - together) ** 0.5 * own)
    norms = torch.tensor([[[3.0, 1.0, 2.0]]])
    drawn = norms * relative.sqrt()
    expected = (drawn / drawn.sum(dim=-1, keepdim=True)).std(dim=0) / count**0.5
    found = share_errors(norms.square() * relative, width=10**9, careful=False)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0)


def test_cells_without_flow_have_no_error():
    squares = torch.rand(6, 1, 3, 3).tril()
    norms, errors = estimate(squares, 10)
    assert not norms.triu(diagonal=1).any() and not errors.triu(diagonal=1).any()
    assert errors.isfinite().all()


def test_auto_is_exact_where_that_takes_seconds(builtin, encoded):
    """Few tokens, few sources or few targets: it is the work that counts."""
    anatomy = builtin.anatomy
    assert jacobian(anatomy, encoded, layers=[1], sources=[1]).standard_error is None
    assert jacobian(anatomy, encoded, layers=[3], targets=[1]).standard_error is None
    assert jacobian(anatomy, encoded, error=0.3).standard_error is not None


def test_norms_whose_squares_are_tiny_have_errors_too():
    """State-space models forget: a derivative of 1e-12 is no rarity, and its fourth power is zero in float32."""
    squares = 1e-30 * torch.rand(6, 1, 2, 3)
    norms, errors = estimate(squares, 64)
    expected, relative = estimate(squares.double(), 64)
    torch.testing.assert_close(norms.double(), expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(errors.double(), relative, rtol=1e-4, atol=0)
