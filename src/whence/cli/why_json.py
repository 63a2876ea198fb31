"""An explained prediction as one record of plain lists, for `whence why --json`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
# what a record of a prediction holds where the Dataset has it; axes are layers, then sources or spans
NUMBERS = (
    *("logit", "probability", "place", "bias", "share", "dependence", "carried", "carried_through"),
    *("span_share", "span_dependence", "component_share", "component_bias"),
)
TOLD = ("text", "pair", "answer", "predicts")  # attributes that have members of their own
OF_SOURCE = {
    "token": "source_token",
    "token_id": "source_token_id",
    "stack": "source_stack",
    "is_special": "source_is_special",
    "is_answer": "source_is_answer",
    "span": "source_span",
}


def record(ds: "xarray.Dataset") -> dict[str, Any]:
    """Everything there is, by the names of the Dataset."""
    attributes = {str(name): value for name, value in ds.attrs.items() if name not in TOLD}
    record = {
        "schema": SCHEMA,
        "text": ds.attrs["text"],
        "pair": ds.attrs["pair"] or None,
        "answer": ds.attrs.get("answer"),
        "predicts": ds.attrs.get("predicts", "token"),
        "layers": ds["layer"].values.tolist(),
        "layer_stacks": ds["layer_stack"].values.tolist() if "layer_stack" in ds.coords else None,
        "sources": _rows(ds, {name: axis for name, axis in OF_SOURCE.items() if axis in ds.coords}),
        "spans": ds["span_text"].values.tolist() if "span_text" in ds.coords else None,
        "components": ds["component"].values.tolist() if "component" in ds.coords else None,
        "predicted": [_predicted(ds.isel(predicted=place)) for place in range(ds.sizes["predicted"])],
        "provenance": attributes,
    }
    return {name: value for name, value in record.items() if value is not None}


def _rows(ds: "xarray.Dataset", columns: dict[str, str]) -> list[dict[str, Any]]:
    values = {name: ds[axis].values.tolist() for name, axis in columns.items()}
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _predicted(ds: "xarray.Dataset") -> dict[str, Any]:
    record = {"position": int(ds["predicted"]), "token": str(ds["predicted_token"].values)}
    record["token_id"] = int(ds["predicted_token_id"])
    if "against_token" in ds.coords:
        record |= {"against": str(ds["against_token"].values), "against_id": int(ds["against_token_id"])}
    if "alternative_token" in ds:
        columns = {name: f"alternative_{name}" for name in ("token", "token_id", "probability")}
        columns = {name: axis for name, axis in columns.items() if axis in ds}
        record["alternatives"] = _rows(ds, columns)
    return record | {name: ds[name].values.tolist() for name in NUMBERS if name in ds}
