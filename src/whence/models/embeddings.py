"""What layer 0 is before the embedding layer's norm: the sum of token, position and segment embeddings."""

from jaxtyping import Float
from torch import Tensor, nn

from whence.errors import Unsupported
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.capture import walk
from whence.models.hooks import here


def layer_zero(anatomy: Anatomy, batch: Batch) -> Float[Tensor, "b s m"]:
    """The sum that the norm of the embedding layer reads; where there is none, what the first block reads."""
    norm = _norm(anatomy)
    inputs: list[Tensor] = []
    handle = None if norm is None else norm.register_forward_pre_hook(here(lambda _, args: inputs.append(args[0])))
    try:
        trace = walk(anatomy, batch, lambda block: None)
    finally:
        if handle is not None:
            handle.remove()
    embeddings = inputs[0] if inputs else trace.embedding
    if embeddings.shape != trace.embedding.shape:
        raise Unsupported(
            f"The embeddings of the family {anatomy.family!r} are {embeddings.shape[-1]} wide before their norm and"
            f" {trace.embedding.shape[-1]} after it, so they cannot be compared; use the embeddings' output."
        )
    return embeddings


def _norm(anatomy: Anatomy) -> nn.Module | None:
    """The norm beside the token embeddings, in a module that does not hold the blocks too."""
    table = anatomy.stack.get_input_embeddings()
    holder = next(module for module in anatomy.stack.modules() if table in module.children())
    if any(module is anatomy.blocks[0] for module in holder.modules()):
        return None
    norms = [child for child in holder.children() if isinstance(child, nn.LayerNorm)]
    return norms[0] if norms else None
