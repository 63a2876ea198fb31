"""What an assistant may ask for: why, measure, lm_head and list_measures as tools of the Model Context Protocol."""

import functools
import json
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from whence.errors import BadInput, WhenceError
from whence.models.given import encoded_of
from whence.models.load import Model
from whence.plot.why import explained, rows
from whence.sentence.list_measures import list_measures
from whence.sentence.lm_head import lm_head
from whence.sentence.measure import of_text as measure
from whence.sentence.why import why
from whence.web.limits import Limits

MOST = 4000  # numbers of one answer: an assistant reads them all
DIGITS = 4
PROVENANCE = ("model", "revision", "whence", "measures")
INSTRUCTIONS = """\
Measures where the information in a transformer's hidden tokens comes from, and which tokens made a prediction. Every
number is checked against the model's own output. Layer 0 is the input; targets come before sources. The models here
are: {models}. Put [MASK] where a masked model shall predict; a decoder predicts what comes after the text."""


def assistant(models: Mapping[str, Model], limits: Limits | None = None) -> MCPServer:
    """A server of the tools, to be run over standard input and output: `assistant(models).run()`."""
    tools = Tools(models, limits or Limits())
    about = INSTRUCTIONS.format(models=", ".join(models))
    server = MCPServer("whence", version=version("whence"), instructions=about, log_level="WARNING")
    for tool in (tools.why, tools.measure, tools.lm_head, tools.list_measures):
        server.add_tool(_said(tool, tools.turn), structured_output=False)
    return server


class Tools:
    """The models, and the one turn there is: hooks that read a model must not be set twice at once."""

    def __init__(self, models: Mapping[str, Model], limits: Limits):
        self.models, self.limits = dict(models), limits
        self.turn = threading.Lock()

    def why(
        self,
        text: str,
        model: str | None = None,
        against: str | None = None,
        answer: str | None = None,
        position: int | None = None,
        layer: int = 0,
        most: int = 12,
    ) -> dict[str, Any]:
        """Why the model predicts what it predicts: the signed part of the logit that each token gave.

        At layer 0 the tokens are those of the input. The shares of all sources and the constants add up to the logit,
        or with `against`, another token, to the lead over it, which is what decided. `answer` is text that a decoder
        would say after the prompt: each of its tokens is explained. `most` bounds the sources that are listed.
        """
        options: dict[str, Any] = {"memory_limit": self.limits.memory, "position": position, "answer": answer}
        ds = why(self._model(model, text), text, against=against, **options)
        if layer not in ds["layer"].values:
            raise BadInput(f"The layers are 0 to {ds['layer'].values[-1]}, and {layer} was asked for.")
        ds = ds.sel(layer=[layer])
        predicted = [_explained(ds.isel(predicted=place), most) for place in range(ds.sizes["predicted"])]
        return {"layer": layer, "predicted": predicted} | _provenance(ds)

    def measure(
        self,
        text: str,
        measures: list[str],
        model: str | None = None,
        layers: list[int] | None = None,
        targets: list[int] | None = None,
        head: int | None = None,
    ) -> dict[str, Any]:
        """Numbers of every token: measures by name (list_measures), for some layers, targets (token numbers) or a head.

        Without a head, what has heads is given as their mean. `values` is nested in the order of `dims`.
        """
        options: dict[str, Any] = {"layers": layers, "targets": targets, "memory_limit": self.limits.memory}
        ds = measure(self._model(model, text), text, measures, **options)
        of_heads: dict[str, Any] = {}
        if "head" in ds.dims:
            of_heads = {"head": "mean" if head is None else head}
            if head is not None and head not in ds["head"].values:
                raise BadInput(f"The heads are 0 to {ds['head'].values[-1]}, and {head} was asked for.")
            ds = ds.mean("head", keep_attrs=True) if head is None else ds.sel(head=head)
        count = sum(array.size for array in ds.data_vars.values())
        if count > MOST:
            raise BadInput(f"That is {count:,} numbers and an answer has at most {MOST:,}; name layers or targets.")
        sides = {
            side: dict(zip(ds[side].values.tolist(), ds[f"{side}_token"].values.tolist(), strict=True))
            for side in ("target", "source")
            if side in ds.dims
        }
        axes = {str(name): ds[name].values.tolist() for name in ds.dims if name not in sides and name in ds.coords}
        return (
            sides
            | axes
            | of_heads
            | {"variables": {str(name): _array(ds[name]) for name in ds.data_vars}}
            | _provenance(ds)
        )

    def lm_head(
        self, text: str, model: str | None = None, position: int | None = None, layer: int | None = None, k: int = 5
    ) -> dict[str, Any]:
        """The best tokens after every step of the LM head, at the masks or after the text.

        `layer` reads the states of an earlier layer, which is the logit lens.
        """
        ds = lm_head(self._model(model, text), text, position, layer, k).isel(layer=0)
        places = [
            {
                "position": int(place),
                "at": str(ds["position_token"].sel(position=place).values),
                "stages": {str(stage): _best(ds.sel(position=place, stage=stage), k) for stage in ds["stage"].values},
            }
            for place in ds["position"].values
        ]
        return {"layer": int(ds["layer"]), "predicted": places} | _provenance(ds)

    def list_measures(self) -> list[dict[str, str]]:
        """What can be measured: names, axes, units and what each one says."""
        table = list_measures()[["measure", "name", "dims", "unit", "about"]]
        return [{str(column): str(value) for column, value in row.items()} for row in table.to_dict("records")]

    def _model(self, name: str | None, text: str) -> Model:
        """The first one unless another is named; the text has to be short enough for it and for the server."""
        name = next(iter(self.models)) if name is None else name
        if name not in self.models:
            raise BadInput(f"There is no model {name[:80]!r} here; there are: {', '.join(self.models)}.")
        model = self.models[name]
        count = len(encoded_of(model, text).tokens)
        if count > self.limits.tokens:
            raise BadInput(f"The text has {count:,} tokens and at most {self.limits.tokens:,} are taken; shorten it.")
        return model


def _said(tool: Callable[..., Any], turn: threading.Lock) -> Callable[..., str]:
    """What a tool finds, as JSON on one line, one call at a time; what the library refuses, in its own sentence."""

    @functools.wraps(tool)
    def called(*args: Any, **options: Any) -> str:
        try:
            with turn:
                return json.dumps(tool(*args, **options), ensure_ascii=False)
        except WhenceError as error:
            raise ToolError(str(error)) from error

    return called


def _explained(ds: xarray.Dataset, most: int) -> dict[str, Any]:
    told = explained(ds.expand_dims("predicted"))[0]
    sources = rows(ds)
    record: dict[str, Any] = {
        "finding": told.finding,
        "position": told.position,
        "token": told.token,
        "probability": _number(told.probability),
        "logit": _number(told.logit),
        "alternatives": {token: _number(chance) for token, chance in told.alternatives},
        "constants": _number(float(ds["bias"].isel(layer=0))) if "bias" in ds else None,
        "sources": [
            {"token": row.labelled} | {name: _number(value) for name, value in row.values.items()}
            for row in sources[:most]
        ],
        "not_listed": max(len(sources) - most, 0),
    }
    return {name: value for name, value in record.items() if value is not None}


def _array(array: xarray.DataArray) -> dict[str, Any]:
    values = np.round(array.values.astype(float), DIGITS).astype(object)
    told = {name: str(array.attrs[name]) for name in ("units", "long_name") if name in array.attrs}
    return {"dims": list(array.dims), **told, "values": np.where(array.isnull(), np.array(None), values).tolist()}


def _best(ds: xarray.Dataset, k: int) -> dict[str, float]:
    pairs = zip(ds["top"].values[:k], ds["top_score"].values[:k], strict=True)
    return {str(token): round(float(score), DIGITS) for token, score in pairs}


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def _provenance(ds: xarray.Dataset) -> dict[str, Any]:
    return {"provenance": {name: ds.attrs[name] for name in PROVENANCE if name in ds.attrs}}
