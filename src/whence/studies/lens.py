"""Which layer knows what the model will say, by which lens; how many texts a lens needs; how low its rank is."""

from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pandas
import torch

from whence.corpus.lens import LENGTH, SKIP
from whence.corpus.lens import lens as fitted
from whence.corpus.questions import question_of
from whence.errors import BadInput
from whence.measures.registry import DERIVATIVES
from whence.sealed import digest
from whence.sentence.lens import JACOBIAN, LOGIT, TUNED, Lens
from whence.stats.estimate import Estimate, estimate
from whence.studies.frame.context import Context, ends_and_middle
from whence.studies.frame.sentences import at_most
from whence.studies.frame.study import Absent, Claim, Figure, Section, Study
from whence.studies.frame.verdict import MORE

PAPER = "Gurnee et al. 2026"
WORDS, LEAST = 90, 25  # of running text, so that something is left when a decoder's first tokens are skipped
TEXTS, CLOZES = (16, 200), (24, 500)  # quick, full
FEWEST = 4  # texts that the lens is fitted to or read with
ENERGY = 0.9  # of the squared singular values
NAMES = {JACOBIAN: "Jacobian lens", LOGIT: "logit lens", TUNED: "tuned lens"}


def _texts(context: Context) -> tuple[list, list]:
    """Half of them, which the lens is fitted to, and the others, which it is read with."""
    try:
        chosen = list(context.texts(*TEXTS, at_most(WORDS, LEAST)))
    except BadInput:
        chosen = []
    half = len(chosen) // 2
    if half < FEWEST:
        raise Absent(f"the corpus has {len(chosen)} texts of at least {LEAST} words, and {2 * FEWEST} are needed")
    return chosen[:half], chosen[half:]


def _lens(context: Context) -> Lens:
    texts, _ = context.kept(_texts)
    identity = repr((context.model.id, context.model.revision, [text.text for text in texts]))
    folder = context.out / "runs" / f"lens-{digest(identity)[:8]}"
    return fitted(context.model, texts, out=folder, progress=context.progress_of("lens: texts"))


def _tokens(context: Context) -> pandas.DataFrame:
    """Running text that the lens was not fitted to: one row per token, layer and lens."""
    _, texts = context.kept(_texts)
    lens, skip, rows = context.kept(_lens), SKIP if context.model.anatomy.causal else 0, []
    alone = len({text.document for text in texts}) < 2  # no documents are named, or one for all
    for number, text in enumerate(texts):
        ids = context.model.tokenizer(text.text)["input_ids"][:LENGTH]
        ds = lens.read(context.model, torch.tensor(ids), k=1)
        kept = ds.isel(token=slice(skip, len(ids) - int(context.model.anatomy.causal)))
        rows.append(_table(kept).assign(document=f"text {number}" if alone else text.document))
    return _together(rows)


def _clozes(context: Context) -> pandas.DataFrame:
    """The token at the mask, or the last one of a decoder's prompt: one row per cloze, layer and lens."""
    if len(context.corpora) < 2:
        raise Absent("clozes are a second corpus (--data twice), such as lama:FILE")
    lens, rows = context.kept(_lens), []
    asked_of = (question_of(context.model, sentence)[0] for sentence in context.corpora[1])
    questions = (question for question in asked_of if question is not None)
    for number, question in enumerate(islice(questions, context.texts(*CLOZES).most)):
        ds = lens.read(context.model, torch.tensor(question.ids), k=1)
        rows.append(_table(ds.isel(token=[question.position])).assign(document=f"cloze {number}"))
    return _together(rows)


def _table(ds) -> pandas.DataFrame:
    table = ds[["place", "divergence", "answer_probability"]].to_dataframe().reset_index()
    return table[["lens", "layer", "token", "place", "divergence", "answer_probability"]]


def _together(rows: list[pandas.DataFrame]) -> pandas.DataFrame:
    if not rows:
        raise Absent("no text of the corpus can be asked about")
    table = pandas.concat(rows, ignore_index=True)
    table = table.assign(known=(table["place"] == 1).astype(float), lens=table["lens"].map(NAMES))
    count = len(table) // (table["layer"].nunique() * table["lens"].nunique())
    table.attrs["sample"] = f"{count:,} tokens of {table['document'].nunique():,} texts"
    return table


def by_layer(context: Context, query, value: str) -> pandas.DataFrame:
    table = context.kept(query)
    means = table.groupby(["lens", "layer"], as_index=False)[value].mean()
    means.attrs["sample"] = table.attrs["sample"]
    return means


def _most(table: pandas.DataFrame) -> str:
    inner = table[table["layer"] < table["layer"].max()].groupby("lens")["known"].mean()
    told = ", ".join(f"the {name} {share:.0%}" for name, share in inner.sort_values(ascending=False).items())
    return f"Over the layers before the last, {told} of the time say what the model says"


def earlier(context: Context, query, first: str, second: str) -> Estimate:
    """How much more often one lens says what the model says than the other, over the layers before the last."""
    table = context.kept(query)
    if first not in set(table["lens"]):
        raise Absent("no tuned lens was fitted")
    inner = table[table["layer"] < table["layer"].max()]
    return estimate(inner, "known", ["lens", "layer"], lambda of: of[first].mean() - of[second].mean())


def texts(context: Context) -> pandas.DataFrame:
    """How often a lens of fewer groups of texts names the same best token as the lens of all of them."""
    lens, (_, reading) = context.kept(_lens), context.kept(_texts)
    layers = sorted(ends_and_middle(layer for layer in lens.layers[:-1]))
    ids = [context.model.tokenizer(text.text)["input_ids"][:LENGTH] for text in reading[:4]]
    rows, skip = [], SKIP if context.model.anatomy.causal else 0

    def best(of: Lens) -> np.ndarray:
        read = [of.read(context.model, torch.tensor(asked_of), 1, lenses=JACOBIAN, layers=layers) for asked_of in ids]
        return np.concatenate([ds.candidate_token_id.values[0, :, skip:, 0] for ds in read], axis=1)

    whole = best(lens)
    for count in range(1, len(lens.groups)):
        part = replace(lens, groups=lens.groups[:count], texts=lens.texts[:count])
        same = (best(part) == whole).mean(axis=1)
        rows += [(sum(part.texts), f"layer {layer}", share) for layer, share in zip(layers, same, strict=True)]
    return pandas.DataFrame(rows, columns=["texts", "layer", "same"])


def _needed(table: pandas.DataFrame) -> str:
    last = table[table["texts"] == table["texts"].max()]["same"].mean()
    return f"With {table['texts'].max()} texts, {last:.0%} of the best tokens are those of all texts"


def rank(context: Context) -> pandas.DataFrame:
    """How many singular directions of J_l have nine tenths of its squared length."""
    lens = context.kept(_lens)
    rows = []
    for layer in lens.layers:
        values = np.linalg.svd(lens.matrices.sel(layer=layer).values, compute_uv=False) ** 2
        count = int(np.searchsorted(values.cumsum() / values.sum(), ENERGY)) + 1
        rows.append((layer, count / lens.width, count))
    return pandas.DataFrame(rows, columns=["layer", "share", "directions"])


def _low(table: pandas.DataFrame) -> str:
    least = table.sort_values("directions").iloc[0]
    return f"At layer {least['layer']:.0f}, {least['directions']:.0f} directions have 90% of the lens"


def _section(title: str, asks: str, name: str, query) -> Section:
    lines = {"kind": "lines", "x": "layer", "color": "lens"}
    return Section(
        title,
        asks,
        (
            Figure(
                f"lens_{name}",
                f"{PAPER}, read-outs by layer",
                partial(by_layer, query=query, value="known"),
                lines | {"y": "known", "y_title": "best token is the model's own"},
                _most,
            ),
            Figure(
                f"lens_{name}_divergence",
                "Belrose et al. 2023, divergence by layer",
                partial(by_layer, query=query, value="divergence"),
                lines | {"y": "divergence", "y_title": "nats from the model's prediction", "share": False},
                lambda table: "How far each read-out is from the model's prediction",
            ),
            Claim(
                f"The Jacobian lens says what the model will say more often than the logit lens ({title.lower()}).",
                partial(earlier, query=query, first=NAMES[JACOBIAN], second=NAMES[LOGIT]),
                MORE,
                form="+.1%",
            ),
            Claim(
                f"The tuned lens says it more often than the Jacobian lens ({title.lower()}).",
                partial(earlier, query=query, first=NAMES[TUNED], second=NAMES[JACOBIAN]),
                MORE,
                form="+.1%",
            ),
        ),
        DERIVATIVES | {"lm_head"},
    )


STUDY = Study(
    "lens",
    "Which layer knows what the model will say",
    "By the Jacobian lens, the logit lens and a tuned lens: in which layer can the model's answer be read, how many"
    " texts does a lens need, and how low is its rank?",
    "Gurnee et al. (2026). Verbalizable representations form a global workspace.",
    "running text such as --data text:wikipedia.txt, and clozes as a second corpus such as --data lama:squad.jsonl",
    (
        _section("Running text", "Which layer says what the model will say, at each token?", "text", _tokens),
        _section("Clozes", "Which layer knows the answer at a mask, or at the end of a prompt?", "cloze", _clozes),
        Section(
            "How many texts",
            "Does a lens of fewer texts say the same?",
            (
                Figure(
                    "lens_texts",
                    "no figure of the paper, which finds about 100 texts enough",
                    texts,
                    {"kind": "lines", "x": "texts", "y": "same", "color": "layer", "y_title": "same best token"},
                    _needed,
                ),
            ),
            DERIVATIVES,
        ),
        Section(
            "Rank",
            "In how few directions does a lens lie?",
            (
                Figure(
                    "lens_rank",
                    "no figure of the paper",
                    rank,
                    {"kind": "lines", "x": "layer", "y": "share", "y_title": "of the width"},
                    _low,
                    "directions with 90% of the squared singular values",
                ),
            ),
            DERIVATIVES,
        ),
    ),
)
