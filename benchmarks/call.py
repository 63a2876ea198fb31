"""What one call of whence.measure costs, from a text to a Dataset, against the same numbers written by hand.

BERT-base in size, random weights, sentences of 25 and paragraphs of 128 tokens, one thread, everything taken in turns.
By hand is what one would write on top of transformers: the tokenizer, a pass with eager attention that gives attentions
and hidden states, the value and projection weights, then one einsum for all vectors of a layer (as published code does)
or one batched thin SVD. It checks nothing and labels nothing. That both give the same numbers is checked first.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray
from torch import Tensor, nn
from transformers import BertConfig, BertModel

import whence
from benchmarks.clock import one_thread, seconds
from benchmarks.norms import row
from whence.models.load import Model

WORDS = ("the", "keys", "of", "a", "cabinet", "are", "on", "this", "table", "she", "said", "that", "he", "left", "it")
LEAST = {25: 0.75, 128: 1}  # tokens, and by hand over ours; at 25 by hand is a little ahead in most: nothing is checked
LENGTHS = tuple(LEAST)
ROUNDS = 9
FEWER = {"block_n": 3}  # rounds, where one takes seconds
AGREE = 1e-3  # of the largest number
Found = dict[str, Tensor]


@dataclass(frozen=True)
class Layer:
    """What one layer's numbers are made of, as far as transformers gives it: one sequence, no batch."""

    attention: Tensor  # h t s
    input: Tensor  # t m
    module: Any

    @property
    def values(self) -> Tensor:
        """h s d: once more from the hidden states."""
        heads = len(self.attention)
        return self.module.attention.self.value(self.input).unflatten(-1, (heads, -1)).transpose(0, 1)

    def vectors(self) -> Tensor:
        """t s m: the vector that every source gives every target, in one product."""
        projection = self.module.attention.output.dense.weight.T.unflatten(0, (len(self.attention), -1))
        given = torch.einsum("h s d, h d m -> h s m", self.values, projection)
        return torch.einsum("h t s, h s m -> t s m", self.attention, given)

    def joined(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors with the residual (written over them), and their sum: what the norm after the attention reads."""
        vectors.diagonal().add_(self.input.T)
        return vectors, vectors.sum(dim=1) + self.module.attention.output.dense.bias


def normed(vectors: Tensor, state: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The linear part of a norm with the scale of the real state."""
    scale = (state.var(dim=-1, unbiased=False) + norm.eps).rsqrt()
    return (vectors - vectors.mean(dim=-1, keepdim=True)) * norm.weight * scale[:, None, None]


def main() -> None:
    model, eager = models()
    with one_thread():
        for length in LENGTHS:
            for name, by_hand in BY_HAND.items():
                compare(model, eager, text(model, length), name, by_hand)


def compare(model: Model, eager: BertModel, given: str, name: str, by_hand: Callable[[Layer], Found]) -> None:
    def ours() -> xarray.Dataset:
        return whence.measure(model, given, name)

    def theirs() -> dict[str, np.ndarray]:
        return written(eager, model.tokenizer, given, by_hand, name.startswith("rollout"))

    check_same(ours(), theirs())
    jobs = (ours, theirs, lambda: plain(model, given))
    by_hand_over, plain_under = taken_in_turns(jobs, FEWER.get(name, ROUNDS))
    tokens = len(model.tokenizer(given)["input_ids"])
    limit = f"above {LEAST[tokens]}; {plain_under:.2f} x the plain pass"
    row(f"{name}, {tokens} tokens", f"by hand {by_hand_over:.2f} x as long", limit)


def check_same(ours: xarray.Dataset, theirs: dict[str, np.ndarray]) -> None:
    for name, expected in theirs.items():
        difference = np.abs(array(ours, name) - expected).max() / np.abs(expected).max()
        assert difference < AGREE, f"{name} differs by {difference:.1e}"


def array(ours: xarray.Dataset, name: str) -> np.ndarray:
    """A variable, or one analysis of `norms` or `rollout`."""
    if name in ours:
        return ours[name].values
    rolled, analysis = name.startswith("rollout_"), name.removeprefix("rollout_")
    return ours["rollout" if rolled else "norms"].sel(analysis=analysis).values


def taken_in_turns(jobs: tuple[Callable[[], object], ...], rounds: int) -> tuple[float, float]:
    """The second over the first, the first over the third: medians over rounds, in CPU seconds: waiting is left out."""
    spent = [[seconds(job) for job in jobs] for _ in range(rounds)]
    return statistics.median(b / a for a, b, _ in spent), statistics.median(a / c for a, _, c in spent)


def plain(model: Model, given: str) -> None:
    """The tokenizer and transformers' own pass (SDPA), nothing kept."""
    with torch.no_grad():
        model.model(**model.tokenizer(given, return_tensors="pt"))


def written(
    eager: BertModel, tokenizer: Any, given: str, by_hand: Callable[[Layer], Found], roll: bool
) -> dict[str, np.ndarray]:
    """The arrays of one measure, all layers."""
    with torch.no_grad():
        found = [by_hand(layer) for layer in layers(eager, tokenizer, given)]
        maps = {name: [layer[name] for layer in found] for name in found[0]}
        if roll:
            maps = {f"rollout_{name}": rolled(each) for name, each in maps.items()}
        return {name: torch.stack(each).numpy() for name, each in maps.items()}


def layers(eager: BertModel, tokenizer: Any, given: str) -> Iterator[Layer]:
    """One pass that gives attentions and hidden states."""
    output = eager(**tokenizer(given, return_tensors="pt"), output_attentions=True, output_hidden_states=True)
    for module, states, weights in zip(eager.encoder.layer, output.hidden_states, output.attentions, strict=False):
        yield Layer(weights[0], states[0], module)


def attention(layer: Layer) -> Found:
    return {"attention": layer.attention}


def attn_n(layer: Layer) -> Found:
    return {"attn_n": layer.vectors().norm(dim=-1)}


def norms(layer: Layer) -> Found:
    """All five maps from one tensor of vectors."""
    vectors, weights = layer.vectors(), layer.attention.mean(dim=0)
    found = {"attn_w": weights, "attn_n": vectors.norm(dim=-1), "attnres_w": (weights + torch.eye(len(weights))) / 2}
    joined, state = layer.joined(vectors)
    past = normed(joined, state, layer.module.attention.output.LayerNorm)
    return found | {"attnres_n": joined.norm(dim=-1), "attnresln_n": past.norm(dim=-1)}


def effective(layer: Layer) -> Found:
    left, singular, _ = torch.linalg.svd(layer.values, full_matrices=False)
    spanned = left * (singular > 1e-5 * singular[..., :1])[..., None, :]
    return {"effective": layer.attention @ spanned @ spanned.mT}


def attnresln_n(layer: Layer) -> Found:
    joined, state = layer.joined(layer.vectors())
    return {"attnresln_n": normed(joined, state, layer.module.attention.output.LayerNorm).norm(dim=-1)}


def alti(layer: Layer) -> Found:
    norm = layer.module.attention.output.LayerNorm
    joined, state = layer.joined(layer.vectors())
    after = norm(state)
    apart = (after[:, None] - normed(joined, state, norm)).norm(p=1, dim=-1)
    nearer = (after.norm(p=1, dim=-1, keepdim=True) - apart).clamp(min=0)
    return {"alti": nearer / nearer.sum(dim=-1, keepdim=True)}


def block_n(layer: Layer) -> Found:
    """Every vector through both matrices of the feed-forward, each neuron by its slope g(u) / u at the real state."""
    first, last = layer.module.attention.output.LayerNorm, layer.module.output.LayerNorm
    up, down = layer.module.intermediate.dense, layer.module.output.dense
    joined, before = layer.joined(layer.vectors())
    vectors, state = normed(joined, before, first), first(before)
    entered = up(state)
    active = nn.functional.gelu(entered)
    slopes = torch.where(entered == 0, 0.5, active / entered)
    past = vectors + (vectors @ up.weight.T * slopes[:, None]) @ down.weight.T
    return {"block_n": normed(past, state + down(active), last).norm(dim=-1)}


def rolled(maps: list[Tensor]) -> list[Tensor]:
    found = [each / each.sum(dim=-1, keepdim=True) for each in maps]
    for place in range(1, len(found)):
        found[place] = found[place] @ found[place - 1]
    return found


BY_HAND: dict[str, Callable[[Layer], Found]] = {
    "attention": attention,
    "attn_n": attn_n,
    "effective": effective,
    "norms": norms,
    "rollout_attnresln_n": attnresln_n,
    "rollout_alti": alti,
    "block_n": block_n,
}


def text(model: Model, length: int) -> str:
    """Words of one token each; [CLS] and [SEP] count."""
    words = (WORDS * length)[: length - 2]
    assert len(model.tokenizer(" ".join(words))["input_ids"]) == length
    return " ".join(words)


def models() -> tuple[Model, BertModel]:
    """The same weights twice: loaded, and for use by hand with the eager attention that gives weights."""
    torch.manual_seed(0)
    bert = BertModel(BertConfig(), add_pooling_layer=False).eval()
    eager = BertModel(BertConfig(), add_pooling_layer=False).eval()
    eager.load_state_dict(bert.state_dict())
    eager.set_attn_implementation("eager")
    return whence.load(bert, whence.load().tokenizer), eager


if __name__ == "__main__":
    main()
