"""Finds a model's blocks and output projections by watching one forward pass over a few tokens."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import transformers
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from whence.errors import Unsupported, WhenceError
from whence.models.affine import is_affine, outermost, wraps
from whence.models.agreement import apart
from whence.models.anatomy import INTERFACE, PRODUCTS, Anatomy
from whence.models.arguments import accepted
from whence.models.block import Batch
from whence.models.capture import borrowed, hearing, run
from whence.models.families import FAMILIES, Either, Family, row_of
from whence.models.hooks import here
from whence.models.inputs import KINDS, TEXT, random_input, reads
from whence.models.stack import has_side_paths

PROBE_LENGTH, PREFIX_LENGTH = 11, 7
CLOSE = 1e-6  # of a token's size, for what should be the same
REASON = 200  # characters quoted of another library's error message
ANSWERS = ("ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification")  # not the next token
WHERE = "the page Models of the documentation lists the families that work"


def locate(model: PreTrainedModel) -> Anatomy:
    """The model's anatomy, or Unsupported with what to do instead."""
    _refuse_early(model)
    _check_runs(model)
    if has_two_stacks(model):
        return _two_stacks(model)
    anatomy = _by_watching(model)
    return replace(anatomy, side_paths=has_side_paths(anatomy, probe(model)))


def _by_watching(model: PreTrainedModel) -> Anatomy:
    row = FAMILIES.get(model.config.model_type)
    if isinstance(row, Family) and row.outside is not None:
        attention = row.outside.attentions(model.base_model)
        witness = _Witness(attention, heads=model.config.num_attention_heads, causal=False)
        return _located(model, witness, seam=None) or _in_part(model, _Witness(), seam=None)
    for seam in (INTERFACE, PRODUCTS):
        witness = _watched(model, seam)
        if witness.attention and witness.of_tokens:  # DeepSeek V4 attends to summaries of tokens too
            return _located(model, witness, seam) or _in_part(model, witness, seam)
    return _in_part(model, _Witness(), seam=None)


def probe(model: PreTrainedModel, length: int = PROBE_LENGTH) -> Batch:
    """A few ordinary token ids, the same every time, none of them special; or a random picture or sound.

    Of two stacks other ids, and not as many, for the decoder.
    """
    if has_two_stacks(model):
        prefix = _words(model, 2 * length)
        source = prefix[:, :length] if reads(model) == TEXT else None
        read = random_input(model.get_encoder(), length) if source is None else _batch(source)
        return Batch.of_both(read, _batch(prefix[:, length : length + PREFIX_LENGTH]))
    return random_input(model, length) if reads(model) != TEXT else _batch(_words(model, length))


def _batch(ids: Int[Tensor, "b s"]) -> Batch:
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool))


def _words(model: PreTrainedModel, length: int) -> Int[Tensor, "1 s"]:
    config = model.config.get_text_config()
    special = {value for key, value in config.to_dict().items() if key.endswith("token_id") and isinstance(value, int)}
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(config.vocab_size, generator=generator)[: length + len(special)].tolist()
    return torch.tensor([[token for token in drawn if token not in special][:length]])


@dataclass
class _Witness:
    """Which modules attended, in order, and which linear layer read each attention's output unchanged, or the adapter
    around one that rotates it first (OFT).
    """

    attention: list[nn.Module] = field(default_factory=list)
    projection: dict[nn.Module, nn.Module] = field(default_factory=dict)
    around: dict[nn.Module, nn.Module] = field(default_factory=dict)
    heads: int = 0
    causal: bool = True
    of_tokens: bool = True
    tokens: int = PROBE_LENGTH
    _waiting: Tensor | None = None

    def attended(
        self, module: nn.Module, weights: Tensor | None, values: Tensor, mask: Tensor | None, heads: Tensor
    ) -> None:
        if weights is None:
            raise Unsupported(f"{type(module).__name__} hands out no attention weights, so there is nothing to read.")
        self.of_tokens &= weights.shape[-2:] == (self.tokens, self.tokens)
        self.attention.append(module)
        self.heads = weights.shape[1]
        self.causal &= not bool(weights.triu(diagonal=1).any())
        self._waiting = heads.flatten(start_dim=-2)

    def consumed(self, module: nn.Module, args: tuple) -> None:
        if self._reads(args):
            self.projection[self.attention[-1]] = module
            self._waiting = None

    def entered(self, module: nn.Module, args: tuple) -> None:
        if self._reads(args):
            self.around[self.attention[-1]] = module

    def _reads(self, args: tuple) -> bool:
        waiting = self._waiting
        if waiting is None or not args or not isinstance(args[0], Tensor) or args[0].numel() != waiting.numel():
            return False
        return torch.equal(args[0].reshape(waiting.shape), waiting)

    def projections(self, parents: dict[nn.Module, nn.Module]) -> dict[nn.Module, nn.Module]:
        """The output projection of each attention, with its wrappers."""
        rotated = {module: outer for module, outer in self.around.items() if module not in self.projection}
        linears = self.projection | {module: outer for module, outer in rotated.items() if is_affine(outer)}
        return {module: outermost(linear, parents) for module, linear in linears.items()}


def _base(model: PreTrainedModel, batch: Batch) -> PreTrainedModel:
    """The model without its head; DINOv3 calls a part that reads no picture by that name."""
    base = model.base_model
    return base if (batch.inputs or {}).keys() <= accepted(base) else model


def _watched(model: PreTrainedModel, seam: str) -> _Witness:
    batch = probe(model)
    witness = _Witness(tokens=batch.ids.shape[1])
    consumers = [module for module in model.modules() if isinstance(module, nn.Linear | Conv1D)]
    parents = _parents(model)
    with ExitStack() as hooks, borrowed(model, seam), hearing(witness.attended), torch.no_grad():
        for module in consumers:
            hooks.callback(module.register_forward_pre_hook(here(witness.consumed)).remove)
        for module in {parents[linear] for linear in consumers if linear in parents and wraps(parents[linear], linear)}:
            hooks.callback(module.register_forward_pre_hook(here(witness.entered)).remove)
        try:
            run(_base(model, batch), batch)
        except (RuntimeError, TypeError, ValueError) as error:  # it ran before, without hooks
            raise Unsupported(
                f"{type(model).__name__} runs as it is, but not with eager attention ({reason_of(error)}), so its"
                " attention cannot be read."
            ) from error
    return witness


def _located(model: PreTrainedModel, witness: _Witness, seam: str | None) -> Anatomy | None:
    """None where some blocks attend and others do not, unless the family is known to attend in all of them."""
    parents = _parents(model)
    holder = {module: block for module in witness.attention if (block := _block(module, parents)) is not None}
    if len(holder) < len(set(witness.attention)):
        return None
    blocks = [holder[module] for module in witness.attention]
    owner, stack = _around(blocks[0], parents, reads(model))
    row = row_of(stack.config.model_type, stack.config)
    if row is None and list(parents[blocks[0]].children()) != blocks:
        return None
    projections = {holder[module]: linear for module, linear in witness.projections(parents).items()}
    return Anatomy(model, row, stack, owner, tuple(blocks), projections, witness.heads, witness.causal, seam)


def has_two_stacks(model: PreTrainedModel) -> bool:
    """Whether a decoder attends to what an encoder gives: both are read together."""
    return "decoder_input_ids" in accepted(model)


def _two_stacks(model: PreTrainedModel) -> Anatomy:
    """The decoder's anatomy with the encoder's: each of its blocks attends to its own tokens, then to the encoder's."""
    encoder, witness = locate(model.get_encoder()), _watched(model, INTERFACE)
    parents, inside = _parents(model), set(model.get_decoder().modules())
    attention = [module for module in witness.attention if module in inside]
    own, crossing = attention[::2], attention[1::2]
    blocks = [block for module in own if (block := _block(module, parents)) is not None]
    row = row_of(model.config.model_type, model.get_decoder().config)
    row = None if row is None else row.with_encoder
    if row is None or not blocks or blocks != [_block(module, parents) for module in crossing]:
        raise Unsupported(_unread_pair(model))
    owner, stack = _around(blocks[0], parents, TEXT)
    linear = witness.projections(parents)
    first, second = (
        {block: linear[module] for block, module in zip(blocks, modules, strict=True) if module in linear}
        for modules in (own, crossing)
    )
    anatomy = Anatomy(
        model, row, stack, owner, tuple(blocks), first, witness.heads, causal=True, encoder=encoder, crossing=second
    )
    if anatomy.width != encoder.width:
        raise Unsupported(
            f"The stacks of {type(model).__name__} are {encoder.width} and {anatomy.width} wide, and vectors are"
            " followed through both as one; load its encoder alone."
        )
    return anatomy


def _unread_pair(model: PreTrainedModel) -> str:
    known = sorted(name for name, row in FAMILIES.items() if _with_encoder(row))
    return (
        f"{model.config.model_type} is an encoder-decoder that whence does not read ({type(model).__name__}); it reads"
        f" {', '.join(known)}, and of others the encoder alone where that is a model of its own (get_encoder())."
    )


def _with_encoder(row: Family | Either) -> bool:
    rows = row.rows.values() if isinstance(row, Either) else [row]
    return any(row.with_encoder is not None for row in rows)


def _in_part(model: PreTrainedModel, witness: _Witness, seam: str | None) -> Anatomy:
    """A model of which only some blocks attend (hybrids), or none (state-space models)."""
    blocks = _in_turn(model)
    parents = _parents(model)
    owner, stack = _around(blocks[0], parents, reads(model))
    holder = {module: block for block in blocks for module in block.modules() if module in witness.attention}
    if [holder.get(module) for module in witness.attention] != [block for block in blocks if block in holder.values()]:
        holder, witness = {}, _Witness()  # outside the blocks, or several times in one
    projections = {holder[module]: linear for module, linear in witness.projections(parents).items()}
    unattending = frozenset(blocks) - set(holder.values())
    causal = _is_causal(stack, model)
    return Anatomy(model, None, stack, owner, blocks, projections, witness.heads, causal, seam, unattending)


def _in_turn(model: PreTrainedModel) -> tuple[nn.Module, ...]:
    """The longest ModuleList whose modules each ran once, on one state per token."""
    batch, calls = probe(model), Counter[nn.Module]()
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]

    def called(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = args[0] if args else kwargs.get("hidden_states")
        if isinstance(states, Tensor) and states.ndim == 3 and states.shape[:2] == batch.ids.shape:
            calls[module] += 1

    with ExitStack() as hooks, borrowed(model, seam=None), torch.no_grad():
        for module in {element for part in lists for element in part}:
            hooks.callback(module.register_forward_pre_hook(here(called), with_kwargs=True).remove)
        run(_base(model, batch), batch)
    candidates = [part for part in lists if len(part) and all(calls[element] == 1 for element in part)]
    if not candidates:
        raise Unsupported(_unseen(model))
    return max((tuple(part) for part in candidates), key=len)


def _is_causal(stack: PreTrainedModel, model: PreTrainedModel) -> bool:
    """Whether changing the last token leaves the states before it unchanged."""
    batch = probe(stack, PROBE_LENGTH + 1)
    other = Batch(batch.ids.clone(), batch.mask)
    batch.ids[0, -1] = batch.ids[0, 0]
    with borrowed(stack, seam=None), torch.no_grad(), on_tokens_alone(stack, model):
        states, changed = (run(stack, inputs) for inputs in (batch, other))
    if states.shape[:2] != batch.ids.shape or changed.shape != states.shape:
        raise Unsupported(f"{type(stack).__name__} does not give one state for every token, so it cannot be read.")
    return apart(changed[0, :-1], states[0, :-1]) <= CLOSE


def _parents(model: PreTrainedModel) -> dict[nn.Module, nn.Module]:
    return {child: parent for parent in model.modules() for child in parent.children()}


def _block(attention: nn.Module, parents: dict[nn.Module, nn.Module]) -> nn.Module | None:
    """The nearest ancestor in a ModuleList of one type; T5 also keeps the different layers of a block in a list."""
    module = attention
    while module in parents:
        parent = parents[module]
        if isinstance(parent, nn.ModuleList) and len({type(like) for like in parent}) == 1:
            return module
        module = parent
    return None


def _around(block: nn.Module, parents: dict[nn.Module, nn.Module], name: str) -> tuple[nn.Module, PreTrainedModel]:
    """The owner of the list of blocks, and the innermost model around it, whose configuration names the family.

    Encoders of pictures read states: there it is the model around them that reads the pictures.
    """
    owner = stack = parents[parents[block]]
    while not isinstance(stack, PreTrainedModel) or (name != TEXT and name not in accepted(stack)):
        stack = parents[stack]
    return owner, stack


def _refuse_early(model: PreTrainedModel) -> None:
    if has_two_stacks(model):
        row = FAMILIES.get(model.config.model_type)
        if row is None or not _with_encoder(row) or type(model).__name__.endswith(ANSWERS):
            raise Unsupported(_unread_pair(model))
    if reads(model) == TEXT and not hasattr(model.config.get_text_config(), "vocab_size"):
        raise Unsupported(f"{type(model).__name__} has no vocabulary of tokens (vocab_size), so it reads no text.")


def _check_runs(model: PreTrainedModel) -> None:
    """The model returns a tensor for a few token ids alone, or a picture or sound alone; many need several of these."""
    with on_tokens_alone(model, model), borrowed(model, seam=None), torch.no_grad():
        output = run(model, probe(model))
        if not isinstance(output, Tensor):
            raise TypeError(f"its first output is {type(output).__name__}")


@contextmanager
def on_tokens_alone(part: PreTrainedModel, model: PreTrainedModel) -> Iterator[None]:
    """Turns any exception in a pass of the model, or of a part of it, on a few tokens into one sentence."""
    try:
        yield
    except WhenceError:
        raise
    except Exception as error:
        inside = "" if part is model else f", which holds the blocks of {type(model).__name__},"
        what = KINDS[reads(model)].name if reads(model) in KINDS else "text"
        alone = "tokens" if what == "text" else f"a {what}"
        raise Unsupported(
            f"{type(part).__name__}{inside} cannot be run on {alone} alone ({reason_of(error)}); give the model inside"
            f" it that reads {what if what == 'text' else what + 's'}, if it has one."
        ) from error


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:REASON]}"


def _unseen(model: PreTrainedModel) -> str:
    return (
        f"In the family {model.config.model_type!r} (transformers {transformers.__version__}) no list of blocks was"
        f" found that each read the states of all tokens once; {WHERE}."
    )
