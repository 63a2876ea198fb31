"""Whether whence reads a model right, refuses it in one sentence, fails, or is wrong: one model, compared with its own
outputs and with autograd.
"""

import copy
import warnings
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel

import whence
from tests import tiny
from tests.sweep.condition import changed, condition
from tests.sweep.shrink import models, reads_text
from whence.errors import WhenceError
from whence.measures.registry import given_by
from whence.measures.table import MEASURES
from whence.models.arguments import accepted
from whence.models.block import Batch
from whence.models.capture import trace
from whence.models.encode import encode
from whence.models.given_pair import both_of
from whence.models.inputs import TEXT as IDS
from whence.models.inputs import random_input
from whence.models.linearise import linearised
from whence.models.load import Model
from whence.text.sentence import sentence

TEXT = "ada bo cy dee ed ."
CLOSE = 1e-4  # of the largest entry
CLOSE_DERIVATIVE = 1e-3
LONGEST = 500  # characters of a sentence
UNCOMPARED = "derivatives not compared with autograd"

FULL, PARTIAL, REFUSED, CRASHED, WRONG, UNBUILT = "full", "partial", "refused", "crashed", "wrong", "not built"
TEXTLESS = "reads no text"  # vision, sound, proteins' shapes: refused, or not built because there is nothing to read
TEXTLESS_SAID = ("and no text, and a tokenizer was given", "takes no token ids", "so it reads no text")
OUTCOMES = (FULL, PARTIAL, REFUSED, CRASHED, WRONG, UNBUILT, TEXTLESS)
WORST_FIRST = (WRONG, CRASHED, FULL, PARTIAL, REFUSED, UNBUILT, TEXTLESS)  # of the classes of one type
EVERYTHING = frozenset(
    {"attention", "attention throughout", "rows", "values", "norms", "neurons", "secant", "lm_head", "derivatives"}
    | {"left padding"}
)


@dataclass(frozen=True)
class Verdict:
    """What became of one class of a model type; `said` is the refusal, the exception, or what was wrong."""

    outcome: str
    model: str = ""
    gives: tuple[str, ...] = ()
    said: str = ""


def examined(kind: str) -> dict[str, Any]:
    """The verdicts on all classes of a type, and the one that counts."""
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    try:
        verdicts = [verdict_on(model, name) for name, model in models(kind)]
    except (LookupError, ValueError) as error:
        verdicts = [Verdict(UNBUILT if reads_text(kind) else TEXTLESS, said=str(error))]
    best = sorted(verdicts, key=lambda verdict: (WORST_FIRST.index(verdict.outcome), -len(verdict.gives)))[0]
    return {"type": kind, "verdict": asdict(best), "classes": [asdict(verdict) for verdict in verdicts]}


def verdict_on(model: PreTrainedModel, name: str) -> Verdict:
    """One model, loaded and measured."""
    before, given = condition(model), copy.deepcopy(model)
    try:
        loaded = whence.load(model, tiny.tokenizer())
        gives = tuple(sorted(loaded.gives))
    except WhenceError as error:
        if kinds := changed(before, condition(model)):
            return Verdict(WRONG, name, said=f"changed by a refusal: {kinds}")
        return Verdict(_refusal(str(error)), name, said=str(error))
    except Exception as error:
        return Verdict(CRASHED, name, said=_traced("load", error))
    try:
        wrong, note = (_compared if loaded.encoder is None else _compared_pair)(loaded, given)
    except Exception as error:
        return Verdict(CRASHED, name, gives, _traced("measure", error))
    if kinds := changed(before, condition(model)):
        wrong.append(f"changed: {kinds}")
    if wrong:
        return Verdict(WRONG, name, gives, "; ".join(wrong))
    full = EVERYTHING if loaded.model.get_output_embeddings() is not None else EVERYTHING - {"lm_head"}
    return Verdict(FULL if set(gives) >= full else PARTIAL, name, gives, note)


def _compared(model: Model, untouched: PreTrainedModel) -> tuple[list[str], str]:
    """What differs from the model's own outputs, having measured all that it gives; and what could not be compared."""
    _measured(model, given_by(model.gives, MEASURES))
    if "lm_head" in model.gives:
        whence.lm_head(model, TEXT, position=1)
    batch = encode(model.anatomy, model.tokenizer, sentence(TEXT)).batch
    seen = trace(model.anatomy, batch, logits=True)
    read = untouched if model.tower is None else untouched.get_submodule(model.tower.part)  # the one that reads text
    found = []
    if not _close(seen.logits, _first(read(**_arguments(read, batch)))):
        found.append("logits")
    theirs = _outputs(model, batch)
    weights = [block.attention for block in seen.blocks if block.attends]
    if "attention" in model.gives and not _same_attention(weights, theirs.get("attentions")):
        found.append("attention")
    states = [block.output for block in seen.blocks[:-1]] if "derivatives" in model.gives else []
    if not _same_states(states, theirs.get("hidden_states")):
        found.append("states")
    error = _derivative_error(model, batch) if "derivatives" in model.gives else 0.0
    if error is not None and not error <= CLOSE_DERIVATIVE:
        found.append(f"derivatives ({error:.2g})")
    return found, UNCOMPARED if error is None else ""


def _compared_pair(model: Model, untouched: PreTrainedModel) -> tuple[list[str], str]:
    """The same of an encoder-decoder; its derivatives were compared when it was loaded."""
    assert model.encoder is not None
    sound = None if model.encoder.reads == IDS else random_input(model.encoder.model, 6).inputs
    pair = sound or TEXT, "fay gus"
    whence.measure(model, pair, given_by(model.gives, MEASURES))
    if "lm_head" in model.gives:
        whence.why(model, pair)
    batch = both_of(model, pair).batch
    seen = trace(model.anatomy, batch, logits=True)
    given = dict(sound or {"input_ids": batch.source.ids})
    given |= {"decoder_input_ids": batch.prefix.ids, "use_cache": False}
    return [] if _close(seen.logits, _first(untouched(**given))) else ["logits"], UNCOMPARED


def _measured(model: Model, names: list[str]) -> None:
    """All at once, or those that can be had: one may be refused by itself (DeepSeek's values are no affine map)."""
    try:
        whence.measure(model, TEXT, names)
    except WhenceError:
        for name in names:
            with suppress(WhenceError):
                whence.measure(model, TEXT, name)


def _arguments(model: PreTrainedModel, batch: Batch, **more: Any) -> dict[str, Any]:
    given = {"input_ids": batch.ids, "attention_mask": batch.mask.long(), "use_cache": False, **more}
    return {name: value for name, value in given.items() if name != "use_cache" or name in accepted(model)}


def _outputs(model: Model, batch: Batch) -> dict[str, Any]:
    """What the stack itself hands out, with eager attention where it has that."""
    stack = copy.deepcopy(model.anatomy.stack)
    for part in stack.modules():
        if isinstance(part, PreTrainedModel):
            part.config._attn_implementation = "eager"
    asked = {"output_attentions": True, "output_hidden_states": True, "return_dict": True}
    try:
        with torch.no_grad():
            return dict(stack(**_arguments(stack, batch, **asked)))
    except (TypeError, ValueError):
        return {}


def _same_attention(found: list[Tensor], theirs: Any) -> bool:
    given = [weights for weights in theirs or () if isinstance(weights, Tensor) and weights.ndim == 4]
    if [weights.shape for weights in given] != [weights.shape for weights in found]:
        return True  # the model hands out none, or something else
    return all(_close(weights, own) for weights, own in zip(found, given, strict=True))


def _same_states(found: list[Tensor], theirs: Any) -> bool:
    """Whether every state is among the model's own, which may have more of them, or lay them out time first."""
    given = [states for states in theirs or () if isinstance(states, Tensor)]
    given = [states.transpose(0, 1) if states.shape[1] == 1 else states for states in given]
    like = [states for states in given if found and states.shape == found[0].shape]
    return not like or all(any(_close(states, own) for own in like) for states in found)


def _derivative_error(model: Model, batch: Batch) -> float | None:
    """The gradient of a random sum of the last block's output by the token embeddings, through whence's chain of
    blocks and end to end by autograd: how far apart, relative to the largest entry; None
    where there is nothing to compare with.
    """
    anatomy = model.anatomy
    if anatomy.family == "rwkv":  # writes into its own state, so autograd cannot go back through it
        return None
    stack, seen = copy.deepcopy(anatomy.stack).requires_grad_(False).eval(), _Ends()
    names = {module: name for name, module in anatomy.stack.named_modules()}
    blocks = [stack.get_submodule(names[block]) for block in anatomy.blocks]
    for part in stack.modules():
        if isinstance(part, PreTrainedModel):
            part.config._attn_implementation = part.config._experts_implementation = "eager"
    with ExitStack() as hooks:
        for table in stack.modules():
            if isinstance(table, nn.Embedding):
                hooks.callback(table.register_forward_hook(seen.embedded).remove)
        hooks.callback(blocks[0].register_forward_pre_hook(seen.began, with_kwargs=True).remove)
        hooks.callback(blocks[-1].register_forward_hook(seen.ended).remove)
        stack(**_arguments(stack, batch))
    assert seen.start is not None and seen.output is not None
    direction = torch.randn(seen.output.shape, generator=torch.Generator().manual_seed(1)).to(seen.output)
    if seen.embedding is None:  # I-BERT's table is none of torch's
        return None
    (true,) = torch.autograd.grad(seen.output, seen.embedding, direction, retain_graph=True)
    with linearised(anatomy, batch) as chain:
        cotangent = chain.pull_one(direction.reshape(chain.states.shape))
    (found,) = torch.autograd.grad(seen.start, seen.embedding, cotangent.reshape(seen.start.shape))
    return float((found - true).abs().max() / true.abs().max())


class _Ends:
    """Where a pass through the blocks begins and ends; the embeddings are the first to have a gradient."""

    embedding: Tensor | None = None
    start: Tensor | None = None
    output: Tensor | None = None

    def embedded(self, module: nn.Module, args: tuple, output: Tensor) -> Tensor:
        """The first table that is read is that of the tokens; what leads on from it may be changed in place."""
        if self.embedding is not None:
            return output
        self.embedding = output.detach().requires_grad_(True)
        return self.embedding.clone()

    def began(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if self.start is None:
            self.start = args[0] if args else kwargs["hidden_states"]

    def ended(self, module: nn.Module, args: tuple, output: Any) -> None:
        self.output = _first(output)


def _close(found: Tensor | None, expected: Tensor) -> bool:
    if found is None or found.shape != expected.shape:
        return False
    return bool((found - expected).abs().max() <= CLOSE * expected.abs().max())


def _first(output: Any) -> Tensor:
    if isinstance(output, Tensor):
        return output
    return output[0]


def _refusal(said: str) -> str:
    if not _is_sentence(said):
        return CRASHED
    return TEXTLESS if any(words in said for words in TEXTLESS_SAID) else REFUSED


def _is_sentence(said: str) -> bool:
    return "\n" not in said and len(said) <= LONGEST and said.endswith(".")


def _traced(when: str, error: Exception) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = "" if frame is None else f" at {frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"
    return f"{when}: {type(error).__name__}: {' '.join(str(error).split())[:200]}{place}"
