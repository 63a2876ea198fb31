"""What a decomposition and the account of a prediction cost: beside the sketch, head by head, and a plain pass.

Built-in model and SmolLM2, in CPU seconds of one thread, everything taken in turns in one run.
"""

import random
from itertools import pairwise

import torch
from einops import einsum
from torch import Tensor

import whence
from benchmarks.clock import medians, one_thread
from benchmarks.memory import grown, resident, smollm2
from whence.linear.secant import Backwards, secants
from whence.linear.steps import Branches
from whence.measures.flow.contribution import jacobian
from whence.measures.flow.decomposition import decomposition
from whence.measures.flow.plan import planned
from whence.measures.flow.prediction import Predicted, Pulls, dependence, shares
from whence.measures.flow.readout import Readout, of_tokens
from whence.models.block import Batch
from whence.models.capture import run
from whence.models.linearise import linearised
from whence.models.load import Model
from whence.sentence.why import NEEDS

TOKENS, LENGTHS, ROUNDS = 128, (256, 512, 1024), 3
LONG = (2000, 5)
GOALS = {"sketch": 8, "head by head": 10, "why": 6, "growth": 2.6}


def main() -> None:
    torch.manual_seed(0)
    with one_thread():
        built_in, decoder = whence.load(), smollm2()
        _decomposition("built-in", built_in)
        _why("built-in", built_in, LENGTHS[:2])
        _why("SmolLM2", decoder, LENGTHS)
        _long("SmolLM2", decoder)


def _decomposition(name: str, model: Model) -> None:
    anatomy, batch = model.anatomy, _text(model, TOKENS)
    jobs = {
        "ours": lambda: decomposition(anatomy, batch),
        "sketch": lambda: jacobian(anatomy, batch, mode="sketch"),
        "head by head": lambda: _head_by_head(model, batch),
    }
    spent = medians(jobs, repeats=1)
    for other in ("sketch", "head by head"):
        ratio = spent[other] / spent["ours"]
        print(f"{name}, decomposition of {TOKENS} tokens: {ratio:.1f} x faster than {other} (goal {GOALS[other]})")


def _why(name: str, model: Model, lengths: tuple[int, ...]) -> None:
    """One prediction, by its parts and by its derivative, in plain passes with logits."""
    ratios, seconds = {}, {}
    for tokens in lengths:
        batch, asked = _text(model, tokens), [Predicted(5)]
        jobs = {
            "plain": lambda batch=batch: _plain(model, batch),
            "share": lambda batch=batch, asked=asked: _shares(model, batch, asked),
            "dependence": lambda batch=batch, asked=asked: _dependence(model, batch, asked),
        }
        spent = medians(jobs, ROUNDS)
        ratios[tokens] = {part: spent[part] / spent["plain"] for part in ("share", "dependence")}
        seconds[tokens] = spent["share"] + spent["dependence"]
    for tokens, ratio in ratios.items():
        parts = ", ".join(f"{part} {value:.1f}" for part, value in ratio.items())
        print(f"{name}, why of one prediction at {tokens} tokens: {parts} plain passes (goal {GOALS['why']} for both)")
    for short, long in pairwise(lengths):
        print(f"{name}, from {short} to {long} tokens: {seconds[long] / seconds[short]:.1f} x (goal {GOALS['growth']})")


def _long(name: str, model: Model) -> None:
    """A long prompt: wall time, and resident memory beyond the model over what was said beforehand."""
    resident(model)
    prompt, answer = (_text(model, tokens).ids[0].tolist() for tokens in LONG)
    for measure in NEEDS:
        said = planned(model, sum(LONG), LONG[1], [measure], None).takes
        taken = grown(
            lambda measure=measure: whence.why(model, prompt, answer=answer, measures=measure),
            lambda measure=measure: whence.why(model, prompt[:9], measures=measure),
        )
        what = f"{name}, {measure} of {LONG[1]} tokens behind {LONG[0]:,}"
        print(f"{what}: {taken.seconds:.0f} s, {taken.bytes / 1e9:.1f} GB (goal 4), said {said / 1e9:.1f}")


def _shares(model: Model, batch: Batch, asked: list[Predicted]) -> Tensor:
    with torch.no_grad():
        passed = Backwards.of(model.anatomy, batch, model.anatomy.layers)
        return shares(passed, _last(model, batch), asked, Pulls()).share


def _dependence(model: Model, batch: Batch, asked: list[Predicted]) -> Tensor:
    with torch.no_grad(), linearised(model.anatomy, batch, attending=False) as chain:
        return dependence(_last(model, batch), chain, asked, Pulls())


def _last(model: Model, batch: Batch) -> Readout:
    """The LM head behind the last token."""
    count = batch.ids.shape[1]
    return of_tokens(model.anatomy, [count - 1], count)


def _plain(model: Model, batch: Batch) -> Tensor:
    with torch.no_grad():
        return run(model.model, batch)


@torch.no_grad()
def _head_by_head(model: Model, batch: Batch) -> Tensor:
    """As it is usually written: each source's vector, by head past its value and output maps, then weighed."""
    chain = secants(model.anatomy, batch)
    count = len(chain.last)
    vectors = chain.last.new_zeros(count, *chain.last.shape)
    vectors[range(count), range(count)] = chain.states[0]
    for block in chain.blocks:
        vectors = _block_by_head(block, vectors)
    return vectors.norm(dim=-1)


def _block_by_head(block: Branches, vectors: Tensor) -> Tensor:
    attention = block.attention.steps[0]
    weights = attention.weights.flatten(0, 1)
    heads, width, _ = attention.projection.weight.shape
    maps = einsum(
        attention.values.weight.unflatten(1, (heads, width)), attention.projection.weight, "m h d, h d n -> h m n"
    )
    mixed = torch.zeros_like(vectors)
    for head in range(heads):
        mixed += einsum(weights[head], vectors @ maps[head], "t s, k s n -> k t n")
    middle = block.past_attention.push(vectors + mixed)
    return block.past_feed_forward.push(middle + block.feed_forward.push(middle))


def _text(model: Model, tokens: int) -> Batch:
    drawn = random.Random(0).choices(range(1000, len(model.tokenizer)), k=tokens)
    ids = torch.tensor([drawn])
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool))


if __name__ == "__main__":
    main()
