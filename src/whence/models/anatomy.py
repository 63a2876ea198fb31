"""What is inside a given model: its blocks, projections, norms, feed-forwards, final norm and head, located.

Blocks and output projections are found by watching one forward pass (`locate`); norms and feed-forwards come from
the family's row in `families`. Nothing here is trusted before `verify` has checked it.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from whence.models.families import (
    CLASSES,
    ENDINGS,
    HEADS,
    Around,
    Averaged,
    Chosen,
    ClassStep,
    Ending,
    Family,
    HeadPaths,
    Mlp,
    Whole,
)
from whence.models.outside import Outside
from whence.models.pieces import device_of, fetched, held
from whence.models.pooling import POOLED, Tokens
from whence.models.queries import at_once
from whence.models.weights import (
    Activation,
    Affine,
    CrossParts,
    FeedForward,
    Norm,
    Norms,
    Opaque,
    Parts,
    Projection,
    averaged,
    read_affine,
    read_norm,
    read_projection,
    scaled,
    split_affine,
)

# classes of transformers whose scores are those of classes: of all that is read, and of every token
SEQUENCES = ("ForSequenceClassification", "ForImageClassification", "ForImageClassificationWithTeacher")
FRAMES = "ForCTC"  # letters of a sound, frame by frame
TOKENS = ("ForTokenClassification", "ForAudioFrameClassification", FRAMES)
# where attention is captured: transformers' attention interface, or the products after a softmax (`products`)
INTERFACE, PRODUCTS = "interface", "products"


@dataclass(frozen=True)
class Head:
    """The LM head as numbers: softcap(decoder(norm(activation(dense(state)))) * factor)."""

    dense: Affine | None
    activation: Activation | None
    norm: Norm | None
    decoder: Affine
    factor: float
    softcap: float | None

    def __call__(self, states: Tensor) -> Tensor:
        for step in (self.dense, self.activation, self.norm):
            states = states if step is None else step(states)
        logits = self.decoder(states) * self.factor
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


@dataclass(frozen=True)
class ClassHead:
    """What a classifier makes of its last states: steps, the last of which scores every class, on what is pooled.

    Where nothing is `pooled`, every token has scores of its own. `padding` and `before` are as in `pooling.Tokens`.
    """

    steps: tuple[Affine | Norm | Activation, ...]
    pooled: str | None
    padding: int | None = None
    before: int = 0

    @property
    def scores(self) -> Affine:
        """The last step."""
        assert isinstance(self.steps[-1], Affine)
        return self.steps[-1]

    def weights(self, ids: Int[Tensor, " t"]) -> Float[Tensor, "n t"] | None:
        """Of every token of a text in each vector that is pooled."""
        return None if self.pooled is None else POOLED[self.pooled](Tokens(ids, self.padding, self.before))

    def scored(self, states: Float[Tensor, "t m"], ids: Int[Tensor, " t"]) -> Float[Tensor, "p w"]:
        """What the last step reads of one text."""
        weights = self.weights(ids)
        states = states if weights is None else (weights.to(states) @ states).flatten()[None]
        for step in self.steps[:-1]:
            states = step(states)
        return states


@dataclass(frozen=True, eq=False)
class Anatomy:
    """Where things are in one loaded model. `row` is None for a family the table does not have.

    `stack` is the innermost model around the blocks (without the head), `owner` the module that holds their list.
    `heads` is 0 where no block attends, and `unattending` has the blocks that do not where only some do (hybrids).
    `side_paths` says that blocks read more of the embeddings than their states (`stack`), `chunks` that attention may
    be computed for some queries at a time, which loading has to prove. Of an encoder-decoder it is the decoder's, whose
    blocks attend to what the `encoder` gives as well, with output projections of their own (`crossing`).
    """

    model: PreTrainedModel
    row: Family | None
    stack: PreTrainedModel
    owner: nn.Module
    blocks: tuple[nn.Module, ...]
    projections: Mapping[nn.Module, nn.Module]
    heads: int
    causal: bool
    seam: str | None = INTERFACE
    unattending: frozenset[nn.Module] = frozenset()
    side_paths: bool = False
    chunks: bool = False
    encoder: "Anatomy | None" = None
    crossing: Mapping[nn.Module, nn.Module] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return str(self.config.model_type)

    @property
    def outside(self) -> Outside | None:
        """How attention is read where transformers' interface does not reach it."""
        return None if self.row is None else self.row.outside

    @property
    def batch_axis(self) -> int:
        """Of the states inside the blocks."""
        return 0 if self.outside is None else self.outside.batch_axis

    @property
    def layers(self) -> int:
        return len(self.blocks)

    @property
    def chained(self) -> int:
        """How many blocks a chain has: an encoder's come first."""
        return self.layers + (0 if self.encoder is None else self.encoder.layers)

    @property
    def is_known(self) -> bool:
        """Whether the table has this very model, not just one inside it (PaliGemma wraps a Gemma)."""
        return self.row is not None and self.model.config.model_type == self.family

    @property
    def lacks(self) -> frozenset[str]:
        """What the family is known not to have: gpt-oss has attention sinks, so no rows that sum to one."""
        return frozenset() if self.row is None else self.row.lacks

    @property
    def attending(self) -> tuple[int, ...]:
        """The layers that attend; the first is 1."""
        return tuple(layer for layer, block in enumerate(self.blocks, start=1) if block not in self.unattending)

    def queries(self, batch: int, tokens: int) -> int | None:
        """How many queries go through the attention at a time in so long a text; None where all do."""
        return at_once(batch, self.heads, tokens) if self.chunks else None

    @property
    def listed_attending(self) -> str:
        """The same as text."""
        return ", ".join(map(str, self.attending))

    def parts(self, block: nn.Module) -> Parts | None:
        """The block's weights, read anew at every pass so that they are never stale; None when not all are known."""
        projection = self.projection(block)
        if self.row is None or projection is None:
            return None
        scale = self.row.residual_scale
        return Parts(
            projection=projection,
            attention_norms=self._norms(block, self.row.attention),
            feed_forward=_feed_forward(block, self.row.mlp, self.row.layer_scales),
            feed_forward_norms=self._norms(block, self.row.feed_forward),
            parallel=self.row.parallel,
            residual_scale=1.0 if scale is None else float(_at(self.config, scale)),
            cross=self._cross_parts(block),
        )

    def _cross_parts(self, block: nn.Module) -> CrossParts | None:
        if self.row is None or self.row.cross is None:
            return None
        projection = read_projection(self.crossing[block], self.heads)
        return CrossParts(projection, self._norms(block, self.row.cross))

    def projection(self, block: nn.Module) -> Projection | None:
        """The output projection, with the factor for every channel that some families scale what it gives by."""
        if self.outside is not None:
            return self.outside.projection(block)
        module = self.projections.get(block)
        return None if module is None else scaled(read_projection(module, self.heads), self.branch_scale(block))

    def branch_scale(self, block: nn.Module) -> Tensor | float | None:
        """What the family multiplies the output of its attention by, channel by channel (LayerScale)."""
        return None if self.row is None or self.row.layer_scales is None else _scale(block, self.row.layer_scales[0])

    def finish(self, states: Tensor) -> Tensor:
        """From the last block's output to the stack's: the final norm, and OPT's narrowing, where they exist."""
        for module in self.finishing:
            states = module(states)
        return states

    @property
    def finishing(self) -> list[nn.Module]:
        """The modules that do it."""
        end = self._ending
        if end is None:
            return []
        steps = ((self._around_final_norm, end.final_norm), (self.owner, end.narrowing))
        modules = [_at(holder, path) for holder, path in steps if path is not None]
        return [module for module in modules if module is not None]

    @property
    def _around_final_norm(self) -> nn.Module:
        assert self._ending is not None
        return {"owner": self.owner, "stack": self.stack}[self._ending.final_norm_in]

    @property
    def _ending(self) -> Family | Ending | None:
        """What says where the final norm and the LM head are."""
        return self.row or ENDINGS.get(self.family)

    @property
    def head(self) -> Head | None:
        """The LM head; None when the model was loaded without one, or is around the family's with a head of its own."""
        decoder = self.model.get_output_embeddings()
        end = self._ending
        if end is None or decoder is None:
            return None
        paths = HEADS.get(self.model.config.model_type, end.head)
        if not all(_is_at(self.model, path) for path in (paths.dense, paths.norm) if path is not None):
            return None
        activation = paths.activation
        return Head(
            dense=None if paths.dense is None else read_affine(_at(self.model, paths.dense)),
            activation=_at(self.model, activation) if isinstance(activation, str) else activation,
            norm=None if paths.norm is None else self._norm(self.model, paths.norm),
            decoder=self._decoder(decoder, paths),
            factor=self._factor(paths),
            softcap=None if paths.softcap is None else _at(self.config, paths.softcap),
        )

    @property
    def class_head(self) -> ClassHead | None:
        """What scores classes; None of a model that is no classifier, or one with a head of its own."""
        kind = type(self.model).__name__
        if self.row is None or not kind.endswith((*SEQUENCES, *TOKENS)):
            return None
        paths = CLASSES.get(kind, self.row.classes)
        way: str | None = None
        if kind.endswith(SEQUENCES):
            way = paths.pooled(self.config) if callable(paths.pooled) else paths.pooled
        names = [self._in_base(step) for step in (paths.of_tokens if way is None else paths.steps)]
        unknown = way is not None and way not in POOLED
        if unknown or not all(_is_at(self.model, name) for name in names if isinstance(name, str)):
            return None
        padding = getattr(self.model.config.get_text_config(), "pad_token_id", None)  # pictures have none
        return ClassHead(tuple(map(self._class_step, names)), way, padding, self.before_patches)

    @property
    def before_patches(self) -> int:
        """How many tokens stand before the patches where the first of them is [CLS]: it, and registers."""
        return 1 + getattr(self.config, "num_register_tokens", 0)

    def _in_base(self, step: ClassStep) -> ClassStep:
        return step.format(base=self.model.base_model_prefix) if isinstance(step, str) else step

    def _class_step(self, step: ClassStep) -> Affine | Norm | Activation:
        if isinstance(step, Chosen):
            return ACT2FN[getattr(self.config, step.setting)]
        if isinstance(step, Averaged):
            return averaged([read_affine(_at(self.model, path)) for path in step.paths])
        if not isinstance(step, str):
            return step
        module = _at(self.model, step)
        if "Norm" in type(module).__name__:
            norm = self._norm(self.model, step)
            assert norm is not None
            return norm
        return read_affine(module) if any(True for _ in module.parameters()) else module

    @property
    def final_norm(self) -> Norm | None:
        """The norm between the last block and the head, where there is one."""
        path = None if self._ending is None else self._ending.final_norm
        return None if path is None else self._norm(self._around_final_norm, path)

    @property
    def narrowing(self) -> Affine | None:
        """The map from the stream to the width of the embeddings, in OPT's smaller models."""
        module = None if self.row is None or self.row.narrowing is None else _at(self.owner, self.row.narrowing)
        return None if module is None else read_affine(module)

    @property
    def class_with_head(self) -> str:
        """The class of transformers that has this family's language-model head."""
        names = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if self.causal else MODEL_FOR_MASKED_LM_MAPPING_NAMES
        return names.get(self.family, f"an Auto{'ModelForCausalLM' if self.causal else 'ModelForMaskedLM'} class")

    def _decoder(self, decoder: nn.Module, paths: HeadPaths) -> Affine:
        affine = read_affine(decoder)
        if paths.bias is None:
            return affine
        with held(self.model.get_submodule(paths.bias.rpartition(".")[0])):
            return replace(affine, bias=_at(self.model, paths.bias).detach().flatten())

    def _factor(self, paths: HeadPaths) -> float:
        if paths.divisor is not None:
            return 1 / float(_at(self.config, paths.divisor))
        if callable(paths.factor):
            return paths.factor(self.config)
        return 1.0 if paths.factor is None else float(_at(self.config, paths.factor))

    def _norms(self, block: nn.Module, around: Around) -> Norms:
        names = (around.before, around.inside, around.after)
        return Norms(*(None if name is None else self._norm(block, name) for name in names))

    def _norm(self, root: nn.Module, path: str) -> Norm | None:
        assert self._ending is not None
        return read_norm(_at(root, path), self._ending.norm_offset, self._ones)

    def _ones(self) -> Tensor:
        """The weight of a norm that has none."""
        return torch.ones(self.width, dtype=next(self.owner.parameters()).dtype, device=device_of(self.owner))

    @property
    def config(self) -> Any:
        return self.stack.config

    @property
    def width(self) -> int:
        return int(self.config.hidden_size)


def _feed_forward(block: nn.Module, mlp: Mlp | Whole, scales: tuple[str, str] | None) -> FeedForward | Opaque:
    if isinstance(mlp, Whole):
        return Opaque(_at(block, mlp.path))
    activated = read_affine(_at(block, mlp.activated))
    linear = None
    if mlp.linear == mlp.activated:
        activated, linear = split_affine(activated)
    elif mlp.linear is not None:
        linear = read_affine(_at(block, mlp.linear))
    activation = _at(block, mlp.activation) if isinstance(mlp.activation, str) else mlp.activation
    down = scaled(read_affine(_at(block, mlp.down)), None if scales is None else _scale(block, scales[1]))
    return FeedForward(activated, linear, activation, down)


def _scale(block: nn.Module, path: str) -> Tensor | float | None:
    """Factors for every channel, wherever they are kept; BEiT may have a number or none."""
    factors = _at(block, path)
    return fetched(block, path, factors) if isinstance(factors, Tensor) else factors


def _is_at(root: Any, path: str) -> bool:
    return path in {name for name, _ in root.named_modules(remove_duplicate=False)}


def _at(root: Any, path: str) -> Any:
    return functools.reduce(getattr, path.split("."), root)
