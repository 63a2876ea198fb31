"""The command line: each command is a thin call of one function. Errors are one sentence and exit code 2."""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter

from whence.errors import BadInput, WhenceError

if TYPE_CHECKING:
    from whence.models.load import Model

STANDARD_INPUT = "-"

# what `explain` measures when the model gives what they need
EXPLAINED = ("mixing", "attention", "effective", "null", "norms")

app = App(
    name="whence",
    help="Where the information in every hidden token of a transformer comes from, and how much of it is left.",
    help_format="plaintext",  # the others import a Markdown parser, a fifth of the time --help takes
    help_flags=["--help", "-h"],
    version_flags=["--version"],
    version=lambda: _version(),
)


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """Which model, and how to load it."""

    model: Annotated[str | None, Parameter(name=["--model", "-m"])] = None
    "A Hub id, a folder or a .gguf file; the built-in model when not given."
    revision: str | None = None
    "Branch, tag or commit on the Hub."
    device: str = "auto"
    "auto, cpu, cuda, mps."
    dtype: str = "auto"
    "auto (float32), float64, float32, bfloat16, float16."
    trust_remote_code: Annotated[bool, Parameter(negative=())] = False
    "Run model code that comes with the checkpoint."
    allow_pickle: Annotated[bool, Parameter(negative=())] = False
    "Read pickled checkpoints, which can run code when opened."

    def load(self) -> "Model":
        from whence.models.load import load, quiet

        quiet(bars=sys.stderr.isatty())
        return load(
            self.model,
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )


@app.command
def explain(
    text: str | None = None,
    pair: str | None = None,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("whence.html"),
    truncate: Annotated[bool, Parameter(negative=())] = False,
    contribution: Annotated[bool, Parameter(negative=())] = False,
    source: Source = Source(),  # noqa: B008  (frozen)
) -> None:
    """Show where the information in a text went: a picture in the terminal and a page that opens offline.

    Parameters
    ----------
    text
        The text; without one, or with -, it is read from standard input.
    pair
        A second text that the model reads together with the first.
    out
        Where to write the page.
    truncate
        Cut off what is longer than the model takes.
    contribution
        Show as well how much each input token has to do with each hidden token; takes seconds to minutes.
    """
    from rich.console import Console

    from whence.measure import measure
    from whence.measures.registry import given_by
    from whence.plot.terminal import picture
    from whence.report import report
    from whence.text import sentence

    given = sentence(_text(text) if pair is None else (_text(text), pair))
    _check_folder(out)
    model = source.load()
    names = given_by(model.gives, (*EXPLAINED, "contribution") if contribution else EXPLAINED)
    with _progress() as progress:
        dataset = measure(model, given, names, truncate=truncate, progress=progress)
    console = Console(highlight=False)
    console.print(picture(dataset, console.width, console.color_system is not None))
    console.print(f"\nThe page: {report(dataset, out).resolve()}", soft_wrap=True, markup=False)


@app.command
def verify(model: str | None = None, *, source: Source = Source()) -> None:  # noqa: B008
    """Check that a model is read right: the parts sum to the whole, rows to one, logits unchanged, every layer seen.

    Parameters
    ----------
    model
        A Hub id, a folder or a .gguf file; the built-in model when not given.
    """
    from dataclasses import replace

    loaded = (source if model is None else replace(source, model=model)).load()
    rows = [
        (check.name, f"{check.error:.1e}", f"{check.limit:.0e}", "yes" if check.passed else "NO", check.gives)
        for check in loaded.checks
    ]
    anatomy = loaded.anatomy
    size = f"{anatomy.layers} layers, {anatomy.heads} heads, width {anatomy.width}"
    print(f"{loaded.id}: family {anatomy.family}, {size}")
    _table(("check", "error", "limit", "passed", "makes possible"), rows, right=(1, 2))
    print(f"It gives: {', '.join(sorted(loaded.gives))}.")


@app.command
def measures() -> None:
    """List what can be measured, with axes, units and papers."""
    from whence.tables import measures

    table = measures()
    columns = ["measure", "variable", "dims", "unit", "needs", "papers"]
    _table(tuple(columns), [tuple(row) for row in table[columns].to_numpy().tolist()])


def main() -> NoReturn:
    """The entry point. Taking torch and transformers down again takes a second, and nothing is left to close."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `whence measures | head`
        code = 0
    sys.stderr.flush()
    os._exit(code)


def run(arguments: list[str]) -> int:
    """The exit code: an error that is the user's to fix becomes one sentence and 2."""
    # importing torch and transformers makes a million objects that stay; searching them for garbage took a sixth of it
    gc.set_threshold(200_000, 50, 50)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument not in ("--debug", STANDARD_INPUT)]
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (WhenceError, CycloptsError) as error:
        if debug:
            raise
        print(f"whence: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal's error stream, gone when the work is done; appears with the first report."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("measuring", visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _text(given: str | None) -> str:
    from whence.text import decode

    if given is not None:
        return given
    if sys.stdin.isatty():
        raise BadInput('No text was given; for example: whence explain "Paris is the capital of [MASK]."')
    return decode(sys.stdin.buffer.read(), "Standard input")


def _check_folder(out: Path) -> None:
    """Before the work, not after it."""
    if not out.parent.is_dir():
        raise BadInput(f"The page cannot be written: there is no folder {str(out.parent)!r}.")
    if out.is_dir():
        raise BadInput(f"The page cannot be written: {str(out)!r} is a folder; name a file in it.")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = ()) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(table)


def _version() -> str:
    from importlib.metadata import version

    return version("whence")
