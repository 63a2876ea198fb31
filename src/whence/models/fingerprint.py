"""Where every number came from: hashes of weights, tokenizer and corpus, and the attributes of every result."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import torch

from whence.models.affine import adapters
from whence.models.inputs import TEXT
from whence.models.load import Model
from whence.models.pieces import devices_of, fetched
from whence.models.precision import unpacked
from whence.text.sentence import Sentence

SCHEMA = 2  # of a Dataset's dimensions and attributes
LIBRARIES = ("whence", "torch", "transformers", "xarray", "numpy")
FILES = ("pyarrow",)  # also decides the bytes of stored files
# of a configuration: where it came from, not what it computes
_ORIGIN = ("_name_or_path", "_commit_hash", "architectures", "transformers_version", "dtype")


def provenance(model: Model, measures: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """A Dataset's attributes, in types that every file format can store."""
    return attributes(described(model), versions(), measures, options) | _spread(model)


def _spread(model: Model) -> dict[str, str]:
    """Where accelerate put the parts of the model: blocks on other devices round otherwise."""
    places = vars(model.model).get("hf_device_map")
    return {} if places is None else {"device_map": json.dumps({name: str(place) for name, place in places.items()})}


def attributes(
    model: Mapping[str, Any], versions: Mapping[str, str], measures: Iterable[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The same from a model's description in a run's manifest."""
    return {
        "model": model["id"],
        "revision": model["revision"] or "",
        **{name: model[name] for name in ("family", "dtype", "device")},
        "causal": int(model["causal"]),
        **{f"{library}_version": versions[library] for library in LIBRARIES},
        "measures": ",".join(measures),
        "parameters": json.dumps(options, default=str, sort_keys=True),
        "seed": _seed(options),
        "schema": SCHEMA,
    }


def _seed(options: Mapping[str, Any]) -> int:
    """That of the verb, or of the first measure that draws random numbers; 0 when nothing is drawn."""
    settings = (options, *(value for value in options.values() if isinstance(value, Mapping)))
    return next((int(group["seed"]) for group in settings if "seed" in group), 0)


def described(model: Model) -> dict[str, Any]:
    return {
        "id": model.id,
        "revision": model.revision,
        "family": model.anatomy.family,
        "layers": model.anatomy.layers,
        "heads": model.anatomy.heads,
        "causal": model.anatomy.causal,
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "device": "+".join(dict.fromkeys(device.type for device in devices_of(model.model))),
    }


def hashed(model: Model) -> dict[str, Any]:
    """The description and, byte by byte, everything that the model's numbers depend on."""
    hashes = {"weights_sha256": weights_sha256(model), "tokenizer_sha256": _reader_sha256(model)}
    return described(model) | hashes


def _reader_sha256(model: Model) -> str:
    """Of the tokenizer; where a model reads no text, of the settings of its processor."""
    if model.encoder is not None or model.reads == TEXT:
        return tokenizer_sha256(model.tokenizer)
    return hashlib.sha256(_json(None if model.processor is None else model.processor.to_dict())).hexdigest()


@cache
def versions() -> dict[str, str]:
    return {library: version(library) for library in (*LIBRARIES, *FILES)}


def weights_sha256(model: Model) -> str:
    """Of every parameter and buffer, of adapters and of the configuration; not of where they were loaded from."""
    digest = hashlib.sha256(type(model.model).__name__.encode())
    digest.update(_json({name: value for name, value in model.model.config.to_dict().items() if name not in _ORIGIN}))
    tensors = dict(model.model.named_buffers()) | model.model.state_dict()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        values = unpacked(fetched(model.model, name, tensor)).detach().cpu().contiguous()
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    for layer in adapters(model.model):
        digest.update(repr(layer).encode())
    return digest.hexdigest()


def tokenizer_sha256(tokenizer: Any) -> str:
    """Truncation and padding are left out: a tokenizer keeps those of its latest call."""
    parts: Any = sorted(tokenizer.get_vocab().items())
    if tokenizer.is_fast:
        parts = json.loads(tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
    return hashlib.sha256(_json([type(tokenizer).__name__, tokenizer.model_max_length, parts])).hexdigest()


def corpus_sha256(sentences: Iterable[Sentence]) -> str:
    """Of texts and annotations."""
    return hashlib.sha256(_json([_plain(sentence) for sentence in sentences])).hexdigest()


def _plain(sentence: Sentence) -> list[object]:
    words = [[word.start, word.end, dict(word.labels), word.governor, word.in_pair] for word in sentence.words]
    mentions = [[mention.entity, list(mention.words)] for mention in sentence.mentions]
    known: list[object] = [
        sentence.text,
        sentence.pair,
        sentence.id,
        sentence.document,
        words,
        mentions,
        dict(sentence.labels),
    ]
    turns_and_ids: list[object] = [*([turn.role, turn.content] for turn in sentence.turns), *sentence.ids]
    return [*known, turns_and_ids] if turns_and_ids else known  # so that a corpus of texts alone keeps its hash


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, default=str).encode()
