"""whence why: what a prediction was made of, in the terminal, as JSON and as a page."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from whence.cli.help import ANSWER, QUESTION, VIEW
from whence.cli.shared import (
    STANDARD_INPUT,
    Opened,
    Out,
    Several,
    Shown,
    Source,
    Switch,
    check_file,
    check_prefix,
    text_of,
)
from whence.errors import BadInput, WhenceError
from whence.progress_bar import progress

if TYPE_CHECKING:
    import xarray

Asked = Annotated[str | None, Parameter(group=QUESTION)]
Told = Annotated[str | None, Parameter(group=VIEW)]
PAGE = Path("why.html")
NUMBER = "id:"


def why(
    text: str | None = None,
    *,
    pair: str | None = None,
    image: Path | None = None,
    prefix: str | None = None,
    chat: Path | None = None,
    truncate: Switch = False,
    memory_limit: float | None = None,
    answer: Annotated[str | None, Parameter(group=ANSWER)] = None,
    generate: Annotated[int, Parameter(group=ANSWER, show_default=False)] = 0,
    seed: Annotated[int | None, Parameter(group=ANSWER)] = None,
    token: Asked = None,
    against: Asked = None,
    label: Asked = None,
    similar_to: Asked = None,
    pooling: Asked = None,
    position: Annotated[Several, Parameter(group=QUESTION)] = None,
    together: Annotated[Switch, Parameter(group=QUESTION)] = False,
    measures: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), group=VIEW)] = None,
    spans: Told = None,
    layers: Annotated[Several, Parameter(group=VIEW)] = None,
    through: Told = None,
    components: Annotated[Switch, Parameter(group=VIEW)] = False,
    alternatives: Annotated[int, Parameter(group=VIEW)] = 5,
    json: Shown = False,
    out: Out = None,
    open_page: Opened = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show what a prediction rests on: how much of its logit each token gave, and at which depth.

    Parameters
    ----------
    text
        A text with [MASK], the prompt of a decoder, or what a classifier reads. Without one, or with -, it is read
        from standard input. A model that reads pictures or sounds takes the file of one.
    pair
        A second text, which the model reads together with the first. For a reranker: the document, after the query.
    image
        The file of a picture that comes before the text, for a decoder that reads pictures.
    prefix
        How the answer of an encoder-decoder begins. What comes next is explained.
    chat
        A .json file with a list of messages such as {"role": "user", "content": "a text"}, instead of a text.
    truncate
        Cut a text that is longer than the model can read.
    memory_limit
        How many GB may be used. By default: what is free.
    answer
        The text that follows the prompt, with its leading space. Each of its tokens is explained.
    generate
        Let the model answer with at most this many tokens.
    seed
        Sample the answer with this seed. Without one, the best token is taken each time.
    token
        Explain this token instead of the best one. Give its text, or its number in the vocabulary as id:3000.
    against
        Explain why the token or class is ahead of this one: the difference of the two logits.
    label
        Explain this class of a classifier instead of the best one. Give its name, or its number as id:1.
    similar_to
        Explain how similar the text is to this one: the cosine of the two vectors. The vector of this one is held.
    pooling
        How a text becomes one vector: mean, first or last. By default: as the files of the model say.
    position
        Explain the predictions at these tokens: --position 3 5. They count from the end when negative.
    together
        Explain the answer as one, instead of token by token.
    measures
        share, dependence or both. By default: both.
    spans
        Add up the shares by word, line, sentence, paragraph or turn, or by ranges of characters: 0:17,40:52.
    layers
        Shade the text at these layers: --layers 0 6. By default: layer 0, the embeddings.
    through
        With "generated", the shares of generated tokens are handed on to the prompt.
    components
        Tell the heads and the feed-forward of each layer apart.
    alternatives
        How many of the best tokens to name.
    json
        Print all numbers as JSON, and nothing else.
    out
        Where to write the page.
    open_page
        Open the page in the browser.
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
