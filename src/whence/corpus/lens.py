"""The Jacobian lens of a model, fitted on a corpus part by part: resumable, on any engine, as long as it has to be."""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load, save
from torch import Tensor

from whence import _arguments
from whence._arguments import positive, whole
from whence.corpus.engines import Cluster
from whence.corpus.engines import engine as engine_named
from whence.corpus.manifest import RECORD, manifest, shape
from whence.corpus.parts import Part
from whence.corpus.resume import Progress, Resumable, resumed
from whence.corpus.run import WORKERS
from whence.corpus.store import Store, at, checksum, part_numbers, read_record, write_record
from whence.corpus.worker import threads
from whence.errors import BadInput, Unsupported
from whence.identity import tensors
from whence.measures.lens.jacobian import Averaged, jacobians
from whence.measures.lens.tuned import tuned as ridge
from whence.measures.lm_head.stages import states_at
from whence.measures.registry import DERIVATIVES
from whence.models.block import Batch
from whence.models.encode import encode
from whence.models.load import Model, loaded
from whence.models.precision import single
from whence.sealed import COUNT, POSITIVE, digest
from whence.sentence.lens import Lens
from whence.sentence.lens_file import content
from whence.text.sentence import Sentence, sentence, sentences

KIND, FILE = "lens", "lens.safetensors"
SKIP = 16  # first tokens of a decoder's text, whose states are unlike all others (Gurnee et al. 2026)
LENGTH, TEXTS = 128, 100
PARTS, GROUPS = 20, 8  # parts of a fit by default; groups of texts that standard errors come from
FIRST = 4  # parts before it is first asked how large the error is
STATES = 256  # of the texts so far, for the error of the read-outs
SHAPE = shape({"layers": [COUNT], "skip": COUNT, "length": POSITIVE, "threads": POSITIVE})


@dataclass(frozen=True)
class Plan:
    """With model and corpus this determines every byte of the parts."""

    layers: tuple[int, ...]
    skip: int
    length: int
    part_size: int
    threads: int


def lens(
    model: Model,
    corpus: Iterable[object],
    layers: int | Iterable[int] | None = None,
    *,
    skip: int | None = None,
    length: int = LENGTH,
    texts: int = TEXTS,
    error: float | None = None,
    tuned: bool = True,
    out: str | Path | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    part_size: int | None = None,
    progress: Progress | None = None,
) -> Lens:
    """The Jacobian lens of a model (Gurnee et al. 2026): one matrix per layer, with standard errors over texts.

    J_l is the mean over texts of how the states of the last layer move with those of layer l: over all later tokens
    in a decoder, all tokens in an encoder. A state is read as W_U norm(J_l h); see `Lens.read`.

    Args:
        model: a loaded model; it needs derivatives and, to be read, an LM head
        corpus: any iterable of texts, pairs or sentences; `whence.read` gives one
        layers: 0 (the output of the embeddings) to the last, for which J is the identity; all by default
        skip: leading tokens that are left out, 16 in a decoder and none in an encoder by default
        length: of each text, no more tokens than these are used
        texts: no more texts than these
        error: stop before, once read-outs are as exact as this: the standard error of J_l h in terms of its length,
            over the states of the texts, at the layer where it is largest
        tuned: also fit a tuned lens, by ridge regression on the same states
        out: a folder that keeps the parts, so that the same call resumes; the lens is written there, too
        engine: "local", or "ray"
        address: of a Ray cluster; one on this machine when None
        workers: how many Ray workers; as many as the cluster has room for when None
        threads: of the process or of each worker; the last digits depend on it
        part_size: texts per part: what is lost at most when a fit is stopped; a twentieth of them by default.
            Every part keeps one matrix per layer on disk
        progress: progress(done, total) counts texts, and may end the fit by raising

    Returns:
        The lens: `matrices`, `standard_errors`, `error`; `read(model, text)`, `directions(model, token)`, `save(path)`.

    Examples:
        >>> lens = whence.lens(whence.load(), ["Paris is the capital of France.", "A cat sat."], layers=[3, 6])
        >>> lens.matrices.dims, bool((lens.matrices.sel(layer=6).values.diagonal() == 1).all())
        (('layer', 'output', 'input'), True)
    """
    _check(loaded(model))
    error = None if error is None else positive("error", error)
    workers = None if workers is None else whole("workers", workers, 1, WORKERS)
    chosen = list(map(sentence, islice(sentences(corpus), whole("texts", texts, 1))))
    if not chosen:
        raise BadInput("The corpus is empty; give at least one text.")
    plan = _planned(model, layers, skip, length, len(chosen), threads, part_size)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory()) if out is None else out
        store = at(folder)
        stack.enter_context(store.locked())
        requested = manifest(KIND, model, asdict(plan), corpus)
        measure = engine_named(engine)
        fit = _Fit(model, plan, requested, measure, address, workers, engine, progress)
        return fit.until(store, chosen, error, tuned)


@dataclass(frozen=True)
class _Fit:
    """A fit in rounds: after each, the error says how many more texts it takes."""

    model: Model
    plan: Plan
    requested: dict[str, Any]
    measure: Any
    address: str | None
    workers: int | None
    engine: str
    progress: Progress | None

    def until(self, store: Store, chosen: Sequence[Sentence], error: float | None, linear: bool) -> Lens:
        size, whole_corpus = self.plan.part_size, len(chosen)
        count = whole_corpus if error is None else min(whole_corpus, FIRST * size)
        while True:
            with resumed(store, self.requested, SHAPE, chosen[:count], self.progress, count, self.engine) as work:
                work.manifest = {**work.manifest, "corpus": self.requested["corpus"]}  # a finished fit may go on
                self._round(work)
                fitted = _Fitted.of(work.store, self.plan)
                reached = max(fitted.errors())
                if count == whole_corpus or (error is not None and reached <= error):
                    about = self._about(digest(work.hashes))
                    lens = fitted.lens(about, self.model.anatomy.layers, linear)
                    work.finish(partial(_packed, lens))
                    return lens
            assert error is not None
            needed = count * min(4.0, max(1.0, (reached / error) ** 2)) if reached == reached else 2 * count
            count = min(whole_corpus, max(count + size, -int(-needed // size) * size))

    def _round(self, work: Resumable) -> None:
        worker = _Worker(self.model, self.plan, work.store)
        done = self.measure(worker, work.pending(), Cluster(self.address, self.workers, None, self.requested["model"]))
        with closing(done) as records:
            for record in records:
                work.count(record)

    def _about(self, corpus_sha256: str) -> dict[str, Any]:
        kept = ("model", "versions")
        corpus = {"name": self.requested["corpus"]["name"], "sha256": corpus_sha256}
        plan = {"skip": self.plan.skip, "length": self.plan.length}
        return {name: self.requested[name] for name in kept} | {"corpus": corpus} | plan


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A part in progress: its texts in tokens, those left out with the reason, and the sum of their matrices."""

    part: Part
    batches: list[Batch]
    skipped: list[dict[str, Any]]
    total: Float[Tensor, "layer m m"] | None = None
    states: Float[Tensor, "state n m"] | None = None


@dataclass(frozen=True, eq=False)
class _Worker:
    """A model and a plan; parts go in, records come out, matrices go to the store."""

    model: Model
    plan: Plan
    store: Store

    def do(self, part: Part) -> dict[str, Any]:
        return self.write(self.measure(self.prepare(part)))

    def prepare(self, part: Part) -> _Prepared:
        prepared = _Prepared(part, [], [])
        for number, text in enumerate(part.sentences, part.first):
            try:
                encoded = encode(self.model.anatomy, self.model.tokenizer, text, truncate=True)
                batch = _cut(encoded.batch, self.plan.length)
                Averaged.of(batch.ids.shape[1], self.plan.skip, self.model.anatomy.causal)
            except BadInput as error:
                prepared.skipped.append({"sentence": number, "why": str(error)})
            else:
                prepared.batches.append(batch)
        return prepared

    def measure(self, prepared: _Prepared) -> _Prepared:
        if not prepared.batches:
            return prepared
        device = self.model.model.device.type
        with threads(self.plan.threads), torch.no_grad(), torch.autocast(device, enabled=False):
            fits = [self._of_text(batch) for batch in prepared.batches]
        total = torch.stack([matrices for matrices, _ in fits]).sum(dim=0) if len(fits) > 1 else fits[0][0]
        return replace(prepared, total=total, states=torch.cat([states for _, states in fits], dim=1))

    def write(self, prepared: _Prepared) -> dict[str, Any]:
        """The record of the part, once its matrices are in the store."""
        files = {}
        if prepared.total is not None and prepared.states is not None:
            data = save({"sum": prepared.total.contiguous(), "states": prepared.states.contiguous()})
            files[_name(prepared.part.number)] = checksum(data)
            self.store.write(_name(prepared.part.number), data)
        about = {
            "sha256": prepared.part.sha256,
            "sentences": len(prepared.batches),
            "tokens": sum(batch.ids.shape[1] for batch in prepared.batches),
            "skipped": prepared.skipped,
        }
        return write_record(self.store, prepared.part.number, files, about)

    def _of_text(self, batch: Batch) -> tuple[Float[Tensor, "layer m m"], Float[Tensor, "state n m"]]:
        """The matrices of a text, and the states that they are averages over, those of the last layer last."""
        anatomy, plan = self.model.anatomy, self.plan
        matrices = jacobians(anatomy, batch, plan.skip, plan.layers)
        span = Averaged.of(batch.ids.shape[1], plan.skip, anatomy.causal).span
        tokens = range(batch.ids.shape[1])[span]
        states = states_at(anatomy, batch, [0] * len(tokens), tokens, [*plan.layers, anatomy.layers])
        return matrices.float().cpu(), single(states).float().cpu()


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The sums of groups of parts, how many texts are in each, and the states of all."""

    plan: Plan
    sums: list[Float[Tensor, "layer m m"]]
    texts: list[int]
    states: list[Float[Tensor, "state n m"]]

    @classmethod
    def of(cls, store: Store, plan: Plan) -> "_Fitted":
        fitted = cls(plan, [], [], [])
        for number in part_numbers(store):
            record, data = read_record(store, number, RECORD), store.read(_name(number))
            if record is None or data is None or not record["sentences"]:
                continue
            fitted._add(load(data), record["sentences"])
        if not fitted.texts:
            raise BadInput(
                f"No text of the corpus is long enough: with {plan.skip} tokens skipped none was left;"
                " give longer texts, or skip fewer (skip, --skip)."
            )
        return fitted

    def _add(self, part: dict[str, Tensor], texts: int) -> None:
        """To the groups in turn."""
        turn = len(self.states) % GROUPS
        if turn == len(self.sums):
            self.sums.append(part["sum"])
            self.texts.append(texts)
        else:
            self.sums[turn] += part["sum"]
            self.texts[turn] += texts
        self.states.append(part["states"])

    def groups(self) -> Float[Tensor, "group layer m m"]:
        return torch.stack([total / count for total, count in zip(self.sums, self.texts, strict=True)])

    def errors(self) -> list[float]:
        """By layer, the standard error of J h in terms of its length, over a sample of the states."""
        if len(self.sums) == 1:
            return [float("nan")]
        states = torch.cat(self.states, dim=1)[:-1]
        sample = states[:, torch.linspace(0, states.shape[1] - 1, min(STATES, states.shape[1])).long()]
        weights = sample.new_tensor(self.texts) / sum(self.texts)
        read = torch.stack([torch.bmm(sample, matrices.mT) for matrices in self.groups()])
        mean = torch.tensordot(weights, read, dims=1)
        variance = torch.tensordot(weights, (read - mean).square().sum(dim=(-1, -2)), dims=1) / (len(weights) - 1)
        return (variance / mean.square().sum(dim=(-1, -2))).sqrt().tolist()

    def lens(self, about: dict[str, Any], last: int, linear: bool) -> Lens:
        fit = None
        if linear and len(self.states) > 1:
            fit = ridge([group[:-1] for group in self.states], [group[-1] for group in self.states])
        return Lens(self.plan.layers, self.groups(), tuple(self.texts), fit, about, tuple(self.errors()))


def _packed(lens: Lens, numbers: list[int]) -> dict[str, bytes]:
    return {FILE: tensors.packed(*content(lens))}


def _name(number: int) -> str:
    return f"jacobian/{number:05d}.safetensors"


def _cut(batch: Batch, length: int) -> Batch:
    segments = None if batch.segments is None else batch.segments[:, :length]
    return Batch(batch.ids[:, :length], batch.mask[:, :length], segments)


def _check(model: Model) -> None:
    if DERIVATIVES - model.gives:
        raise Unsupported(f"A lens needs derivatives, which the family {model.anatomy.family!r} does not give.")


def _planned(
    model: Model,
    layers: int | Iterable[int] | None,
    skip: int | None,
    length: int,
    count: int,
    threads: int | None,
    part_size: int | None,
) -> Plan:
    last = model.anatomy.layers
    chosen = range(last + 1) if layers is None else sorted(set(_arguments.layers(layers, 0, last)))
    return Plan(
        layers=tuple(chosen),
        skip=(SKIP if model.anatomy.causal else 0) if skip is None else whole("skip", skip, 0),
        length=whole("length", length, 1),
        part_size=-(-count // PARTS) if part_size is None else whole("part_size", part_size, 1),
        threads=torch.get_num_threads() if threads is None else whole("threads", threads, 1),
    )
