"""whence serve: the explorer in a browser."""

from typing import Annotated

from cyclopts import Parameter

from whence._extras import require
from whence.cli.shared import Source, Switch
from whence.errors import BadInput, Unsupported


def serve(
    *models: str,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_host: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    token: bool = True,
    browse: bool = True,
    tokens: int = 2048,
    lens: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    read_only: Switch = False,
    mcp: Switch = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Open the explorer in the browser: type a sentence and see where everything in it comes from.

    Parameters
    ----------
    models
        The Hub ids, folders or .gguf files that the page offers. Without one, it offers the built-in model,
        whence/builtin.
    host
        The address to listen on. Anything but 127.0.0.1 lets other machines in.
    port
        The port. By default: the first free one from 8765 on.
    allow_host
        A name by which other machines call this one. Requests to any other name are refused.
    token
        Answer only to those who know the token in the address that is printed.
    browse
        Open the page in the browser.
    tokens
        The longest text that is taken, in tokens.
    lens
        The folder or file of a lens that was fitted to one of the models with `whence lens fit`.
    read_only
        Measure only the examples of the page, for a page that anybody may open.
    mcp
        Serve assistants instead of a page: the Model Context Protocol over standard input and output.
    """
    if mcp:
        require("Tools of assistants need", "mcp", "mcp")
    from whence.web.limits import Limits
    from whence.web.serve import serve

    if port is not None and not 0 <= port <= 65535:
        raise BadInput(f"A port is a number from 0 to 65535, and {port} was given.")
    if tokens < 1:
        raise BadInput(f"The longest sentence has at least 1 token, and {tokens} was given.")
    sources = [source.named(name) for name in models] or [source]
    loaded = [named.load() for named in sources]
    by_name = {model.id: model for model in loaded}
    if both := [name for name, model in by_name.items() if model.encoder is not None]:
        raise Unsupported(
            f"The explorer shows models of one stack, and {both[0]!r} has two; `whence explain` and `whence why` write"
            " pages of it."
        )
    limits = Limits(tokens=tokens, examples_only=read_only)
    if mcp:
        from whence.web.assistant import assistant

        assistant(by_name, limits).run()
    else:
        serve(by_name, host=host, port=port, hosts=allow_host, limits=limits, token=token, browse=browse, lenses=lens)
