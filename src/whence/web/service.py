"""What the explorer does when asked: measures a sentence once, keeps the result, puts results together."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from whence.errors import BadInput, Unsupported
from whence.measures.registry import given_by, owners, with_options
from whence.measures.registry import measures as registered
from whence.models.coded import own_mask
from whence.models.encode import encode, limit
from whence.sentence.measure import REMEDY
from whence.sentence.measure import of_text as measure
from whence.sentence.rather import measures_given
from whence.text.sentence import sentence
from whence.web.answers import TooLarge
from whence.web.examples import SHOWN, examples
from whence.web.jobs import Jobs, Progress
from whence.web.lens import sides
from whence.web.lm_head import prediction
from whence.web.results import Results, key
from whence.web.unasked import planned
from whence.web.why import MOST, answer, reasons

if TYPE_CHECKING:
    import xarray

    from whence.models.load import Model
    from whence.sentence.lens import Lens
    from whence.text.sentence import Sentence
    from whence.web.limits import Limits

# measures that take longer than the forward pass by far, so that others may go first
SLOW = frozenset({"block", "alti", "value_zeroing", "minimum_simplex", "rollout", "lens"})
GUESS = 4e-9  # seconds of contribution per layer, squared width and squared token, until it was measured here
HEAD, WHY, ANSWER, LENS, MAP = "lm_head", "why", "answer", "lens", "map"
ALONE = {
    HEAD: "What every stage of the LM head says, and the head after every layer.",
    WHY: "What each token, at each layer, gave to a prediction.",
    ANSWER: "What a decoder says next.",
    LENS: "Whence one hidden token came, and what it is disposed to say by a lens that the explorer was given.",
    MAP: "The attention of one layer, for texts that are too long for that of all layers.",
}
OPTION = "with --truncate (in Python: truncate=True)"  # as the command line and Python name it
BOX = "by ticking “cut off what is longer than the model takes” under Options"  # as the page does
FEWER = "ask for fewer measures or shorten the text"
SHORT = 40
READ_ONLY = "This explorer is read-only and shows its examples; to measure a text of your own, start one: whence serve."
WARM = "The first sentence loads what the next ones need."


class Ask(BaseModel):
    """One sentence, or a pair, in one of the models, and what to measure."""

    model_config = ConfigDict(extra="forbid")

    model: str
    text: Annotated[str, Field(min_length=1)]
    pair: Annotated[str, Field(min_length=1)] | None = None
    measures: Annotated[list[str], Field(min_length=1, max_length=64)]
    truncate: bool = False
    error: Annotated[float, Field(ge=0.005, le=0.5)] | None = None
    "Relative error up to which contributions may be estimated."
    positions: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=8)] | None = None
    "Where predictions are looked at, for `lm_head` and `why`: masks, or the last token of a decoder, when not given."
    against: Annotated[int, Field(ge=0)] | None = None
    "The number of the token from which `why` tells the prediction."
    rather: bool = False
    "Whether that is the second choice of the model where none is named."
    chat: bool = False
    "Whether the text is a message that the tokenizer's template makes a chat of."
    answer: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MOST)] | None = None
    "The numbers of the answer's tokens, whose predictions `why` is about."
    more: Annotated[int, Field(ge=1, le=64)] = 8
    "How many tokens the measure `answer` adds to them."
    layer: Annotated[int, Field(ge=1)] | None = None
    "The layer of the measure `map`."
    spans: Literal["word", "line", "sentence", "paragraph", "turn"] | None = None
    "By what `why` sums up."


class Service:
    """The models, what was measured with them, and what is being measured."""

    def __init__(self, models: Mapping[str, Model], limits: Limits, lenses: Mapping[str, Lens] | None = None):
        self.models, self.limits, self.lenses = dict(models), limits, dict(lenses or {})
        self.results = Results(limits.kept)
        self.jobs = Jobs(limits.waiting, limits.seconds)
        self._pace = {model.id: _guess(model) for model in models.values()}

    def warm(self) -> None:
        """Measures a sentence, because the first takes a second longer than all others."""
        for model in self.models.values():
            measure(model, WARM, given_by(model.gives, ("attention", "mixing", "norms", "effective")) or "gradient")
            if HEAD in model.gives:
                prediction(model, sentence(WARM), [1], False)
            if measures_given(model):
                reasons(model, sentence(WARM), _asked(Ask(**_FIRST), WHY), False, None, lambda done, of: None)

    def ask(self, query: Ask) -> tuple[str, str | None]:
        """The key of the result, and a ticket while it is not finished."""
        model = self._model(query.model)
        parsed = sentence(query.text if query.pair is None else (query.text, query.pair))
        if self.limits.examples_only and parsed.texts not in SHOWN:
            raise BadInput(READ_ONLY)
        names = sorted(set(query.measures))
        options = _options(names, query)
        self._check_names(model, names)
        identifier = key(_identity(model), parsed.texts, names, query.truncate, options)
        if identifier in self.results:
            return identifier, None
        work = partial(self._measured, identifier, model, parsed, names, query.truncate, options)
        return identifier, self.jobs.submit(identifier, work, cost(names))

    def about(self) -> dict[str, Any]:
        """What can be asked for, and the limits."""
        abouts = {name: row.about for name, row in registered().items()} | ALONE
        measures = {name: {"about": text, "slow": cost([name]) > 0} | planned(name) for name, text in abouts.items()}
        models = [
            _described(name, model, self.lenses) | {"pace": self._pace[model.id]} for name, model in self.models.items()
        ]
        offered = examples({model.anatomy.causal for model in self.models.values()})
        return {
            "models": models,
            "measures": measures,
            "examples": offered,
            "tokens": self.limits.tokens,
            "seconds": self.limits.seconds,
            "version": WHENCE,
        }

    def _model(self, name: str) -> Model:
        if name not in self.models:
            known = json.dumps(list(self.models), ensure_ascii=False)[1:-1]
            raise BadInput(f"There is no model {name[:80]!r} here; the explorer was started with {known}.")
        return self.models[name]

    def _measured(
        self,
        identifier: str,
        model: Model,
        parsed: Sentence,
        names: list[str],
        truncate: bool,
        options: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        progress(0, 0)  # cancelled while it waited?
        self._check(model, parsed, truncate)
        if names == [HEAD]:
            dataset = prediction(model, parsed, options["positions"], truncate)
        elif names == [WHY]:
            dataset = reasons(model, parsed, options, truncate, self.limits.memory, progress)
        elif names == [ANSWER]:
            dataset = answer(model, parsed, options, progress)
        elif names == [LENS]:
            dataset = sides(model, self.lenses[model.id], parsed, options, truncate, progress)
        elif names == [MAP]:
            where = {"layers": [options["layer"]], "truncate": truncate, "progress": progress}
            dataset = self._dataset(model, parsed, ["attention"], **where)
        else:
            began = time.monotonic()
            configured = with_options(names, options)
            dataset = self._dataset(model, parsed, configured, truncate=truncate, progress=progress)
            if names == ["contribution"]:
                self._learn(model, dataset.sizes["target"], time.monotonic() - began)
        self.results.put(identifier, dataset.assign_attrs(_cut(model, parsed, truncate)))

    def _dataset(self, model: Model, parsed: Sentence, measures: list[Any], **options: Any) -> xarray.Dataset:
        """Measured within the limit; what does not fit is refused in the words of the page."""
        try:
            return measure(model, parsed, measures, memory_limit=self.limits.memory, **options)
        except BadInput as error:
            if REMEDY not in str(error):
                raise
            raise BadInput(f"{str(error).partition('; ')[0]}; {FEWER}.") from error

    def _learn(self, model: Model, tokens: int, seconds: float) -> None:
        """How long contribution takes here; a short text says little about a long one."""
        if tokens > SHORT:
            self._pace[model.id] = seconds / tokens**2

    def _check_names(self, model: Model, names: list[str]) -> None:
        alone = [name for name in names if name in ALONE]
        if alone and len(names) > 1:
            raise BadInput(f"The measure {alone[0]!r} is asked for alone, because its axes are its own.")
        if MAP in names and not given_by(model.gives, ["attention"]):
            raise Unsupported(f"The model {model.id!r} has no attention that could be read.")
        if alone and MAP not in names and HEAD not in model.gives:
            raise Unsupported(f"The model {model.id!r} has no LM head that could be read.")
        if ANSWER in names and not model.anatomy.causal:
            raise Unsupported(f"The model {model.id!r} does not write on; an answer is asked of a decoder.")
        if LENS in names and model.id not in self.lenses:
            raise Unsupported(f"No lens of {model.id!r} was given; fit one (whence lens fit), and serve it (--lens).")
        if WHY in names and not measures_given(model):
            raise Unsupported(f"What a prediction of the model {model.id!r} is made of cannot be told.")

    def _check(self, model: Model, parsed: Sentence, truncate: bool) -> None:
        try:
            count = len(encode(model.anatomy, model.tokenizer, parsed, truncate).tokens)
        except BadInput as error:
            raise BadInput(str(error).replace(OPTION, BOX)) from error
        if count > self.limits.tokens:
            raise TooLarge(f"The text has {count:,} tokens and the explorer takes {self.limits.tokens:,}; shorten it.")


WHENCE = version("whence")


def cost(names: list[str]) -> int:
    """0 for what a forward pass gives, 1 for the rest."""
    rows = [owners().get(name, name) for name in names]
    known = registered()
    return int(any(row in SLOW or (row in known and known[row].over == "model") for row in rows))


def _options(names: list[str], query: Ask) -> dict[str, Any]:
    """The options of the request that its measures have; refuses names that are no measures."""
    if len(names) == 1 and names[0] in ALONE:
        return _asked(query, names[0])
    known = registered()
    unknown = [name for name in names if name not in known and name not in owners() and name not in ALONE]
    if unknown:
        raise BadInput(f"There is no measure {unknown[0][:80]!r}; there are: {', '.join(known)}.")
    having = {
        option for name in names if name not in ALONE for option in known[owners().get(name, name)].options.names()
    }
    return {"error": query.error} if query.error is not None and "error" in having else {}


# which fields of a request belong to a measure that is asked for alone
_FIELDS = {
    HEAD: ("positions",),
    WHY: ("positions", "against", "rather", "chat", "answer", "spans"),
    ANSWER: ("chat", "answer", "more"),
    LENS: ("positions",),
    MAP: ("layer",),
}
_FIRST: dict[str, Any] = {"model": "", "text": WARM, "measures": [WHY], "rather": True, "positions": [1]}


def _asked(query: Ask, name: str) -> dict[str, Any]:
    if name == MAP and query.layer is None:
        raise BadInput("The measure 'map' is of one layer; name it (layer).")
    return {field: getattr(query, field) for field in _FIELDS[name]}


def _cut(model: Model, parsed: Sentence, truncate: bool) -> dict[str, int]:
    """How many tokens the text has when not all of them were measured."""
    longest = limit(model.anatomy, model.tokenizer)
    if not truncate or longest is None:
        return {}
    texts = [own_mask(model.tokenizer, text) for text in parsed.texts]
    total = len(model.tokenizer(*texts, verbose=False)["input_ids"])
    return {"cut_from": total} if total > longest else {}


def _guess(model: Model) -> float:
    """Seconds of contribution per squared token."""
    return GUESS * model.anatomy.layers * model.anatomy.width**2


def _described(name: str, model: Model, lenses: Mapping[str, Lens]) -> dict[str, Any]:
    anatomy = model.anatomy
    return {
        "name": name,
        "family": anatomy.family,
        "layers": anatomy.layers,
        "heads": anatomy.heads,
        "causal": anatomy.causal,
        "mask": model.tokenizer.mask_token is not None,
        "tokens": limit(anatomy, model.tokenizer),
        "chat": bool(getattr(model.tokenizer, "chat_template", None)),
        "measures": [
            *given_by(model.gives, registered()),
            *({HEAD} & model.gives),
            *([WHY] if measures_given(model) else []),
            *([MAP] if given_by(model.gives, ["attention"]) else []),
            *([ANSWER] if anatomy.causal and HEAD in model.gives else []),
            *([LENS] if model.id in lenses else []),
        ],
    }


def _identity(model: Model) -> list[str]:
    """What a result depends on besides the text and the measures."""
    return [model.id, model.revision or "", str(model.model.dtype), WHENCE]
