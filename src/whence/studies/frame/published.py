"""The figures printed in the papers, and whether they may stand beside ours."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

# how the papers write the analyses
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
    """What a paper says under these keys; `published.json` names model and data of each figure."""
    found = _all()[paper]
    for key in keys:
        found = found[key]
    return found


def same_model(ours: str, theirs: str) -> bool:
    """Whether a Hub id or a path names the model the paper used."""
    return ours.rstrip("/").split("/")[-1].lower() == theirs.lower()
