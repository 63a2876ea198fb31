"""Charts of token identifiability: the rate by layer, trained-on against tested-on, neighbours left and right."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair
import pandas
import xarray

from whence.plot import percent
from whence.plot.charts import finished
from whence.plot.palette import FURNITURE, SEQUENTIAL

# Okabe & Ito: dark for cosine, light for L2; black and grey without a probe
PROBES = {
    ("linear", "cosine"): "#0072b2",
    ("linear", "l2"): "#56b4e9",
    ("mlp", "cosine"): "#d55e00",
    ("mlp", "l2"): "#e69f00",
    ("naive", "cosine"): "#000000",
    ("naive", "l2"): "#8c8c8c",
}
LOSSES = {"cosine": "cosine", "l2": "L2"}
# the nearer the neighbour, the darker; blue to the left, orange to the right, as in the paper's red
LEFT = ("#0072b2", "#56a0d0", "#9fc9e6")
RIGHT = ("#d55e00", "#e58f45", "#f2bf92")
SIZE = {"width": 380, "height": 280}


def rates(datasets: xarray.Dataset | Iterable[xarray.Dataset]) -> altair.LayerChart:
    """One line per experiment over the layers, the range of its folds as a band, guessing as a dashed line."""
    experiments = _listed(datasets)
    names = [_name(dataset) for dataset in experiments]
    colours = [PROBES.get((d.attrs["probe"], d.attrs["loss"]), FURNITURE["light"]["muted"]) for d in experiments]
    frame = pandas.concat([_spans(dataset, name) for dataset, name in zip(experiments, names, strict=True)])
    main = experiments[0]
    layer = int(main.layer.values[-1])
    share = percent(float(main.rate.sel(layer=layer).mean()))
    title = f"After layer {layer}, {share} of tokens are recognised ({_name(main)})"
    return _lines(frame, names, colours, float(main.chance.mean()), title, _subtitle(main))


def neighbours(datasets: Iterable[xarray.Dataset]) -> altair.LayerChart:
    """The same for tokens to the left and right, one experiment per offset."""
    experiments = sorted(datasets, key=lambda dataset: int(dataset.attrs["offset"]))
    names = [_offset(int(dataset.attrs["offset"])) for dataset in experiments]
    colours = [_side(int(dataset.attrs["offset"])) for dataset in experiments]
    frame = pandas.concat([_spans(dataset, name) for dataset, name in zip(experiments, names, strict=True)])
    layer = int(experiments[0].layer.values[-1])
    shares = {int(d.attrs["offset"]): percent(float(d.rate.sel(layer=layer).mean())) for d in experiments}
    phrases = [f"{shares[offset]} of {word}" for offset, word in _SAID.items() if offset in shares]
    title = f"Layer {layer} gives back {', '.join(phrases)}"
    return _lines(frame, names, colours, float(experiments[0].chance.mean()), title, _subtitle(experiments[0]))


def grid(dataset: xarray.Dataset) -> altair.LayerChart:
    """Trained on (rows, the last layer on top) against tested on (columns), the mean rate in every cell."""
    mean = dataset["transfer"].mean("fold")
    frame = mean.to_dataframe("rate").reset_index()
    frame["shown"] = [f"{100 * value:.0f}" for value in frame["rate"]]
    frame["dark"] = frame["rate"] > 0.5
    base = altair.Chart(frame).encode(
        x=altair.X("tested_on:O", title="tested on layer", axis=altair.Axis(labelAngle=0)),
        y=altair.Y("trained_on:O", title="trained on layer", sort="descending"),
    )
    colour = altair.Color(
        "rate:Q",
        scale=altair.Scale(domain=[0, 1], range=list(SEQUENTIAL["light"]), interpolate="rgb"),
        legend=altair.Legend(title=None, format=".0%", orient="bottom", gradientLength=140),
    )
    cells = base.mark_rect().encode(color=colour, tooltip=["trained_on", "tested_on", _tooltip("rate")])
    ink = altair.condition("datum.dark", altair.value("#ffffff"), altair.value(FURNITURE["light"]["ink"]))
    chart = (cells + base.mark_text(fontSize=11).encode(text="shown:N", color=ink)).properties(
        width={"step": 34}, height={"step": 34}
    )
    first, last = int(mean.trained_on.values[0]), int(mean.trained_on.values[-1])
    title = _transfer_finding(mean, first, last)
    return finished(chart, title, _subtitle(dataset, "mean test rate in per cent"))


_SAID = {0: "tokens", -1: "left neighbours", 1: "right neighbours"}


def _transfer_finding(mean: xarray.DataArray, first: int, last: int) -> str:
    if first not in mean.tested_on or last not in mean.tested_on or first == last:
        return "How probes of one layer do on another"
    late = percent(float(mean.sel(trained_on=last, tested_on=first)))
    early = percent(float(mean.sel(trained_on=first, tested_on=last)))
    return f"Trained on layer {last}, a probe finds {late} in layer {first}; the other way round {early}"


def _lines(
    frame: pandas.DataFrame,
    names: Sequence[str],
    colours: Sequence[str],
    chance: float,
    title: str,
    subtitle: list[str],
) -> altair.LayerChart:
    x = altair.X("layer:O", title="layer", axis=altair.Axis(labelAngle=0))
    y = altair.Y("rate:Q", title="tokens recognised", axis=altair.Axis(format="%"), scale={"domain": [0, 1]})
    scale = altair.Scale(domain=list(names), range=list(colours))
    colour = altair.Color("experiment:N", scale=scale, legend=None)
    base = altair.Chart(frame).encode(x=x, color=colour)
    band = base.mark_area(opacity=0.18).encode(y=altair.Y("low:Q"), y2="high:Q")
    line = base.mark_line(point=True, strokeWidth=2).encode(
        y=y, tooltip=["experiment", "layer", _tooltip("rate"), _tooltip("low"), _tooltip("high")]
    )
    ends = altair.Chart(_ends(frame)).mark_text(align="left", dx=10, fontSize=11)
    labels = ends.encode(x=x, y=y, color=colour, text="experiment:N")
    return finished((_chance(frame, chance) + band + line + labels).properties(**SIZE), title, subtitle, SIZE["width"])


def _chance(frame: pandas.DataFrame, chance: float) -> altair.LayerChart:
    muted = FURNITURE["light"]["muted"]
    data = pandas.DataFrame({"rate": [chance], "layer": [frame["layer"].min()], "said": [f"guessing {chance:.1%}"]})
    rule = altair.Chart(data).mark_rule(strokeDash=[4, 3], color=muted).encode(y="rate:Q")
    label = altair.Chart(data).mark_text(align="left", dy=-7, dx=-8, fontSize=10, color=muted)
    return rule + label.encode(x="layer:O", y="rate:Q", text="said:N")


def _spans(dataset: xarray.Dataset, name: str) -> pandas.DataFrame:
    """Mean, lowest and highest fold by layer."""
    rate = dataset["rate"]
    columns: dict[str, Any] = {"rate": rate.mean("fold"), "low": rate.min("fold"), "high": rate.max("fold")}
    frame = pandas.DataFrame({key: column.values for key, column in columns.items()})
    return frame.assign(layer=dataset.layer.values, experiment=name)


def _ends(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Where each line ends, moved apart so that the names can be read; never above the axis."""
    last = frame.sort_values("layer").groupby("experiment").tail(1).sort_values("rate", ascending=False)
    heights = last["rate"].to_numpy(copy=True)
    for place in range(1, len(heights)):
        heights[place] = min(heights[place], heights[place - 1] - 0.055)
    return last.assign(rate=heights + max(0.0, -float(heights.min())))


def _listed(datasets: xarray.Dataset | Iterable[xarray.Dataset]) -> list[xarray.Dataset]:
    return [datasets] if isinstance(datasets, xarray.Dataset) else list(datasets)


def _name(dataset: xarray.Dataset) -> str:
    return f"{dataset.attrs['probe']}, {LOSSES[dataset.attrs['loss']]}"


def _offset(offset: int) -> str:
    return "the token itself" if offset == 0 else f"{abs(offset)} to the {'left' if offset < 0 else 'right'}"


def _side(offset: int) -> str:
    if offset == 0:
        return PROBES["naive", "cosine"]
    side = LEFT if offset < 0 else RIGHT
    return side[min(abs(offset), len(side)) - 1]


def _subtitle(dataset: xarray.Dataset, what: str = "bands span the folds") -> list[str]:
    about = dataset.attrs
    corpus = f"{about['tokens']:,} tokens, {about['sentences']:,} sentences, {dataset.sizes['fold']} folds"
    return [f"{what}; {corpus}", f"{about['model']}, nearest neighbour within the sentence (Brunner et al. 2020)"]


def _tooltip(name: str) -> altair.Tooltip:
    return altair.Tooltip(f"{name}:Q", format=".1%")
