"""Which step of the LM head makes the prediction? (Podkorytov, Bis & Liu 2021)"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from whence.cloze import cloze
from whence.errors import Unsupported
from whence.head import head
from whence.measures.head import stages_of
from whence.perturb import RECIPES, perturb
from whence.plot.drawing import Drawing
from whence.readers import Corpus
from whence.studies.context import Context, called
from whence.studies.frame import Beside, Claim, Item, Left, Section, Shown, Study
from whence.studies.published import published, same_model
from whence.text import MASK

PAPER = "Podkorytov et al. 2021"
BASE = "bert-base-uncased"
RANKS = (1, 2, 5, 10, 20, 50, 100)
SHORT = (1, 10, 100)  # of them, in tables beside the paper's
BINS, BARS = 40, 25
FAR = 3  # standard deviations
FEW = 10  # answers among the ten best, below which shares of them say nothing
USELESS, COMPLETE = 0.25, 0.9  # of the whole head's hits; what we take the paper's words to mean
LENS = (1, 10, 100)
# our recipes, as we call them on the page and as published.json does
CHANGES = {
    "no-period": ("final period removed", "final period removed (n=29714)"),
    "no-end": ("end token removed", "[SEP] removed"),
    "mask-word": ("mask replaced by “cat”", "[MASK] -> cat"),
}
QUESTIONS, INTACT = 29774, 29714  # of the paper; those that end in a period


def _printed(*keys: str) -> Any:
    return published("podkorytov2021", *keys)


def _text(context: Context) -> str:
    """The sentence asked for, or the paper's; a decoder reads it up to the gap."""
    given = context.text or _printed("sentence")
    return given.split(MASK)[0].rstrip() if context.model.anatomy.causal else given


def _one(context: Context, **options: Any) -> xarray.Dataset:
    """The head at the first gap of the sentence."""
    found = head(context.model, _text(context), **options)
    return found.isel(position=0) if "position" in found.dims else found


def _names(found: xarray.Dataset) -> list[str]:
    return [str(name) for name in found["stage"].values]


def _norm(names: Sequence[str]) -> tuple[str, str]:
    """The stages at which the head's last norm has normalised, and has put its weights on."""
    for prefix in ("lnorm", "norm"):
        if f"{prefix}-n" in names:
            return f"{prefix}-n", f"{prefix}-w"
    raise Unsupported("there is no norm between the last block and the embeddings of this model.")


def _folder(context: Context, verb: str, sentences: Any) -> Path:
    key = sentences.key.split()[-1]
    return context.out / "runs" / f"{verb}-{sentences.corpus.name}-{key}"


def _clozes(context: Context, corpus: Corpus | None = None) -> xarray.Dataset:
    sentences = context.sentences(context.amount(60, 10**9), corpus)
    told = context.telling(f"clozes: {called(sentences.corpus)}")
    found = cloze(context.model, sentences, out=_folder(context, "cloze", sentences), progress=told)
    if not found.attrs["scored"]:
        raise Unsupported(
            f"{called(sentences.corpus)} has no sentence with a gap and a one-token answer that this model can fill;"
            " it takes a cloze corpus such as lama:FILE."
        )
    return found


def _asked(found: xarray.Dataset, context: Context, corpus: Corpus | None = None) -> str:
    return f"{found.attrs['scored']:,} clozes; {context.model.id} · {called(corpus or context.corpus)}"


def alike(context: Context) -> Iterator[Item]:
    found = _one(context)
    names = _names(found)
    last = found["spearman"].isel(other_stage=-1).to_series()
    best = last.iloc[:-1].idxmax()
    yield Shown(
        "head_spearman",
        f"{PAPER}, Table V",
        _grid(
            found["spearman"].to_dataframe("spearman")[["spearman"]].reset_index(),
            names,
            f"{best} orders the vocabulary most like {names[-1]} ({last[best]:.2f}), {names[0]} least of use: {last.iloc[0]:.2f}"
            if last.iloc[0] == last.iloc[:-1].min()
            else f"{best} orders the vocabulary most like {names[-1]}: {last[best]:.2f}",
            f"Spearman over {found.sizes['vocabulary']:,} tokens; {context.model.id}, “{_text(context)}”",
        ),
    )
    yield from _published_grid(context, last)


def _grid(table: pandas.DataFrame, names: Sequence[str], title: str, subtitle: str) -> Drawing:
    return Drawing(
        "grid",
        table,
        "other_stage",
        "stage",
        title,
        subtitle,
        value="spearman",
        order=tuple(names),
        signed=True,
        share=False,
        limits=(-1, 1),
        x_title="",
        y_title="",
    )


def _published_grid(context: Context, ours: pandas.Series) -> Iterator[Item]:
    stages, values = _printed("stages"), np.array(_printed("spearman"))
    table = pandas.DataFrame(values, stages, stages).rename_axis(index="stage", columns="other_stage")
    title = f"In {BASE}, the norm's weight brings the correlation from {values[4, -1]:.2f} to {values[5, -1]:.2f}"
    subtitle = f"as printed; {BASE}, “{_printed('sentence')}”"
    drawing = _grid(table.stack().rename("spearman").reset_index(), stages, title, subtitle)
    yield Shown("head_spearman_published", f"{PAPER}, Table V: these are the paper's own numbers", drawing)
    rows = [
        {"stage": stage, "ours": round(float(ours.get(stage, np.nan)), 2), BASE: round(float(theirs), 2)}
        for stage, theirs in zip(stages, values[:, -1], strict=True)
    ]
    other = [name for name in ours.index if name not in stages]
    rest = f" Stages of this model that the paper's has not: {', '.join(other)}." if other else ""
    yield Beside(
        "head_spearman_last",
        "the last row of Table V: each stage against the logits",
        pandas.DataFrame(rows),
        f"Ours: {context.model.id}, “{_text(context)}”. Theirs: {BASE}, “{_printed('sentence')}”.{rest}",
    )


def growth(context: Context) -> Iterator[Item]:
    """Table V's last row over a corpus, where one sentence might be a chance."""
    found = _clozes(context)
    names = _names(found)
    rows = found["spearman"].isel(other_stage=-1, stage=slice(None, -1))
    spread = rows.quantile([0.1, 0.5, 0.9], dim="sentence")
    table = pandas.DataFrame(
        {"stage": names[:-1]}
        | {name: spread.isel(quantile=at).values for at, name in enumerate(("low", "spearman", "high"))}
    )
    top = table.loc[table["spearman"].idxmax()]
    yield Shown(
        "head_spearman_corpus",
        f"{PAPER}, the last row of Table V, for many sentences",
        Drawing(
            "bars",
            table,
            "stage",
            "spearman",
            f"Step by step towards the logits: {names[0]} {table['spearman'].iloc[0]:.2f}, {top['stage']} {top['spearman']:.2f}",
            f"Spearman with {names[-1]}, median, lines hold the middle 80 %; {_asked(found, context)}",
            color="stage",
            order=tuple(names[:-1]),
            share=False,
            x_title="",
        ),
    )
    normalised, weighted = _norm(names)
    before = names[names.index(normalised) - 1]
    steps = [float(table.set_index("stage")["spearman"][name]) for name in (before, normalised, weighted)]
    yield Claim(
        "Normalisation brings a stage's scores much closer to the logits, and the norm's weight closer still.",
        steps[1] - steps[0] > 0.1 and steps[2] > steps[1],
        f"median Spearman with the logits: {before} {steps[0]:.2f}, {normalised} {steps[1]:.2f}, {weighted} {steps[2]:.2f}"
        f" (we ask for 0.1 and more, then more); {BASE}, one sentence: 0.20, 0.68, 0.94",
    )


def sorted_scores(context: Context) -> Iterator[Item]:
    found = _one(context)
    names = _names(found)
    pairs = {
        "last_by_stage": ("Figs 4 and 6, left", names[-1], names[:-1], True),
        "stage_by_last": ("Fig. 6, right", names[-1], names[:-1], False),
        "first_by_stage": ("Fig. 5, left", names[0], names[1:], True),
        "stage_by_first": ("Fig. 5, right", names[0], names[1:], False),
    }
    for name, (figure, fixed, others, by_stage) in pairs.items():
        parts = [
            _binned(found, *((fixed, stage) if by_stage else (stage, fixed))).assign(stage=stage) for stage in others
        ]
        alike = {stage: float(found["spearman"].sel(stage=stage, other_stage=fixed)) for stage in others}
        closest = max(alike, key=lambda stage: alike[stage])
        what = f"{fixed}, sorted by each stage" if by_stage else f"each stage, sorted by {fixed}"
        yield Shown(
            f"head_sorted_{name}",
            f"{PAPER}, {figure}",
            Drawing(
                "lines",
                pandas.concat(parts, ignore_index=True),
                "place",
                "score",
                f"{what[0].upper()}{what[1:]}: most alike is {closest}, Spearman {alike[closest]:.2f}",
                f"means of {BINS} equal parts of the vocabulary, bands hold the middle 80 %; scores in standard"
                f" deviations; {context.model.id}, “{_text(context)}”",
                color="line",
                order=("sorting", "sorted"),
                by="stage",
                share=False,
                x_title="vocabulary, worst to best",
            ),
        )


def _binned(found: xarray.Dataset, stage: str, by: str) -> pandas.DataFrame:
    """The stage's scores in the order that the other gives, beside the other's own."""
    order = np.argsort(found["scores"].sel(stage=by).values, kind="stable")
    tables = []
    for line, name in (("sorting", by), ("sorted", stage)):
        scores = found["scores"].sel(stage=name).values[order]
        parts = np.array_split((scores - scores.mean()) / scores.std(), BINS)
        low, high = (np.array([np.quantile(part, share) for part in parts]) for share in (0.1, 0.9))
        rows = {
            "place": (np.arange(BINS) + 0.5) / BINS,
            "score": [part.mean() for part in parts],
            "low": low,
            "high": high,
        }
        tables.append(pandas.DataFrame(rows).assign(line=line))
    return pandas.concat(tables)


def norms(context: Context) -> Iterator[Item]:
    found = _one(context)
    normalised, _ = _norm(_names(found))
    for figure, part in (("Fig. 8", "weight"), ("Fig. 9", "bias")):
        if f"norm_{part}" not in found:
            yield Left(
                f"{PAPER}, {figure}: the norm's {part}", f"the norm of {context.model.anatomy.family!r} has no {part}"
            )
            continue
        values = found[f"norm_{part}"].values
        far = int((np.abs(values - values.mean()) > FAR * values.std()).sum())
        yield Shown(
            f"head_norm_{part}",
            f"{PAPER}, {figure}",
            Drawing(
                "points",
                pandas.DataFrame({"component": np.arange(len(values)), part: values}),
                "component",
                part,
                f"The norm's {part} is {values.mean():.2f} ± {values.std():.2f}; {far} of {len(values)} components lie far off",
                f"mean and standard deviation; far is more than {FAR} of them; {context.model.id}, before stage {normalised[:-2]}-{part[0]}",
                share=False,
            ),
        )


def hits(context: Context) -> Iterator[Item]:
    for place, corpus in enumerate(context.corpora):
        found = _clozes(context, corpus)
        yield _hits(context, found, corpus, "head_hits" if place == 0 else f"head_hits_{place}")
        if place == 0:
            yield from _published_hits(context, found)
            yield _completeness(found)


def _shares(found: xarray.Dataset) -> xarray.DataArray:
    return found["hits"] / found.attrs["scored"]


def _hits(context: Context, found: xarray.Dataset, corpus: Corpus, name: str) -> Shown:
    shares = _shares(found)
    names, ten = _names(found), shares.sel(k=10)
    best = str(ten["stage"].values[int(ten.argmax())])
    return Shown(
        name,
        f"{PAPER}, hits@k by stage",
        Drawing(
            "lines",
            shares.sel(k=list(RANKS)).to_dataframe("found")[["found"]].reset_index(),
            "k",
            "found",
            f"{best} has most answers among its ten best: {float(ten.max()):.0%}; the whole head has {float(ten[-1]):.0%}",
            f"share of answers among the k best of {_vocabulary(context):,} tokens; {_asked(found, context, corpus)}",
            color="stage",
            order=tuple(names),
            x_title="k",
            y_title="hits@k",
        ),
    )


def _vocabulary(context: Context) -> int:
    return int(stages_of(context.model.anatomy).embeddings.shape[1])


def _published_hits(context: Context, found: xarray.Dataset) -> Iterator[Item]:
    theirs, shares = _printed("hits_lama_conceptnet_of_29774"), _shares(found)
    rows = []
    for stage in dict.fromkeys([*_names(found), *_printed("stages")]):
        row = {"stage": stage}
        for k in SHORT:
            there = stage in _names(found)
            row[f"ours, k = {k}"] = f"{float(shares.sel(stage=stage, k=k)):.1%}" if there else ""
        for k in SHORT:
            known = stage in theirs
            row[f"{BASE}, k = {k}"] = f"{theirs[stage][RANKS.index(k)] / QUESTIONS:.1%}" if known else ""
        rows.append(row)
    differs = f"Ours: {_asked(found, context)}. Theirs: the whole of LAMA ConceptNet, {QUESTIONS:,} clozes."
    yield Beside("head_hits_published", "the published hits@k, as shares", pandas.DataFrame(rows), differs)


def _completeness(found: xarray.Dataset) -> Claim:
    names, ten = _names(found), found["hits"].sel(k=10)
    normalised, weighted = _norm(names)
    whole = int(ten[-1])
    earlier = names[: names.index(normalised)]
    share = {name: int(ten.sel(stage=name)) / max(whole, 1) for name in names}
    best = max(earlier, key=lambda name: share[name])
    decided = share[best] < USELESS and share[weighted] > COMPLETE
    return Claim(
        "Before the norm a stage is of next to no use; after the norm's weight it is nearly complete.",
        decided if whole >= FEW else None,
        f"hits@10 as shares of the whole head's {whole}: at most {share[best]:.0%} before ({best}), {share[normalised]:.0%}"
        f" normalised, {share[weighted]:.0%} with the weight (we ask for under {USELESS:.0%} and over {COMPLETE:.0%});"
        f" {BASE}: 10%, 50%, 100%",
    )


def changes(context: Context) -> Iterator[Item]:
    if context.model.anatomy.causal:
        yield Left(
            f"{PAPER}, Figs 3 and 7: final period, [SEP] and [MASK] taken away",
            "a decoder reads only what stands before the gap: it has no mask, and period and end token come after it",
        )
        return
    sentences = context.sentences(context.amount(60, 10**9))
    told = context.telling(f"changes: {called(sentences.corpus)}")
    found = perturb(context.model, sentences, RECIPES, out=_folder(context, "perturb", sentences), progress=told)
    found = found.isel(stage=-1)
    there = [str(name) for name in found["recipe"].values if int(found["applied"].sel(recipe=name))]
    for name in RECIPES:
        if name not in there:
            yield Left(CHANGES[name][0], "no sentence of this corpus has one, as this model reads it")
    if there:
        yield from _changes(context, found.sel(recipe=there))


def _changes(context: Context, found: xarray.Dataset) -> Iterator[Item]:
    middle = {
        CHANGES[str(name)][0]: float(found["spearman"].sel(recipe=name).median()) for name in found["recipe"].values
    }
    worst = min(middle, key=lambda name: middle[name])
    yield Shown(
        "head_changes",
        f"{PAPER}, Figs 3 and 7",
        Drawing(
            "steps",
            _histograms(found),
            "correlation",
            "sentences",
            f"{worst[0].upper()}{worst[1:]} changes the prediction most: median Spearman {middle[worst]:.2f}",
            f"correlation of the logits before and after, sentence by sentence; {_asked(found, context)}",
            by="change",
            x_title="Spearman",
            share=False,
            limits=(float(np.floor(10 * found["spearman"].min()) / 10), 1.0),
        ),
    )
    yield _hits_after(context, found)
    yield _published_changes(context, found)
    yield from _damage(found, middle)


def _histograms(found: xarray.Dataset) -> pandas.DataFrame:
    low = float(np.floor(10 * found["spearman"].min()) / 10)
    edges, tables = np.linspace(low, 1, BARS + 1), []
    for name in found["recipe"].values:
        values = found["spearman"].sel(recipe=name).values
        counts, _ = np.histogram(values[np.isfinite(values)], edges)
        rows = {"correlation": edges[:-1], "correlation_end": edges[1:], "sentences": counts}
        tables.append(pandas.DataFrame(rows).assign(change=CHANGES[str(name)][0]))
    return pandas.concat(tables, ignore_index=True)


def _after(found: xarray.Dataset) -> xarray.DataArray:
    """Hits after each change, as shares of the sentences that it applies to and that have an answer."""
    return found["hits_after"] / found["rank_after"].notnull().sum("sentence")


def _hits_after(context: Context, found: xarray.Dataset) -> Shown:
    before = (found["hits"] / found.attrs["scored"]).expand_dims(recipe=["as it is"])
    shares = xarray.concat([before, _after(found)], "recipe").sel(k=list(RANKS))
    table = shares.to_dataframe("found")[["found"]].reset_index()
    table["change"] = table["recipe"].map(lambda name: CHANGES[name][0] if name in CHANGES else name)
    ten = table[table["k"] == 10].set_index("change")["found"]
    return Shown(
        "head_changes_hits",
        f"{PAPER}, hits@k after each change",
        Drawing(
            "lines",
            table[["change", "k", "found"]],
            "k",
            "found",
            f"{ten['as it is']:.0%} of the answers are among the ten best; at worst, {ten.min():.0%} are left ({ten.idxmin()})",
            f"share of answers among the k best; {_asked(found, context)}",
            color="change",
            order=tuple(table["change"].unique()),
            y_title="hits@k",
        ),
    )


def _published_changes(context: Context, found: xarray.Dataset) -> Beside:
    theirs, whole = _printed("hits_perturbed"), _printed("hits_lama_conceptnet_of_29774")["lmhead-out"]
    ours = found["hits"] / found.attrs["scored"]
    rows = [_row("as it is", [float(ours.sel(k=k)) for k in SHORT], [n / QUESTIONS for n in whole])]
    for name in found["recipe"].values:
        shown, printed = CHANGES[str(name)]
        of = INTACT if "n=29714" in printed else QUESTIONS
        after = _after(found).sel(recipe=name)
        rows.append(_row(shown, [float(after.sel(k=k)) for k in SHORT], [n / of for n in theirs[printed]]))
    differs = f"Ours: {_asked(found, context)}. Theirs: the whole of LAMA ConceptNet, {QUESTIONS:,} clozes."
    return Beside(
        "head_changes_published", "the published hits@k after each change, as shares", pandas.DataFrame(rows), differs
    )


def _row(name: str, ours: Sequence[float], theirs: Sequence[float]) -> dict[str, str]:
    row = {"change": name} | {f"ours, k = {k}": f"{share:.1%}" for k, share in zip(SHORT, ours, strict=True)}
    return row | {f"{BASE}, k = {k}": f"{theirs[RANKS.index(k)]:.1%}" for k in SHORT}


def _damage(found: xarray.Dataset, middle: dict[str, float]) -> Iterator[Item]:
    ten = {CHANGES[str(name)][0]: float(_after(found).sel(recipe=name, k=10)) for name in found["recipe"].values}
    for what, values in (("correlation", middle), ("hits@10", ten)):
        ordered = list(values.values())
        falling = all(first > second for first, second in zip(ordered, ordered[1:], strict=False))
        said = ", ".join(
            f"{name} {f'{value:.2f}' if values is middle else f'{value:.1%}'}" for name, value in values.items()
        )
        yield Claim(
            f"Without the period the prediction changes least, without the end token more, without the mask most ({what}).",
            falling if len(ordered) == len(CHANGES) else None,
            f"{'median Spearman of the logits' if values is middle else 'answers among the ten best'}: {said}",
        )


def lens(context: Context) -> Iterator[Item]:
    one = _one(context, layer="all")
    ranks = _layer_ranks(context)
    count = len(ranks)
    shares = [
        {"layer": layer, "among": f"the best {k}" if k > 1 else "the best", "share": float((ranks[layer] <= k).mean())}
        for layer in ranks
        for k in LENS
    ]
    table = pandas.DataFrame(shares)
    first = table[table["among"] == "the best"]
    late = first[first["layer"] < first["layer"].max()].iloc[-1]
    words = [
        f"{int(layer)} {one['top'].isel(stage=-1, rank=0).sel(layer=layer).item()}" for layer in one["layer"].values
    ]
    yield Shown(
        "head_lens",
        "nothing in the paper: the head at earlier layers (the lens)",
        Drawing(
            "lines",
            table,
            "layer",
            "share",
            f"A layer before the last, {late.share:.0%} of the final predictions are already first",
            f"share of {count:,} sentences whose final prediction the whole head puts there; {context.about}",
            color="among",
            order=tuple(table["among"].unique()),
            limits=(0, 1),
            y_title="final prediction is",
        ),
        note=f"“{_text(context)}”, the first choice by layer: {', '.join(words)}.",
    )


def _layer_ranks(context: Context) -> pandas.DataFrame:
    """Where the head puts the final prediction at each layer: a row per sentence, a column per layer."""
    sentences = context.sentences(context.amount(12, 100))
    told, rows = context.telling(f"lens: {sentences.name}"), []
    for place, given in enumerate(sentences):
        text = given.text.split(MASK)[0].rstrip() if context.model.anatomy.causal else given.text
        if MASK in given.text and text:
            found = head(context.model, text, layer="all", k=1)
            found = found.isel(position=0) if "position" in found.dims else found
            rows.append(found["prediction_rank"].isel(stage=-1).to_series())
        if told:
            told(place + 1, len(sentences))
    if not rows:
        raise Unsupported(f"{called(context.corpus)} has no sentence with a gap ({MASK}) in it.")
    return pandas.DataFrame(rows).reset_index(drop=True)


NEEDS = frozenset({"head"})
STUDY = Study(
    name="head",
    title="Which step of the LM head makes the prediction",
    asks=(
        "Between the last block and the logits stand a dense layer, an activation, a norm with its weights and biases, and the"
        " embeddings. Which of them turns a hidden vector into an answer?"
    ),
    paper="Podkorytov, Biś & Liu (2021). How can the [MASK] know? The sources and limitations of knowledge in BERT. IJCNN.",
    data="a cloze corpus such as --data lama:conceptnet.jsonl",
    sections=(
        Section("One sentence", "How alike do the stages order the vocabulary?", alike, NEEDS),
        Section("Many sentences", "Where on the way to the logits does the order arise?", growth, NEEDS),
        Section(
            "Scores, sorted", "What do one stage's scores look like in the order of another's?", sorted_scores, NEEDS
        ),
        Section("The norm", "What do the norm's weights and biases look like?", norms, NEEDS),
        Section("Right answers", "At which stage is the right answer among the best?", hits, NEEDS),
        Section(
            "Small changes", "What happens when the period, the end token or the mask is taken away?", changes, NEEDS
        ),
        Section("Earlier layers", "What does the head say when it reads an earlier layer?", lens, NEEDS),
    ),
)
