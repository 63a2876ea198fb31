"""Why this token, class or similarity: what every token, at every layer, gave to it, and how much it depends on it."""

from collections.abc import Callable, Iterable

import numpy as np
import xarray

from whence._arguments import listed, seed_of, whole
from whence.errors import BadInput, Unsupported
from whence.measures.flow import hops
from whence.measures.registry import DERIVATIVES, SECANT
from whence.models.fingerprint import provenance
from whence.models.given import facing
from whence.models.load import Model, loaded
from whence.sentence import reading as read
from whence.sentence import why_labels
from whence.sentence.accounts import Arrays, Wanted, account
from whence.sentence.question import Answer, Question, question, question_of_both, token_number
from whence.sentence.reading import CLASS, SIMILARITY, TOKEN
from whence.sentence.spans import Spans, spans_of

NEEDS = {"share": SECANT, "dependence": DERIVATIVES}


def why(
    model: Model,
    text: object,
    token: int | str | None = None,
    against: int | str | None = None,
    position: int | Iterable[int] | None = None,
    measures: str | Iterable[str] = tuple(NEEDS),
    *,
    label: int | str | None = None,
    similar_to: object = None,
    pooling: str | None = None,
    answer: object = None,
    generate: int = 0,
    seed: int | None = None,
    spans: str | Iterable[tuple[int, int]] | None = None,
    through: str | None = None,
    components: bool = False,
    together: bool = False,
    alternatives: int = 5,
    truncate: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """Why the model predicts a token: at each mask, after a prompt, or each token of an answer; why a classifier says a
    class; why an embedding model finds two texts similar.

    Args:
        model: a loaded model with an LM head, or a classifier; for `similar_to` any that shares are had of
        text: a text, a pair, a chat as a list of messages (by the tokenizer's template), or token ids; of an
            encoder-decoder a source, or a source and the beginning of its answer as a tuple
        token: the predicted token, by its text or number in the vocabulary; the model's best one when None
        against: another token, or another class: then all is about the difference of the two
        position: where the prediction stands, unless at every mask or behind the last token, or, where every token has
            a class, at every token of the text
        measures: share, dependence, or both
        label: a classifier's class, by its name or number; the model's best one when None
        similar_to: another text: explained is the cosine of the two texts' vectors, the other one's held
        pooling: how one vector is made of a text: mean, first or last; as the model's files say unless given
        answer: a decoder's answer, as it would stand behind the prompt, or its token ids: each token is explained
        generate: let the model answer with so many tokens at most
        seed: sample the answer with this seed; by default the best token is taken each time
        spans: sums by word, line, sentence, paragraph, turn, or by (start, end) characters of the text
        through: "generated": what rests on the answer's earlier tokens is handed on to the prompt
        components: also by the heads and the feed-forward of each layer
        together: the answer as one: the sum of its logits, the log-probability of all of it
        alternatives: how many of the best tokens are named beside the predicted one
        truncate: cut a text that is longer than the model takes, which is an error otherwise
        memory_limit: in bytes; with less, blocks are computed again instead of kept. By default the free memory
        progress: progress(done, total) is called during the work, and may end it by raising

    Returns:
        A Dataset. Layer 0 is the output of the embeddings. Of an encoder-decoder sources are the tokens of both texts
        (`source_stack`), and the layers of the decoder come behind those of the encoder (`layer_stack`).

        * `share` (predicted, layer, source): signed part of the logit that the token's state at that layer gave; over
          sources, with `bias` (predicted, layer), they add up to `logit` exactly
        * `dependence` (predicted, layer, source): length of the derivative of the log-probability by that state; of a
          similarity, and of a score without probability (a regression), of itself
        * `logit`, `probability`, `place` (predicted): of the token or class; `logit` is the difference of two with
          `against`, and the cosine with `similar_to`
        * `span_share`, `span_dependence`: the same by span, with the same sums
        * `component_share` (predicted, block, component, source), `component_bias` (predicted, block)
        * `carried` (predicted, source): what the prompt carries of each prediction `through` generated tokens, rows
          sum to one; `carried_through` (predicted) is how much came by them

        A share says what the prediction was made of, with attention weights, norm scales and activation slopes as they
        were; a dependence how it would change.

    Examples:
        >>> ds = whence.why(whence.load(), "The keys to the cabinet [MASK] on the table.")
        >>> bool(abs(ds.share.sum("source") + ds.bias - ds.logit).max() < 1e-3)
        True
    """
    reply = Answer(answer, whole("generate", generate, 0), None if seed is None else seed_of(seed))
    pair, model = loaded(model, two_stacks=True), facing(model, text)
    kind = read.kind_of(model, similar_to)
    _check_two_stacks(model, kind, components)
    names = measures_of(model, measures, components, kind)
    read.check_asked(
        model,
        kind,
        token=token,
        label=label,
        against=against,
        position=position,
        pooling=pooling,
        similar_to=similar_to,
        answer=answer,
        generate=reply.generate or None,
        through=through,
        together=together,
    )
    alternatives = whole("alternatives", alternatives, 1)
    memory_limit = None if memory_limit is None else whole("memory_limit", memory_limit, 1)
    if kind == TOKEN:
        find = question if model.encoder is None else question_of_both
        query = find(model, text, position, token, reply, truncate)
        reading = read.of_tokens(model, query)
    elif kind == CLASS:
        query, reading = read.of_classes(model, text, position, label, truncate)
    else:
        query, reading = read.of_similarity(model, text, facing(pair, similar_to), similar_to, pooling, truncate)
    other = None if against is None else (token_number if kind == TOKEN else read.class_number)(model, against)
    by_span = None if spans is None else spans_of(query.encoded, spans, query.answer)
    _check_through(through, names, query, together)
    wanted = Wanted(names, other, together, components, alternatives, memory_limit, progress)
    data, predicted = account(model, query, reading, wanted)
    labels = why_labels.of_predictions(query, reading, predicted, together) | why_labels.of_sources(model, query)
    if by_span is not None:
        data, labels = data | _by_span(data, by_span), labels | why_labels.of_spans(by_span)
    if components:
        labels |= why_labels.of_components(data["component_share"][1].shape[2], model.anatomy.layers)
    if through is not None:
        carried, by_them = hops.through(data["share"][1][:, 0], query.positions, query.answer or 0)
        data |= {"carried": (("predicted", "source"), carried), "carried_through": (("predicted",), by_them)}
    options: dict[str, object] = {"against": other, "position": query.positions, "together": together}
    options |= {} if similar_to is None else {"pooling": pooling}
    about = why_labels.texts(query) | {"predicts": kind, "of": reading.of}
    return xarray.Dataset(data, labels, provenance(model, names, options) | about)


def _check_two_stacks(model: Model, kind: str, components: bool) -> None:
    if model.encoder is None:
        return
    if kind == SIMILARITY:
        raise BadInput("How similar two texts are is asked of an encoder; give the encoder alone (model.encoder).")
    if components:
        raise Unsupported(
            "The parts of heads and feed-forward are not given of two stacks; leave them out (components=)."
        )


def measures_of(model: Model, measures: str | Iterable[str], components: bool = False, kind: str = TOKEN) -> list[str]:
    """The measures of a prediction that were asked for; refused where the model does not give them."""
    names = listed("measure", measures, str)
    if unknown := [name for name in names if name not in list(NEEDS)]:
        raise BadInput(f"There is no {unknown[0]!r} of a prediction; there are: {', '.join(NEEDS)}.")
    if not names:
        raise BadInput(f"No measure of the prediction was asked for; there are: {', '.join(NEEDS)}.")
    if components and "share" not in names:
        raise BadInput("Components are those of shares; ask for 'share' as well (measures=).")
    read.check_given(model, kind)
    for name in names:
        if lacking := sorted((NEEDS[name] | {read.NEEDS[kind]}) - model.gives):
            rest = given_by(model, kind)
            raise Unsupported(
                f"{name!r} needs {', '.join(lacking)}, which the family {model.anatomy.family!r} does not give; "
                + (f"ask for {rest[0]!r} alone (measures=)." if rest else "take another model.")
            )
    if model.anatomy.side_paths:
        raise Unsupported(
            f"Blocks of {type(model.model).__name__} read more of the embeddings than their states, so a prediction is"
            " not made of the states of a layer alone."
        )
    return names


def given_by(model: Model, kind: str) -> list[str]:
    """The measures that this model gives of such a prediction."""
    return [name for name in NEEDS if NEEDS[name] | {read.NEEDS[kind]} <= model.gives]


def _check_through(through: str | None, names: list[str], query: Question, together: bool) -> None:
    if through is None:
        return
    if through != "generated":
        raise BadInput(f"What a prediction rests on is followed through 'generated' tokens, and not {through!r}.")
    if query.answer is None or together or "share" not in names:
        raise BadInput(
            "Generated tokens are followed in an answer whose tokens are explained one by one, by shares; ask for an"
            " answer (answer=, generate=) and not for it as one (together=)."
        )


def _by_span(data: Arrays, spans: Spans) -> Arrays:
    """Shares add up; of a span's states taken together the derivative is as long as the root of the sum of squares."""
    axes = ("predicted", "layer", "span")
    sums: Arrays = {"span_share": (axes, spans.sums(data["share"][1]))} if "share" in data else {}
    if "dependence" in data:
        sums["span_dependence"] = axes, np.sqrt(spans.sums(data["dependence"][1] ** 2))
    return sums
