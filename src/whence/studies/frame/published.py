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


def share(paper: str, *keys: str) -> Any:
    """The same as a share, where the paper prints per cent."""
    value = published(paper, *keys)
    return _scaled(value, 100.0) if any("percent" in key for key in keys) else value


def _scaled(value: Any, by: float) -> Any:
    if isinstance(value, dict):
        return {name: _scaled(entry, by) for name, entry in value.items()}
    return value / by if isinstance(value, int | float) else value


def printed(paper: str, *keys: str, form: str) -> str:
    """What a paper says, as words: `published (bert-base-uncased): 93.0%`."""
    value, of = share(paper, *keys), _all()[paper].get("model")
    values = value if isinstance(value, dict) else {"": value}
    numbers = ", ".join(
        f"{name} {entry:{form}}".strip() for name, entry in values.items() if isinstance(entry, int | float)
    )
    what = "published t" if any("_t_" in key for key in keys) else "published"
    return f"{what}{f' ({of})' if of else ''}: {numbers}" if numbers else ""


def hub_name(model: str) -> str:
    """The name that papers use for a model, from its Hub id or its path."""
    return model.rstrip("/").split("/")[-1].lower()
