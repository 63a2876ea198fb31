"""Which formats there are: the reader of each, its file endings, its options."""

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from whence.errors import BadInput


@dataclass(frozen=True)
class Format:
    """A row: where the reading function is, and which endings name the format."""

    about: str
    source: str
    endings: tuple[str, ...] = ()

    def reader(self) -> Any:
        """The function (path, skipped, **options) -> sentences, imported when first used."""
        module, name = self.source.rsplit(".", 1)
        return getattr(importlib.import_module(f"whence.text.readers.{module}"), name)

    def options(self) -> list[str]:
        return [name for name in inspect.signature(self.reader()).parameters if name not in ("path", "skipped")]


FORMATS = {
    "text": Format("a line a sentence", "plain.text", (".txt",)),
    "paragraphs": Format("a paragraph a sentence", "plain.paragraphs"),
    "tsv": Format("tab-separated columns with a header", "tables.tsv", (".tsv",)),
    "csv": Format("comma-separated columns with a header", "tables.csv", (".csv",)),
    "jsonl": Format("a JSON object a line", "tables.jsonl", (".jsonl", ".ndjson")),
    "conllu": Format("Universal Dependencies, with coreference", "treebank.conllu", (".conllu",)),
    "ner": Format("a token and its tag a line", "tagged.ner"),
    "mrpc": Format("GLUE MRPC: pairs, paraphrase or not", "glue.mrpc"),
    "cola": Format("GLUE CoLA: sentences, acceptable or not", "glue.cola"),
    "mnli": Format("GLUE MNLI: premise and hypothesis", "glue.mnli"),
    "sst2": Format("GLUE SST-2: sentences, positive or negative", "glue.sst2"),
    "gap": Format("GAP: an ambiguous pronoun and two names", "gap.gap"),
    "lama": Format("LAMA: clozes with their answers", "lama.lama"),
    "hf": Format("a dataset of the Hugging Face Hub, its folder, Parquet or Arrow", "hub.hub", (".parquet", ".arrow")),
}
COMPRESSIONS = (".gz", ".zst")


def by_ending(path: str) -> str:
    """The format a file's name says."""
    bare = path.removesuffix(PurePath(path).suffix) if path.endswith(COMPRESSIONS) else path
    for name, row in FORMATS.items():
        if bare.lower().endswith(row.endings):
            return name
    if Path(path).is_dir():
        raise BadInput(f"{path!r} is a folder; name its files, as in {str(PurePath(path, '*.txt'))!r}.")
    raise BadInput(
        f"The format of {path!r} is not known from its name; put one in front, as in text:{path}: {', '.join(FORMATS)}."
    )
