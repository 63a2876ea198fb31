"""What the sections about the LM head share: the example sentence, the clozes, the names of the stages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray

from whence.corpus.cloze import cloze
from whence.errors import Unsupported
from whence.sealed import digest
from whence.sentence.lm_head import lm_head
from whence.studies.frame.context import Context, called
from whence.studies.frame.published import published
from whence.studies.frame.sentences import Chosen
from whence.text.readers import Corpus
from whence.text.sentence import MASK

PAPER = "Podkorytov et al. 2021"
BASE = "bert-base-uncased"
RANKS = (1, 2, 5, 10, 20, 50, 100)
SHORT = (1, 10, 100)  # the ranks in tables beside the paper's


def printed(*keys: str) -> Any:
    return published("podkorytov2021", *keys)


QUESTIONS, WITH_PERIOD = printed("clozes"), printed("clozes_with_period")
THEIRS = f"Theirs: the whole of LAMA ConceptNet, {QUESTIONS:,} clozes."


def text_of(context: Context) -> str:
    """The user's sentence, or the paper's; a decoder reads it up to the gap."""
    return readable(context, context.text or printed("sentence"))


def readable(context: Context, text: str) -> str:
    return text.split(MASK)[0].rstrip() if context.model.anatomy.causal else text


def at_gap(context: Context, text: str | None = None, **options: Any) -> xarray.Dataset:
    """The LM head at the first gap of the text, by default of the study's sentence and of the last layer."""
    dataset = lm_head(context.model, text or text_of(context), **options).isel(position=0)
    return dataset if "layer" in options else dataset.isel(layer=0)


def names_of(dataset: xarray.Dataset) -> list[str]:
    return [str(name) for name in dataset["stage"].values]


def norm_of(names: Sequence[str]) -> tuple[str, str] | None:
    """The stage after the head's last norm has normalised, and the one after it has multiplied by its weight."""
    prefix = next((prefix for prefix in ("lnorm", "norm") if f"{prefix}-n" in names), None)
    return None if prefix is None else (f"{prefix}-n", f"{prefix}-w")


NO_NORM = "no norm stands between this model's last block and its embeddings"


def sentences_of(context: Context, corpus: Corpus | None = None) -> Chosen:
    return context.texts(60, 10**9, corpus=corpus)


def folder(context: Context, verb: str, sentences: Chosen) -> Path:
    """Where this model's answers to these sentences are kept."""
    identity = [context.model.id, context.model.revision, sentences.sha256]
    return context.out / "runs" / f"{verb}-{digest(identity)[:8]}"


def clozes(context: Context, corpus: Corpus | None = None) -> xarray.Dataset:
    """The rank that each stage gives to each answer, read from the study's folder if computed before."""
    sentences = sentences_of(context, corpus)
    progress = context.progress_of(f"clozes: {called(sentences.corpus)}")
    dataset = cloze(context.model, sentences, out=folder(context, "cloze", sentences), progress=progress)
    if not dataset.attrs["scored"]:
        raise Unsupported(
            f"no sentence of {called(sentences.corpus)} has a gap that this model reads and an answer of one token"
            " (it takes a cloze corpus, such as --data lama:FILE)"
        )
    return dataset


def sample(dataset: xarray.Dataset) -> str:
    """How many clozes, for subtitles."""
    return f"{dataset.attrs['scored']:,} clozes"
