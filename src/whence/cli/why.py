"""whence why: what a prediction was made of, in the terminal, as JSON and as a page."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from whence.cli.shared import STANDARD_INPUT, Several, Source, check_file, check_prefix, text_of
from whence.errors import BadInput, WhenceError
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

Switch = Annotated[bool, Parameter(negative=())]
Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]
PAGE = Path("why.html")
NUMBER = "id:"


def why(
    text: str | None = None,
    *,
    pair: str | None = None,
    image: Path | None = None,
    prefix: str | None = None,
    chat: Path | None = None,
    answer: str | None = None,
    generate: int = 0,
    seed: int | None = None,
    token: str | None = None,
    against: str | None = None,
    label: str | None = None,
    similar_to: str | None = None,
    pooling: str | None = None,
    position: Several = None,
    measures: Names = None,
    spans: str | None = None,
    layers: Several = None,
    through: str | None = None,
    components: Switch = False,
    together: Switch = False,
    alternatives: int = 5,
    json: Switch = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    open_page: Annotated[bool, Parameter(name="--open", negative=())] = False,
    truncate: Switch = False,
    memory_limit: float | None = None,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what a prediction was made of: which tokens gave how much of its logit, and where in depth.

    whence why "The keys to the cabinet [MASK] on the table."
    whence why "The capital of France is" --model MODEL --against " London"
    whence why "Why is the sky blue?" --model MODEL --generate 20 --open
    whence why --chat messages.json --model MODEL --generate 20 --out page.html
    whence why "What a wonderful film." --model CLASSIFIER --against NEGATIVE
    whence why "How old are you?" --model RERANKER --pair "I am six."
    whence why "How old are you?" --model TRANSLATOR --generate 12
    whence why "How old are you?" --model TRANSLATOR --prefix "Wie alt"
    whence why "A man is eating." --model EMBEDDING_MODEL --similar-to "Someone has a meal."
    whence why cat.png --model CLASSIFIER_OF_PICTURES
    whence why cat.png --model CLIP_MODEL --similar-to "a photo of a cat"
    whence why "What is in this picture?" --image cat.png --model VISION_LANGUAGE_MODEL --generate 10

    Parameters
    ----------
    text
        A text with [MASK], a decoder's prompt, or what a classifier reads; without one, or with -, it is read from
        standard input. For a model that reads pictures or sounds, the file of one.
    pair
        A second text that the model reads together with the first: for a reranker, the document behind the query.
    image
        The file of a picture that stands before the text, for a decoder that reads pictures in its texts.
    prefix
        The beginning of an encoder-decoder's answer to the text: explained is what comes next.
    chat
        A .json file with a list of messages, {"role": "user", "content": "a text"}, instead of a text.
    answer
        What follows a decoder's prompt, as it would stand there: each of its tokens is explained.
    generate
        Let the model answer with so many tokens at most.
    seed
        Sample the answer, by this seed; without one, the best token is taken each time.
    token
        Explain this token instead of the best one: its text, or id:3000 for its number in the vocabulary.
    against
        Explain by how much the token, or the class, is ahead of this one.
    label
        Explain this class of a classifier instead of the best one: its name, or id:1 for its number.
    similar_to
        Explain how similar the text is to this one: the cosine of their vectors, this one's held.
    pooling
        How one vector is made of a text: mean, first or last; as the model's files say when not given.
    position
        Explain the predictions at these tokens: --position 3 5; from the end when negative.
    measures
        share, dependence, or both, as when not given.
    spans
        Sum up by word, line, sentence, paragraph, turn, or by characters as in 0:17,40:52.
    layers
        Shade the text at these layers: --layers 0 6; 0, the embeddings, when not given.
    through
        generated: what rests on the answer's own tokens is handed on to the prompt.
    components
        Tell the heads and feed-forwards of every layer apart.
    together
        Explain the answer as one.
    alternatives
        How many of the best tokens to name.
    json
        Write all numbers to standard output as JSON, and nothing else.
    out
        Where to write the page.
    open_page
        Open the page in the browser.
    truncate
        Cut off what is longer than the model takes.
    memory_limit
        In GB; by default what is free.
    """
    page = out or (PAGE if open_page else None)
    if page is not None:
        check_file(page, (".html", ".htm"))
    options = {
        "token": _token(token),
        "against": _token(against),
        "label": _token(label),
        "similar_to": similar_to,
        "pooling": pooling,
        "position": position,
        "answer": answer,
        "generate": generate,
        "seed": seed,
        "spans": _spans(spans),
        "through": through,
        "components": components,
        "together": together,
        "alternatives": alternatives,
        "truncate": truncate,
        "memory_limit": None if memory_limit is None else int(memory_limit * 1e9),
    } | ({} if measures is None else {"measures": measures})
    dataset = _explained(_question(text, pair, image, chat), prefix, options, layers, source)
    _written(dataset, page, open_page)
    _print_json(dataset, layers) if json else _print(dataset, layers, page)


def _question(text: str | None, pair: str | None, image: Path | None, chat: Path | None) -> Any:
    """The text, a pair, a picture with its text, or the messages of a chat."""
    if image is not None:
        if pair is not None or chat is not None:
            raise BadInput("A picture stands before one text; give it without --pair and --chat.")
        return image, text_of(text, "why")
    if chat is None:
        return text_of(text, "why") if pair is None else (text_of(text, "why"), pair)
    if text is not None or pair is not None:
        raise BadInput("A text and a chat were given; give one of them.")
    import json

    from whence.text.sentence import decode

    if not chat.is_file() and str(chat) != STANDARD_INPUT:
        raise BadInput(f"There is no file {str(chat)!r}.")
    content = sys.stdin.buffer.read() if str(chat) == STANDARD_INPUT else chat.read_bytes()
    try:
        messages = json.loads(decode(content, str(chat)))
    except ValueError as error:
        raise BadInput(f"{str(chat)!r} is not JSON: {error}.") from None
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise BadInput(f'{str(chat)!r} should be a list of messages such as {{"role": "user", "content": "a text"}}.')
    return messages


def _explained(
    question: Any, prefix: str | None, options: dict[str, Any], layers: list[int] | None, source: Source
) -> "xarray.Dataset":
    from whence._arguments import layers as checked
    from whence.models.given import facing
    from whence.models.inputs import TEXT
    from whence.sentence.why import why as explain

    with _in_flags(options):
        model = source.load()
        check_prefix(model, prefix)
        if model.encoder is not None:
            question = (question, prefix or "")
        read = facing(model, question)
        if layers is not None:
            checked(layers, 0, read.anatomy.chained)
        if read.reads == TEXT:
            options["spans"] = options["spans"] or ("turn" if isinstance(question, list) else "word")
        with progress() as report:
            return explain(model, question, **options, progress=report)


@contextmanager
def _in_flags(options: dict[str, Any]) -> Iterator[None]:
    """Names parameters in errors as they are called here: generate= is --generate."""
    try:
        yield
    except WhenceError as error:
        names = "|".join([*options, "measures"])
        message = re.sub(r", in Python: \w+=", "", str(error))
        message = re.sub(rf"\b({names})=(?!\w)", lambda match: f"--{match[1].replace('_', '-')}", message)
        raise type(error)(message) from error


def _token(token: str | None) -> str | int | None:
    if token is None or not token.startswith(NUMBER):
        return token
    try:
        return int(token.removeprefix(NUMBER))
    except ValueError:
        raise BadInput(f"A token is its text or its number, as in id:3000, and {token!r} was given.") from None


def _spans(spans: str | None) -> str | list[tuple[int, int]] | None:
    """The kind of span, or characters from "0:17,40:52"."""
    if spans is None or not re.fullmatch(r"[\d:,\s]+", spans):
        return spans
    pairs = [re.fullmatch(r"\s*(\d+):(\d+)\s*", part) for part in spans.split(",")]
    ranges = [(int(pair[1]), int(pair[2])) for pair in pairs if pair is not None]
    if len(ranges) < len(pairs):
        raise BadInput(f"Characters are given as in 0:17,40:52, and {spans!r} was given.")
    return ranges


def _print(dataset: "xarray.Dataset", layers: list[int] | None, page: Path | None) -> None:
    from rich.console import Console

    from whence.plot.terminal_why import picture

    console = Console(highlight=False)
    console.print(picture(dataset, layers or [0], console.width, console.color_system is not None))
    if page is not None:
        console.print(f"\nThe page: {page.resolve()}", soft_wrap=True, markup=False)


def _print_json(dataset: "xarray.Dataset", layers: list[int] | None) -> None:
    import json

    from whence.cli.why_json import record

    chosen = dataset if layers is None else dataset.sel(layer=layers)
    print(json.dumps(record(chosen), ensure_ascii=False, allow_nan=False))


def _written(dataset: "xarray.Dataset", page: Path | None, open_page: bool) -> None:
    if page is None:
        return
    from whence.page.report import report

    report(dataset, page)
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
