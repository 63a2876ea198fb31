"""Charts of the LM head taken apart: of one text, of a cloze corpus, of changes of its sentences."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import altair
import numpy as np
import pandas
import xarray

from whence.errors import BadInput
from whence.plot import legible, percent
from whence.plot.drawing import Drawing, draw
from whence.plot.palette import FURNITURE, SEQUENTIAL, Theme, amount, ink_on

BINS = 40
BARS = 40
RANKS = (1, 2, 5, 10, 20, 50, 100)


def drawn(ds: xarray.Dataset, kind: str, theme: Theme = "light") -> Any:
    """The chart of this kind; refuses one that the Dataset has no data for."""
    if kind not in _KINDS:
        raise BadInput(f"There is no chart {kind!r}; there are {', '.join(_KINDS)}.")
    needs, draws = _KINDS[kind]
    if needs not in ds.data_vars and ds.sizes.get(needs, 1) == 1:
        several = f"; ask for more than one {needs}" if needs in ds.coords else ""
        raise BadInput(f"The chart {kind!r} needs {needs!r}, which is not in the result{several}.")
    return draws(ds, theme)


def grid(ds: xarray.Dataset, theme: Theme = "light") -> Any:
    """Spearman's coefficient between every two stages; its mean over the sentences of a corpus."""
    single = _single(ds)
    values = single["spearman"].mean("sentence") if "sentence" in single["spearman"].dims else single["spearman"]
    table = values.to_dataframe("correlation")[["correlation"]].reset_index()
    names = _names(ds)
    last = values.isel(other_stage=-1).values[:-1]
    most = int(np.argmax(last))
    title = f"{names[most]} orders the vocabulary most like {names[-1]}: {last[most]:.2f}; {names[0]}: {last[0]:.2f}"
    drawing = Drawing("grid", table, "other_stage", "stage", title, _sample(ds), value="correlation", order=names)
    return draw(replace(drawing, signed=True, share=False, limits=(-1.0, 1.0), x_title=" ", y_title=" "), theme)


def sorted_scores(
    ds: xarray.Dataset, theme: Theme = "light", stage: str | None = None, other: str | None = None
) -> Any:
    """The scores of two stages, sorted by the one and by the other; the first and the last stage unless named.

    Lines are means of equal shares of the vocabulary, bands the middle 80 %. Scores are in standard deviations.
    """
    single, names = _single(ds), _names(ds)
    pair = [stage or names[0], other or names[-1]]
    scores = {name: single["scores"].sel(stage=name).values for name in pair}
    tables = [_binned(scores, name) for name in pair]
    alike = float(single["spearman"].sel(stage=pair[0], other_stage=pair[1]))
    title = f"{pair[0]} and {pair[1]} order {len(scores[pair[0]]):,} tokens alike to {alike:.2f} (Spearman)"
    return draw(
        Drawing(
            "lines",
            pandas.concat(tables),
            "share",
            "score",
            title,
            f"{_sample(ds)}; standard deviations; bands hold the middle 80 %",
            color="stage",
            by="sorted by",
            x_title="share of the vocabulary, worst to best",
            y_title="score",
            share=False,
            order=pair,
        ),
        theme,
    )


def hits(ds: xarray.Dataset, theme: Theme = "light", ranks: Sequence[int] = RANKS) -> Any:
    """Share of the answers that are among the k best: one line per stage or, after changes, per recipe."""
    if "recipe" in ds.dims:
        values, color = _after(ds), "recipe"
    else:
        values, color = ds["hits"] / max(int(ds.attrs["scored"]), 1), "stage"
    title = _costliest(values) if color == "recipe" else _best(values)
    table = values.sel(k=list(ranks)).to_dataframe("found")[["found"]].reset_index()
    table["k"] = table["k"].astype(int)
    order = [str(name) for name in values[color].values]
    return draw(
        Drawing(
            "lines", table, "k", "found", title, _sample(ds), color=color, x_title="k", y_title="hits@k", order=order
        ),
        theme,
    )


def histograms(ds: xarray.Dataset, theme: Theme = "light") -> Any:
    """How the correlations are spread over sentences: each stage with the last, or before and after each recipe."""
    last = _names(ds)[-1]
    if "recipe" in ds.dims:
        values, by = ds["spearman"].sel(stage=last), "recipe"
        title = f"Scores of {last} before and after a change, sentence by sentence"
    else:
        values, by = ds["spearman"].sel(other_stage=last).isel(stage=slice(None, -1)), "stage"
        title = f"Each step's scores against those of {last}, sentence by sentence"
    low = min(0.0, float(np.floor(10 * values.min()) / 10))
    edges = np.linspace(low, 1, BARS + 1)
    rows = [_counted(str(name), values.sel({by: name}).values, edges) for name in values[by].values]
    table = pandas.concat(rows).rename(columns={"name": by})
    drawing = Drawing("steps", table, "correlation", "sentences", title, _sample(ds), by=by, limits=(low, 1.0))
    return draw(replace(drawing, x_title="Spearman correlation", share=False), theme)


def norm(ds: xarray.Dataset, theme: Theme = "light") -> Any:
    """The weights and biases of the norm before the embeddings, component by component."""
    names = [name for name in ("norm_weight", "norm_bias") if name in ds]
    tables = [
        pandas.DataFrame({"component": np.arange(ds[name].size), "value": ds[name].values, "part": name[5:]})
        for name in names
    ]
    weights = ds[names[0]].values
    spread = float(weights.std() / abs(weights.mean()))
    title = f"The norm's weights have a mean of {weights.mean():.2f} and spread by {100 * spread:.0f} % of it"
    drawing = Drawing("points", pandas.concat(tables), "component", "value", title, str(ds.attrs.get("model", "")))
    return draw(replace(drawing, by="part", share=False, y_title=" "), theme)


def lens(ds: xarray.Dataset, theme: Theme = "light") -> Any:
    """The best token of every layer and stage, coloured by where the stage puts the token that is predicted in the end.

    The last layer is on top, the embedding's output at the bottom.
    """
    first = ds.isel(position=0)
    first = first.assign(place=first["place"].isel(candidate=0, drop=True))
    colors = FURNITURE[theme]
    rows = first[["place"]].to_dataframe()[["place"]].reset_index()
    rows["best"] = [legible(str(word)) for word in first["top"].isel(best=0).transpose("layer", "stage").values.ravel()]
    rows["closeness"] = 1 - np.log10(rows["place"]) / np.log10(first.sizes["vocabulary"])
    rows["ink"] = [ink_on(amount(share, theme)) for share in rows["closeness"]]
    base = altair.Chart(rows).encode(
        x=altair.X("stage:N", sort=_names(ds), title=None, axis=altair.Axis(labelAngle=-40, orient="top")),
        y=altair.Y("layer:O", sort="descending", title="layer"),
        tooltip=["layer", "stage", "best", "place"],
    )
    scale = altair.Scale(domain=[0, 1], range=list(SEQUENTIAL[theme]), interpolate="rgb")
    cells = base.mark_rect().encode(color=altair.Color("closeness:Q", scale=scale, legend=None))
    words = base.mark_text(fontSize=11, font="monospace", limit=78).encode(
        text="best:N", color=altair.Color("ink:N", scale=None, legend=None)
    )
    token = legible(str(first["top"].isel(layer=-1, stage=-1, best=0).values))
    heading = altair.TitleParams(
        _since(first, token),
        subtitle=f"{_sample(ds)}; deep blue: “{token}” is first, pale: far down",
        anchor="start",
        offset=12,
        color=colors["ink"],
        subtitleColor=colors["muted"],
    )
    chart = (cells + words).properties(width={"step": 84}, height={"step": 24}, title=heading)
    return (
        chart.resolve_scale(color="independent")
        .configure(font="system-ui, sans-serif", background=colors["paper"])
        .configure_view(stroke=None)
        .configure_axis(grid=False, domain=False, labelColor=colors["ink"], titleColor=colors["muted"], ticks=False)
    )


_KINDS: dict[str, tuple[str, Callable[[xarray.Dataset, Theme], Any]]] = {
    "grid": ("other_stage", grid),
    "sorted": ("scores", sorted_scores),
    "norm": ("norm_weight", norm),
    "lens": ("layer", lens),
    "hits": ("hits", hits),
    "histograms": ("sentence", histograms),
}


def _names(ds: xarray.Dataset) -> list[str]:
    return [str(name) for name in ds["stage"].values]


def _single(ds: xarray.Dataset) -> xarray.Dataset:
    """Of several layers the last, of several positions the first."""
    last = ds.isel(layer=-1) if "layer" in ds.dims else ds
    return last.isel(position=0) if "position" in last.dims else last


def _sample(ds: xarray.Dataset) -> str:
    model = str(ds.attrs.get("model", ""))
    if "sentence" in ds.dims:
        return f"{int(ds.attrs['scored']):,} of {ds.sizes['sentence']:,} clozes with an answer of one token, {model}"
    return f"“{legible(str(ds.attrs.get('text', '')))}”, {model}"


def _binned(scores: dict[str, np.ndarray], by: str) -> pandas.DataFrame:
    order = np.argsort(scores[by], kind="stable")
    tables = []
    for name, values in scores.items():
        standard = ((values - values.mean()) / values.std())[order]
        groups = np.array_split(standard, BINS)
        low, high = (np.array([np.quantile(group, share) for group in groups]) for share in (0.1, 0.9))
        middle = np.array([group.mean() for group in groups])
        places = (np.arange(BINS) + 0.5) / BINS
        tables.append(pandas.DataFrame({"share": places, "score": middle, "low": low, "high": high, "stage": name}))
    return pandas.concat(tables).assign(**{"sorted by": f"sorted by {by}"})


def _after(ds: xarray.Dataset) -> xarray.DataArray:
    """Hits of the last stage with each recipe, as shares of the sentences it applies to, and of all as they are."""
    unchanged = ds["hits"].isel(stage=-1) / max(int(ds.attrs["scored"]), 1)
    counts = ds["place_after"].isel(stage=-1).notnull().sum("sentence").clip(min=1)
    return xarray.concat(
        [unchanged.expand_dims(recipe=["as it is"]), ds["hits_after"].isel(stage=-1) / counts], dim="recipe"
    )


def _best(values: xarray.DataArray) -> str:
    ten = values.sel(k=10)
    best = str(ten["stage"].values[int(np.argmax(ten.values))])
    return f"{best} has most answers among its ten best: {percent(float(ten.max()))}"


def _costliest(values: xarray.DataArray) -> str:
    ten = values.sel(k=10)
    worst = str(ten["recipe"].values[int(np.argmin(ten.values))])
    unchanged, least = float(ten.isel(recipe=0)), float(ten.min())
    return f"{worst} costs most: from {percent(unchanged)} of the answers among the ten best to {percent(least)}"


def _counted(name: str, values: np.ndarray, edges: np.ndarray) -> pandas.DataFrame:
    counts, _ = np.histogram(values[np.isfinite(values)], edges)
    return pandas.DataFrame(
        {"correlation": edges[:-1], "correlation_end": edges[1:], "sentences": counts, "name": name}
    )


def _since(ds: xarray.Dataset, token: str) -> str:
    """From which layer on the whole head puts the prediction first."""
    first = ds["place"].isel(stage=-1).values == 1
    later = len(first) - int(np.argmin(first[::-1])) if not first.all() else 0
    return f"“{token}” is first from layer {int(ds['layer'].values[later])} on, read through the whole head"
