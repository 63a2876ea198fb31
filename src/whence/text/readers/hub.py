"""Datasets of the Hugging Face Hub, folders of them, and Parquet or Arrow files, through the package `datasets`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whence.errors import BadInput
from whence.text.readers.rows import Row
from whence.text.readers.skipped import Skipped
from whence.text.readers.tables import columns, sentences
from whence.text.sentence import Sentence

_FILES = {".parquet": "parquet", ".arrow": "arrow"}


def hub(
    path: str,
    skipped: Skipped,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    document: str | None = None,
    split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
) -> Iterator[Sentence]:
    """The rows of one split, streamed; `split` is needed if the dataset has several."""
    rows = _dataset(path, split, config, revision)
    numbered = (Row(number, cells) for number, cells in enumerate(rows, 1))
    yield from sentences(path, skipped, numbered, columns(text, pair, label, id, document))


def _dataset(path: str, split: str | None, config: str | None, revision: str | None) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise BadInput("Datasets of the Hub need a package: pip install 'whence[hub]'.") from error
    try:
        dataset = _loaded(datasets, path, config, revision)
    except (OSError, ValueError) as error:  # what `datasets` raises for anything missing or out of reach
        raise BadInput(f"The dataset {path!r} cannot be read: {error}") from error
    return _split(path, dataset, split)


def _loaded(datasets: Any, path: str, config: str | None, revision: str | None) -> Any:
    kind = _FILES.get(Path(path).suffix)
    if kind:
        return datasets.load_dataset(kind, data_files=path, streaming=True)
    if (Path(path) / "state.json").exists() or (Path(path) / "dataset_dict.json").exists():
        return datasets.load_from_disk(path)
    return datasets.load_dataset(path, config, revision=revision, streaming=True)


def _split(path: str, dataset: Any, split: str | None) -> Any:
    if not isinstance(dataset, dict):
        return dataset
    name = split or (next(iter(dataset)) if len(dataset) == 1 else None)
    if name not in dataset:
        raise BadInput(f"The dataset {path!r} has the splits {', '.join(dataset)}, and {split} was asked for.")
    return dataset[name]
