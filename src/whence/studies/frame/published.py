"""The figures printed in the papers, and the names of models in them."""

import json
from functools import cache, reduce
from importlib.resources import files
from typing import Any

# the names of the analyses in the papers
ANALYSES = {
    "attn_w": "ATTN-W",
    "attn_n": "ATTN-N",
    "attnres_w": "ATTNRES-W",
    "attnres_n": "ATTNRES-N",
    "attnresln_n": "ATTNRESLN-N",
}


@cache
def _all() -> dict[str, Any]:
    return json.loads(files("whence.studies.frame").joinpath("published.json").read_text(encoding="utf-8"))


def published(paper: str, *keys: str) -> Any:
    """What a paper says under these keys; `published.json` names the model and the data of each figure."""
    return reduce(lambda branch, key: branch[key], keys, _all()[paper])


def hub_name(model: str) -> str:
    """The name that papers use for a model, from its Hub id or its path."""
    return model.rstrip("/").split("/")[-1].lower()
