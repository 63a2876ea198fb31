"""Another attention with the same output, demonstrated on a text (Brunner et al. 2020)."""

from collections.abc import Sequence

import torch
import xarray

from whence._arguments import seed_of, whole
from whence.errors import Unsupported
from whence.measures.attention.alternative import alternative_of
from whence.models.encode import encode
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.models.precision import reported
from whence.text.sentence import sentence

NEEDS = frozenset({"attention", "rows", "values"})


def alternative_attention(
    model: Model,
    text: object,
    layer: int,
    head: int,
    row: int | None = None,
    direction: Sequence[float] | str | None = None,
    seed: int = 0,
) -> xarray.Dataset:
    """One head's attention moved as far as it can go without any effect, put back into the model and checked.

    Args:
        model: a loaded model
        text: a text, a pair, a chat or token ids
        layer: the block whose attention is moved; 1 is the first
        head: the head, counted from 0
        row: the target token whose row is moved; the one that can be moved furthest when None
        direction: random (from `seed`) when None; numbers, one for each source; "unlike", the attention that shares
            least weight with the real one; "minimum", the one of smallest norm, whose weights may be negative; or
            "minimum_simplex", the distribution of smallest norm
        seed: of the random direction

    Returns:
        A Dataset with `attention` and `alternative`, both distributions over the sources (but for "minimum"). Its
        attributes say how far a weight moved (`change`) and how little the head's output and the logits did, relative
        to their largest entry.

    After Brunner et al. (2020), section 3.3.

    Examples:
        >>> long = "The old man who fed the hungry pigeons every morning was tired, and nobody near knew why. " * 2
        >>> ds = whence.alternative_attention(whence.load(), long, layer=2, head=3)
        >>> ds.attrs["change"] > 100 * ds.attrs["logits_difference"]
        True
    """
    if missing := ", ".join(sorted(NEEDS - loaded(model).gives)):
        raise Unsupported(
            f"Another attention needs {missing}, which the family {model.anatomy.family!r} does not give."
        )
    parsed = sentence(text)
    encoded = encode(model.anatomy, model.tokenizer, parsed)
    layer, head = whole("layer", layer, 1), whole("head", head, 0)
    row = None if row is None else whole("row", row, 0)
    towards = direction if direction is None or isinstance(direction, str) else torch.as_tensor(direction).double()
    result = alternative_of(model.anatomy, encoded.batch, layer, head, row, towards, seed_of(seed))
    matrices = {"attention": result.attention, "alternative": result.alternative}
    dtype = reported(model.model.dtype)
    tokens = {f"{axis}_token": (axis, encoded.tokens) for axis in ("target", "source")}
    return xarray.Dataset(
        {name: (("target", "source"), weights[0].to("cpu", dtype).numpy()) for name, weights in matrices.items()},
        coords={"layer": layer, "head": head, **tokens},
        attrs=provenance(model, ["effective"], {"row": row, "direction": direction, "seed": seed})
        | {
            "text": parsed.text,
            "pair": parsed.pair or "",
            "change": result.change,
            "output_difference": result.output_difference,
            "logits_difference": result.logits_difference,
        },
    )
