"""How predictions are explained within a memory budget: which blocks are kept, how many are pulled at a time.

Shares need of every block its attention and slopes, which are kept where there is room and computed again where there
is not; dependence needs the states alone, and one block's derivative at a time.
"""

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from whence.measures.takes import Sizes, one_pass
from whence.models.load import Model
from whence.models.memory import Needs, budget, claim
from whence.models.precision import COLUMNS, HALF

MEMORY = 2**29  # for blocks that are kept and predictions that go together, unless there is less or a limit says so
FORWARD, BACK = 1, 3  # squares alive in a block's own code: while it is run for its derivative, and per prediction
REMEDY = "explain fewer tokens at a time (position=), shorten the text, or allow more (memory_limit=)"


@dataclass(frozen=True)
class Plan:
    """Blocks kept at a time, predictions pulled at a time, steps of progress, and the bytes it takes."""

    kept: int
    portion: int
    steps: int
    takes: int


def planned(model: Model, tokens: int, predicted: int, names: Collection[str], limit: int | None) -> Plan:
    """The most that fits; refused where not even one block and one prediction do."""
    sizes = Sizes.of(model.anatomy, tokens, tuple(range(1, model.anatomy.layers + 1)), {})
    plans = [_PLANS[name](sizes, predicted, model, limit) for name in names]
    takes = max(plan.takes for plan in plans)
    claim(takes, tokens, model.device, limit, REMEDY)
    kept, portion = max(plan.kept for plan in plans), min(plan.portion for plan in plans)
    return Plan(kept, portion, sum(plan.steps for plan in plans), takes)


def _of_shares(sizes: Sizes, predicted: int, model: Model, limit: int | None) -> Plan:
    block = sizes.pairs + 3 * sizes.states + (1 + sizes.gated) * sizes.hidden + (sizes.block if sizes.half else 0)
    inside = (3 + sizes.gated) * sizes.hidden + 4 * sizes.states
    values = 2 * sizes.blocks * sizes.number * sizes.width * sizes.groups * sizes.head_width
    held = _held(sizes, predicted, model) + one_pass(sizes, {}).held + values
    room = budget(Needs(0, held, lambda memory: memory, block + inside), model.device, limit, MEMORY)
    portion = max(1, min(predicted, (room - block) // 2 // inside))
    kept = max(1, min(sizes.blocks, (room - portion * inside) // block))
    return Plan(kept, portion, 2 * sizes.blocks, held + kept * block + portion * inside)


def _of_dependence(sizes: Sizes, predicted: int, model: Model, limit: int | None) -> Plan:
    inside = BACK * sizes.pairs + (2 + sizes.gated) * sizes.hidden + 3 * sizes.states
    once = FORWARD * sizes.pairs + (3 + sizes.gated) * sizes.hidden + 6 * sizes.states
    once += sizes.block if sizes.half else 0
    held = _held(sizes, predicted, model) + once
    room = budget(Needs(0, held, lambda memory: memory, inside), model.device, limit, MEMORY)
    portion = max(1, min(predicted, room // inside))
    return Plan(1, portion, 1 + sizes.blocks, held + portion * inside)


def _held(sizes: Sizes, predicted: int, model: Model) -> int:
    """The states of all layers, the covectors before and behind a block, and the output embeddings, which a product
    with few states copies.
    """
    head = model.anatomy.head
    copied = 0 if head is None else _copied(head.decoder.weight) * sizes.number
    return (sizes.blocks + 1) * sizes.states + 3 * predicted * sizes.states + copied


def _copied(weight: Tensor) -> int:
    """Entries of the output embeddings that are copied together: some columns where they are widened."""
    return len(weight) * min(COLUMNS, weight.shape[1]) if weight.dtype in HALF else weight.numel()


_PLANS = {"share": _of_shares, "dependence": _of_dependence}
