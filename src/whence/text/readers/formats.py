"""The table of formats: the reader of each, its file extensions, its options."""

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from whence._plugins import plugins
from whence.errors import BadInput


@dataclass(frozen=True)
class Format:
    """One format: its reading function ("package.module:function"), and the file extensions that name it.

    Another package adds one by an entry point of the group `whence.readers`.
    """

    about: str
    source: str
    endings: tuple[str, ...] = ()

    def reader(self) -> Any:
        """The function (path, skipped, **options) -> sentences, imported when first used."""
        module, name = self.source.split(":")
        return getattr(importlib.import_module(module), name)

    def options(self) -> list[str]:
        return [name for name in inspect.signature(self.reader()).parameters if name not in ("path", "skipped")]


_HERE = "whence.text.readers"
FORMATS = {
    "text": Format("one sentence per line", f"{_HERE}.plain:text", (".txt",)),
    "paragraphs": Format("one sentence per paragraph", f"{_HERE}.plain:paragraphs"),
    "tsv": Format("tab-separated columns with a header", f"{_HERE}.tables:tsv", (".tsv",)),
    "csv": Format("comma-separated columns with a header", f"{_HERE}.tables:csv", (".csv",)),
    "jsonl": Format("one JSON object per line", f"{_HERE}.tables:jsonl", (".jsonl", ".ndjson")),
    "conllu": Format("Universal Dependencies, with coreference", f"{_HERE}.treebank:conllu", (".conllu",)),
    "ner": Format("one token and its tag per line", f"{_HERE}.tagged:ner"),
    "mrpc": Format("GLUE MRPC: pairs, paraphrase or not", f"{_HERE}.glue:mrpc"),
    "cola": Format("GLUE CoLA: sentences, acceptable or not", f"{_HERE}.glue:cola"),
    "mnli": Format("GLUE MNLI: premise and hypothesis", f"{_HERE}.glue:mnli"),
    "sst2": Format("GLUE SST-2: sentences, positive or negative", f"{_HERE}.glue:sst2"),
    "gap": Format("GAP: an ambiguous pronoun and two names", f"{_HERE}.gap:gap"),
    "lama": Format("LAMA: clozes with their answers", f"{_HERE}.lama:lama"),
    "prompts": Format("prompts with their answers, or chats", f"{_HERE}.prompts:prompts"),
    "files": Format(
        "pictures and sounds, one to a file",
        f"{_HERE}.files:files",
        (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".wav"),
    ),
    "hf": Format(
        "a dataset of the Hugging Face Hub, a folder of one, Parquet or Arrow",
        f"{_HERE}.hub:hub",
        (".parquet", ".arrow"),
    ),
}
TABLE = Format("a data frame, an Arrow table, a dataset or rows as dicts, in memory", f"{_HERE}.memory:table")
COMPRESSIONS = (".gz", ".zst")


def formats() -> dict[str, Format]:
    """Every format by name: the library's own and those of other packages."""
    return FORMATS | {name: row for name, row in plugins("whence.readers", Format).items() if name not in FORMATS}


def by_ending(path: str) -> str:
    """The format that a file's extension names."""
    bare = path.removesuffix(PurePath(path).suffix) if path.endswith(COMPRESSIONS) else path
    for name, row in formats().items():
        if bare.lower().endswith(row.endings):
            return name
    if Path(path).is_dir():
        ending = next((file.suffix for file in sorted(Path(path).iterdir()) if file.suffix), ".txt")
        raise BadInput(f"{path!r} is a folder; name its files, as in {str(PurePath(path, f'*{ending}'))!r}.")
    known = ", ".join(formats())
    raise BadInput(f"The format of {path!r} is not known from its name; put one in front, as in text:{path}: {known}.")
