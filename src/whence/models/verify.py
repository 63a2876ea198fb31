"""Proof that a model is read correctly: the parts sum to the whole, rows sum to one, logits unchanged, every layer run.

Runs once per loaded model, before anything is measured. Every silent failure known in transformers models fails
one of these checks: attention implementations that hand out no weights, ignored settings, masks that vanish, attention
sinks, states past the final norm, positions shifted by padding.
"""

import itertools
import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from whence.errors import Unsupported, VerificationFailed
from whence.models.affine import MERGE, adapters
from whence.models.agreement import apart, unlike
from whence.models.anatomy import INTERFACE, Anatomy, ClassHead
from whence.models.arguments import arguments
from whence.models.batching import pad, padding_id
from whence.models.block import Batch, Block, Trace
from whence.models.capture import arguments_of, borrowed, run, walk
from whence.models.end_to_end import CLOSE, missed
from whence.models.experts import routes
from whence.models.families import Mlp
from whence.models.hooks import here
from whence.models.linearise import quantised
from whence.models.locate import WHERE, on_tokens_alone, probe, reason_of
from whence.models.places import misplaced
from whence.models.precision import is_packed
from whence.models.towers import Tower, ending, features
from whence.models.weights import Opaque, Parts, Projection, first

# largest error of a token, relative to its own size, that rounding explains in each dtype; float64 is held to float32's
# because most model files compute softmax and norms in float32 whatever they are given
LIMITS = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
ROUNDING = 10  # times that limit: what large scores of attention make of rounding (UMT5 with random weights)

# whence itself pads on the right, so a family that shifts under left padding can still be measured
PADDING = {"left": "left padding", "right": None}

# attention in chunks of queries, so many at a time in the check: no divisor of the probe's length
LONG, QUERIES = "long texts", 3
CLASSES = "classes"


@dataclass(frozen=True)
class Check:
    """One check: what was compared, how far apart it was, the capability that a failure takes away, and why nothing
    could be compared, where that is so.
    """

    name: str
    gives: str
    error: float
    limit: float
    reason: str = ""

    @property
    def passed(self) -> bool:
        return self.error <= self.limit


@dataclass(frozen=True)
class _Seen:
    """What is kept of one block: its states, and how far its parts were off; its weights are there only meanwhile."""

    layer: int
    attends: bool
    attention: Tensor
    input: Tensor
    output: Tensor
    negative: float
    rows: float
    found: bool
    "Whether it has an output projection that can be read."
    projection: float
    "Infinite where it has not."
    parts: float
    experts: bool


@dataclass(frozen=True)
class _Evidence:
    """What the checks compare: the model unhooked (its logits and its last block's output), hooked, hooked with padding
    on either side, and the output of the stack run on its own.
    """

    anatomy: Anatomy
    batch: Batch
    plain: Tensor
    states: Tensor
    hooked: Trace[_Seen]
    padded: dict[str, Trace[Tensor]]
    alone: Tensor


def verify(anatomy: Anatomy) -> tuple[Check, ...]:
    """All checks with their errors; raises when the model cannot be read at all or its family's row is wrong.

    Of an encoder-decoder those of the decoder, with its encoder before it.
    """
    checks = _checks(_gather(anatomy))
    failed = [check for check in checks if not check.passed]
    wrong = [check for check in failed if _contradicts(check, anatomy)] if anatomy.is_known else []
    if wrong:
        raise VerificationFailed(_sentence(anatomy, wrong[0], _advice(anatomy, wrong[0])))
    vital = [check for check in failed if check.gives == _least(anatomy)]
    if vital:
        raise Unsupported(_sentence(anatomy, vital[0], WHERE))
    return checks


def check_ending(model: PreTrainedModel, tower: Tower, anatomy: Anatomy) -> None:
    """Refuses a tower whose vector is not what the whole model makes of the same text or picture."""
    batch = probe(anatomy.model)
    with borrowed(model, seam=None), torch.no_grad():
        inputs = batch.inputs or {"input_ids": batch.ids}
        own = features(model, tower, arguments(model, replace(batch, inputs=inputs)))
        states = walk(anatomy, batch, lambda block: block.output).blocks[-1]
        error = unlike(ending(model, tower, batch)(anatomy.finish(states)[0])[None], own[None])
    if not error <= LIMITS[own.dtype]:
        raise VerificationFailed(
            f"{type(model).__name__} makes another vector than was expected of its part {tower.part} (error"
            f" {error:.2g}), so nothing was measured; give one of its towers alone."
        )


def check_pictured(anatomy: Anatomy, batch: Batch) -> None:
    """Refuses a model that was read right with a text alone, and is not with pictures in it: some add parts of them to
    the states between blocks (Qwen3-VL).
    """
    seen = walk(anatomy, batch, partial(_seen, anatomy), logits=True)
    plain, states = _left_alone(anatomy, batch)
    assert seen.logits is not None
    attending = [block for block in seen.blocks if block.attends]
    limit = LIMITS[plain.dtype]
    checks = [
        Check("every block reads what the one before gave", "derivatives", _broken(seen.blocks), 0.0),
        Check("logits are what the model gives unwatched", "attention", unlike(seen.logits, plain), limit),
        Check("the last block's states are those unwatched", "attention", apart(seen.blocks[-1].output, states), limit),
        Check("attention rows sum to one", "rows", max((block.rows for block in attending), default=0.0), limit),
        Check("block outputs are the sum of their parts", "norms", max(block.parts for block in seen.blocks), limit),
    ]
    if failed := [check for check in checks if not check.passed and math.isfinite(check.error)]:
        raise Unsupported(_sentence(anatomy, failed[0], "with a picture it is not read; give the text alone"))


def _contradicts(check: Check, anatomy: Anatomy) -> bool:
    """Whether a failure means that the family's row is wrong; NaN under left padding is the model's own fault, as in
    MPT and BLOOM in float64, while a shift would mean that positions are misread. Quantised weights have no
    derivatives, and a head that scores classes is often somebody's own.
    """
    own_fault = check.gives == PADDING["left"] and math.isinf(check.error)
    underived = check.gives == "derivatives" and quantised(anatomy)
    return check.gives not in anatomy.lacks | {LONG, CLASSES} and not own_fault and not underived


def _advice(anatomy: Anatomy, check: Check) -> str:
    if adapters(anatomy.model):
        return MERGE
    if any(map(is_packed, anatomy.model.parameters())):
        return "load it unquantised, or with weights alone quantised"
    if check.limit < check.error < ROUNDING * check.limit and anatomy.model.dtype == torch.float32:
        return "load it with dtype='float64', where rounding passes, and else report it with both versions"
    return "please report it with both versions"


def capabilities(checks: tuple[Check, ...]) -> frozenset[str]:
    """What may be measured: a capability is there when it was checked and none of its checks failed."""
    failed = {check.gives for check in checks if not check.passed}
    return frozenset(check.gives for check in checks) - failed


def _least(anatomy: Anatomy) -> str:
    """The capability a model needs to be read at all: derivatives where no layer attends."""
    return "attention" if anatomy.attending else "derivatives"


def _gather(anatomy: Anatomy) -> _Evidence:
    batch = probe(anatomy.model)
    hooked = walk(anatomy, batch, partial(_seen, anatomy), logits=True)
    plain, states = _left_alone(anatomy, batch)
    padded = {side: _padded(anatomy, pad(batch, side, padding_id(anatomy), 3)) for side in _sides(batch)}
    with on_tokens_alone(anatomy.stack, anatomy.model):
        alone = walk(anatomy, batch, lambda block: None).output
    return _Evidence(anatomy, batch, plain, states, hooked, padded, alone)


def _sides(batch: Batch) -> list[str]:
    """Pictures and sounds are measured one at a time, so they are never padded."""
    return list(PADDING) if batch.inputs is None else []


def _padded(anatomy: Anatomy, batch: Batch) -> Trace[Tensor]:
    return walk(anatomy, batch, lambda block: block.output, logits=True)


def _seen(anatomy: Anatomy, block: Block) -> _Seen:
    parts, projection = block.parts, anatomy.projection(anatomy.blocks[block.layer - 1])
    unread = block.projected is None or (block.cross is not None and block.cross.projected is None)
    attentions = [
        attending.attention
        for attending in (block, block.cross)
        if attending is not None and attending.attention.shape[1]
    ]
    return _Seen(
        layer=block.layer,
        attends=block.attends,
        attention=block.attention,
        input=block.input,
        output=block.output,
        negative=max(map(_negative_error, attentions), default=0.0),
        rows=max(map(_row_error, attentions), default=0.0),
        found=projection is not None,
        projection=math.inf if projection is None or unread else max(_projection_errors(block, projection)),
        parts=math.inf if parts is None or unread else _block_error(block),
        experts=parts is not None and isinstance(parts.feed_forward, Opaque) and _has_experts(block, parts),
    )


def _left_alone(anatomy: Anatomy, batch: Batch) -> tuple[Tensor, Tensor]:
    """The outputs of the model and of its last block, batch first, without hooks."""
    states: list[Tensor] = []
    with ExitStack() as hooks, borrowed(anatomy.model, seam=None), torch.no_grad():
        keep = here(lambda _, __, output: states.append(first(output)))
        hooks.callback(anatomy.blocks[-1].register_forward_hook(keep).remove)
        plain = run(anatomy.model, batch, **(arguments_of(anatomy) | {"output_attentions": False}))
    return plain, states[-1].transpose(0, anatomy.batch_axis)


def _checks(evidence: _Evidence) -> tuple[Check, ...]:
    limit = LIMITS[evidence.plain.dtype]
    blocks, anatomy = evidence.hooked.blocks, evidence.anatomy
    assert evidence.hooked.logits is not None
    added = apart(blocks[-1].output, evidence.states, beside=evidence.hooked.embedding)
    unwatched = max(unlike(evidence.hooked.logits, evidence.plain), added)
    alone = unlike(evidence.alone, evidence.hooked.output)
    checks = [
        Check("logits are what the model gives unwatched", _least(anatomy), unwatched, limit),
        Check("the stack does alone what it does in the model", _least(anatomy), alone, limit),
        *(_padding_check(side, evidence, 3 * limit) for side in evidence.padded),
        Check("every block reads what the one before gave", "derivatives", _broken(blocks), 0.0),
        _derivatives_check(anatomy, CLOSE[evidence.plain.dtype]),
    ]
    if "pixel_values" in (evidence.batch.inputs or {}):
        wrong = misplaced(anatomy, evidence.batch)
        checks.append(Check("every patch is read by its own token alone", _least(anatomy), wrong, 0.0))
    finished = anatomy.finish(blocks[-1].output)
    heads = []
    if anatomy.head is not None:
        heads.append(
            Check("the LM head gives the logits", "lm_head", unlike(anatomy.head(finished), evidence.plain), limit)
        )
    attending = tuple(block for block in blocks if block.attends)
    if not attending:
        return (*checks, *heads)
    checks = [
        Check("every layer was seen once", "attention", _unseen(anatomy, blocks), 0.0),
        Check("attention is never negative", "attention", max(block.negative for block in attending), 0.0),
        Check("attention rows sum to one", "rows", max(block.rows for block in attending), limit),
        Check("every layer attends", "attention throughout", float(len(anatomy.unattending)), 0.0),
        *checks,
    ]
    if anatomy.seam == INTERFACE and anatomy.outside is None and anatomy.encoder is None:
        checks.append(_chunks_check(evidence, 3 * limit))
    lost = sum(not block.found for block in attending)
    checks.append(Check("every output projection was found", "values", float(lost), 0.0))
    if lost == 0:
        error = max(block.projection for block in attending)
        checks.append(Check("heads sum to the projection", "values", error, limit))
    if anatomy.row is None or lost:
        return (*checks, *heads)
    summed = max(block.parts for block in blocks)
    checks += [
        Check("block outputs are the sum of their parts", "norms", summed, limit),
        Check("the final norm leads to the stack's output", "norms", apart(finished, evidence.hooked.output), limit),
    ]
    if isinstance(anatomy.row.mlp, Mlp):
        checks.append(Check("the neurons give the feed-forward", "neurons", summed, limit))
    if isinstance(anatomy.row.mlp, Mlp) or all(block.experts for block in blocks):
        checks.append(Check("neurons or experts give the feed-forward", "secant", summed, limit))
    checks += heads
    if (classes := anatomy.class_head) is not None:
        error = _class_error(classes, finished, evidence)
        checks.append(Check("the class head gives the scores", CLASSES, error, limit))
    return tuple(checks)


def _class_error(head: ClassHead, finished: Tensor, evidence: _Evidence) -> float:
    """Of a score's terms, because a single score may be next to zero."""
    read = head.scored(finished[0].detach(), evidence.batch.ids[0])
    scores = evidence.plain[0].detach().reshape(-1, evidence.plain.shape[-1])
    if len(read) != len(scores) or head.scores.weight.shape[1] != scores.shape[-1]:
        return math.inf
    terms = read.abs() @ head.scores.weight.abs()
    return float(((head.scores(read) - scores).abs() / terms).max().nan_to_num(nan=math.inf))


def _has_experts(block: Block, parts: Parts) -> bool:
    """Whether the feed-forward of a block is made of experts that were found and give its output."""
    assert isinstance(parts.feed_forward, Opaque)
    norm = parts.feed_forward_norms.before
    read = (block.input if parts.parallel else block.middle)[0]
    return routes(parts.feed_forward, read if norm is None else norm(read)) is not None


def _chunks_check(evidence: _Evidence, limit: float) -> Check:
    """A family that fails is computed whole, whatever the length of the text."""
    name, hooked = "attention in chunks is that of the whole", evidence.hooked
    try:
        chunked = walk(evidence.anatomy, evidence.batch, lambda block: block.whole.attention, queries=QUERIES)
        pairs = zip(chunked.blocks, hooked.blocks, strict=True)
        rows = [float((weights - block.attention).abs().max()) for weights, block in pairs if block.attends]
        error = max(unlike(chunked.output, hooked.output), *rows)
        return Check(name, LONG, math.inf if math.isnan(sum(rows)) else error, limit)
    except Exception as error:  # a strange model's code may raise anything
        return Check(name, LONG, float("inf"), limit, reason_of(error))


def _derivatives_check(anatomy: Anatomy, limit: float) -> Check:
    mismatch = missed(anatomy)
    return Check("the blocks' derivatives give the model's", "derivatives", mismatch.error, limit, mismatch.reason)


def _padding_check(side: str, evidence: _Evidence, limit: float) -> Check:
    padded = evidence.padded[side]
    gives, blocks = PADDING[side] or _least(evidence.anatomy), evidence.hooked.blocks
    both = (padded.output, padded.blocks[-1])
    mask = padded.batch.prefix.mask
    states, added = (_unpadded(part, mask.to(part.device)) for part in both)
    error = max(
        apart(states, evidence.hooked.output), apart(added, blocks[-1].output, beside=evidence.hooked.embedding)
    )
    return Check(f"{side} padding changes nothing", gives, error, limit)


def _unpadded(states: Tensor, mask: Tensor) -> Tensor:
    """A batch of one; several states of a token stand before batch and tokens (Gemma 3n) or behind them (HY 4)."""
    return states[mask][None] if states.shape[:2] == mask.shape else states[..., mask, :].unsqueeze(-3)


def _broken(blocks: tuple[_Seen, ...]) -> float:
    """How far a block's input is from the output before it: where they differ, a derivative would miss a path.

    Infinite where a token has several states at once (Gemma 3n).
    """
    if any(block.input.ndim != 3 for block in blocks):
        return float("inf")
    return max((apart(after.input, before.output) for before, after in itertools.pairwise(blocks)), default=0.0)


def _unseen(anatomy: Anatomy, blocks: tuple[_Seen, ...]) -> float:
    """How many blocks of the stack never ran, or ran out of order, or attend where they did not before."""
    siblings = {part for block in set(anatomy.blocks) for part in _siblings(anatomy, block)}
    attending = {block.layer for block in blocks if block.attends}
    changed = attending.symmetric_difference(anatomy.attending)
    return float(len(siblings - set(anatomy.blocks)) + abs(len(blocks) - anatomy.layers) + len(changed))


def _siblings(anatomy: Anatomy, block: torch.nn.Module) -> list[torch.nn.Module]:
    lists = (part for part in anatomy.stack.modules() if isinstance(part, torch.nn.ModuleList))
    return next(list(part) for part in lists if any(block is child for child in part))


def _negative_error(attention: Tensor) -> float:
    return max(0.0, -attention.min().item())


def _row_error(attention: Tensor) -> float:
    return (attention.sum(dim=-1) - 1).abs().max().item()


def _block_error(block: Block) -> float:
    return apart(block.rebuilt, block.output, beside=block.input)


def _projection_errors(block: Block, projection: Projection) -> list[float]:
    """Of the attention to the block's own tokens, and to an encoder's."""
    errors = [_projection_error(block, projection)]
    if block.cross is not None and block.parts is not None and block.parts.cross is not None:
        errors.append(_projection_error(block.crossing, block.parts.cross.projection))
    return errors


def _projection_error(block: Block, projection: Projection) -> float:
    assert block.projected is not None
    total = block.mixed(projection)
    return apart(total if projection.bias is None else total + projection.bias, block.projected)


def _sentence(anatomy: Anatomy, check: Check, advice: str) -> str:
    why = check.reason or f"error {check.error:.2g}, allowed {check.limit:.2g}"
    return (
        f"{type(anatomy.model).__name__} (family {anatomy.family!r}, transformers {transformers.__version__}) failed"
        f" the check '{check.name}' ({why}), so nothing was measured; {advice}."
    )
