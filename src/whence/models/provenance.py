"""Where every number came from: the model, its precision and place, and the versions of the libraries."""

from importlib.metadata import version
from typing import Any

from whence.models.load import Model

LIBRARIES = ("torch", "transformers", "xarray", "numpy")


def provenance(model: Model) -> dict[str, Any]:
    """In types that every file format keeps."""
    return {
        "model": model.id,
        "revision": model.revision or "",
        "family": model.anatomy.family,
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "device": str(model.model.device),
        "causal": int(model.anatomy.causal),
        "whence_version": version("whence"),
    } | {f"{library}_version": version(library) for library in LIBRARIES}
