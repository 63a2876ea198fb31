"""One part, from sentences to written tables: what every engine does, wherever it runs."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from whence.corpus import run_tables
from whence.corpus.annotate import Coded, read
from whence.corpus.measure_batch import FROM_SOURCE, Measured, measured
from whence.corpus.part_moments import Collected, groups_of
from whence.corpus.parts import Part
from whence.corpus.plan import Plan, columns
from whence.corpus.store import Store, write_part
from whence.corpus.word_pairs import Pair, pairs
from whence.errors import BadInput, TooLong
from whence.measures.registry import BY_HEAD, HEADS, owners, variables
from whence.measures.registry import measures as registered
from whence.models.batching import batches
from whence.models.inputs import TEXT
from whence.models.load import Model
from whence.models.memory import claim, resident
from whence.sentence.measure import MEMORY, needs
from whence.text.sentence import Sentence

# memory for the maps of one batch; a constant, because batches must not depend on the machine
BATCH_BYTES = 512 * 2**20

REMEDY = "measure fewer layers (layers, --layers) or leave out long texts"

# variable, layer, head, the map
Map = tuple[str, int, int | None, np.ndarray]


@dataclass(frozen=True, eq=False)
class Worker:
    """A model and a plan; parts go in, records come out, tables go to the store."""

    model: Model
    plan: Plan
    store: Store

    def do(self, part: Part) -> dict[str, Any]:
        return self.write(self.measure(self.prepare(part)))

    def prepare(self, part: Part) -> "Prepared":
        """The part, tokenized; like `write`, this does not need the model."""
        sentences, skipped = self._coded(part)
        return Prepared(part, skipped, _Results.of(sentences, self.plan))

    def measure(self, prepared: "Prepared") -> "Prepared":
        results, sentences = prepared.results, prepared.results.sentences
        with threads(self.plan.threads):
            for places in batches([len(sentence) for sentence in sentences], self._rows, longest_first=True):
                chosen = [sentences[place] for place in places]
                longest = len(chosen[0])
                taken = len(chosen) * self._bytes(longest) + self._needs(longest, alone=True)
                claim(resident(taken), longest, self.model.device, None, REMEDY)
                results.add(places, measured(self.model, self.plan, chosen, results.moments.classes))
        return prepared

    def write(self, prepared: "Prepared") -> dict[str, Any]:
        """The record of the part, once its tables are in the store."""
        sentences = prepared.results.sentences
        about = {
            "sha256": prepared.part.sha256,
            "too_long": self.plan.too_long,
            "sentences": len(sentences),
            "tokens": sum(len(sentence) for sentence in sentences),
            "skipped": prepared.skipped,
        }
        written = {name: run_tables.as_parquet(table) for name, table in prepared.results.tables().items()}
        return write_part(self.store, prepared.part.number, written, about)

    def _coded(self, part: Part) -> tuple[list[Coded], list[dict[str, Any]]]:
        """The sentences with their tokens, and those left out with the reason."""
        kept, skipped = [], []
        for number, sentence in enumerate(part.sentences, part.first):
            try:
                kept.append(read(self.model, number, sentence, truncate=self.plan.too_long == "truncate"))
            except BadInput as error:
                if self.plan.too_long != "skip":
                    raise BadInput(named(number, sentence, error)) from error
                skipped.append({"sentence": number, "why": str(error)})
        return kept, skipped

    def _rows(self, longest: int) -> int:
        """How many sentences of this length are measured together; pairs, pictures and sounds one at a time."""
        if self.model.encoder is not None or self.model.reads != TEXT:
            return 1
        return min(self.plan.batch_tokens // longest, BATCH_BYTES // self._bytes(longest))

    def _bytes(self, tokens: int) -> int:
        """The memory of each sentence in a batch: work on its blocks, the maps that are kept and their copies."""
        anatomy, plan = self.model.anatomy, self.plan
        by_head = anatomy.heads * len(plan.of_dims(HEADS)) if plan.maps else 0
        kept = 8 * tokens**2 * len(plan.layers) * (len(plan.map_names) + by_head)
        return kept + self._needs(tokens, alone=False)

    def _needs(self, tokens: int, alone: bool) -> int:
        """The working memory of measures that take one sentence at a time (derivatives), or of the others."""
        chosen = {
            name: variable
            for name, variable in variables().items()
            if name in self.plan.variables and (registered()[owners()[name]].over == "model") == alone
        }
        if not chosen:
            return 0
        needed = needs(self.model, chosen, tokens, list(self.plan.layers), self.plan.settings)
        return needed.held + needed.uses(MEMORY)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A part in progress: the sentences left out with the reason, and the results so far."""

    part: Part
    skipped: list[dict[str, Any]]
    results: "_Results"


@dataclass(eq=False)
class _Results:
    """The results of a part's batches, back in the order of the corpus."""

    sentences: list[Coded]
    plan: Plan
    moments: Collected
    pairs: list[list[Pair]]
    tokens: list[dict[str, np.ndarray]]
    flows: list[dict[str, np.ndarray]]
    maps: list[list[Map]]
    heads: list[dict[str, np.ndarray]]

    @classmethod
    def of(cls, sentences: list[Coded], plan: Plan) -> "_Results":
        classes = sorted({name for sentence in sentences for name in sentence.classes})
        moments = Collected(groups_of(sentences, plan.by), classes)
        chosen = [pairs(sentence, plan.neighbours) if plan.map_names else [] for sentence in sentences]
        count = len(sentences)  # `add` fills in the real ones
        return cls(sentences, plan, moments, chosen, [{}] * count, [{}] * count, [[]] * count, [{}] * count)

    def add(self, places: list[int], batch: Measured) -> None:
        self.moments.add(batch, [self.sentences[place] for place in places])
        for row, place in enumerate(places):
            length = len(self.sentences[place])
            self.tokens[place] = {name: values[row, :, :length].copy() for name, values in batch.tokens.items()}
            self.flows[place] = self._flows(place, row, batch)
            self.heads[place] = {name: values[row].copy() for name, values in batch.sentences.items()}
            if self.plan.maps:
                self.maps[place] = list(_maps(row, length, self.plan.layers, batch))

    def _flows(self, place: int, row: int, batch: Measured) -> dict[str, np.ndarray]:
        """Word-level values of the sentence's pairs by layer: means over the pieces of both words."""
        sentence, own_pairs = self.sentences[place], self.pairs[place]
        if not own_pairs:
            return {name: np.empty((len(self.plan.layers), 0), dtype=np.float32) for name in self.plan.map_names}
        order = {word: at for at, word in enumerate(sentence.pieces)}
        target = [order[pair.target] for pair in own_pairs]
        source = [order[pair.source] for pair in own_pairs]
        mean, length = sentence.averaging, len(sentence)
        return {
            name: (mean[:, sentence.first :] @ batch.maps[name][row, :, :length, :length] @ mean.T)[:, target, source]
            for name in self.plan.map_names
        }

    def tables(self) -> dict[str, Any]:
        layers = self.plan.layers
        beside = [name for name in (self.tokens[0] if self.tokens else {}) if name.endswith(FROM_SOURCE)]
        names = [*self.plan.token_columns, *beside]
        tables = {
            "sentences": run_tables.sentence_table(self.sentences),
            "tokens": run_tables.token_table(self.sentences, self.tokens, layers, names),
            "moments": self.moments.table(layers),
        }
        if self.plan.map_names:
            tables["pairs"] = run_tables.pair_table(self.sentences, self.pairs, self.flows, layers, self.plan.map_names)
        if by_head := self.plan.of_dims(BY_HEAD):
            named = [column for name in by_head for column in columns(name, variables()[name])]
            tables["heads"] = run_tables.head_table(self.sentences, self.heads, layers, named)
        if self.plan.maps:
            every = zip(self.sentences, self.maps, strict=True)
            tables["maps"] = run_tables.map_table([(sentence.number, *row) for sentence, rows in every for row in rows])
        return tables


def _maps(row: int, length: int, layers: tuple[int, ...], batch: Measured) -> Iterator[Map]:
    """Every map of a sentence; of measures by head, the map of each head."""
    for name, values in batch.maps.items():
        if name not in batch.head_maps:
            for at, layer in enumerate(layers):
                yield name, layer, None, values[row, at, :length, :length].copy()
    for name, values in batch.head_maps.items():
        for (at, layer), head in itertools.product(enumerate(layers), range(values.shape[2])):
            yield name, layer, head, values[row, at, head, :length, :length].copy()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """The same number of threads wherever a part is measured: the last digits depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def named(number: int, sentence: Sentence, error: BadInput) -> str:
    """What is wrong with a sentence of a corpus, and with which."""
    name = f" ({sentence.id})" if sentence.id else ""
    return f"Sentence {number:,}{name} of the corpus, counted from 0: {_why(error)}"


def _why(error: BadInput) -> str:
    """The reason, with the remedy that fits a corpus."""
    if not isinstance(error, TooLong):
        return str(error)
    return f"{str(error).partition(';')[0]}; cut such sentences off, or leave them out (too_long, --too-long)."
