"""What several commands need: which model, a text, a file to write, a table."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from whence._extras import require
from whence.cli.help import CORPUS, MODEL, OUTPUT, WORK
from whence.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from whence.measures.options import Options
    from whence.models.load import Model

STANDARD_INPUT = "stdin:"  # what a hyphen on the command line becomes
Switch = Annotated[bool, Parameter(negative=(), show_default=False)]
Shown = Annotated[Switch, Parameter(group=OUTPUT)]
Opened = Annotated[Shown, Parameter(name="--open")]
File = Annotated[Path | None, Parameter(group=OUTPUT)]
Out = Annotated[File, Parameter(name=["--out", "-o"])]
Reading = Annotated[str | None, Parameter(name="--read", group=CORPUS)]
Limit = Annotated[int | None, Parameter(group=CORPUS)]
Engine = Annotated[Literal["local", "ray"], Parameter(group=WORK)]
Address = Annotated[str | None, Parameter(group=WORK)]
Count = Annotated[int | None, Parameter(group=WORK)]
Several = Annotated[list[int] | None, Parameter(consume_multiple=True, negative=())]
SWITCHES = {"header": {"yes": True, "no": False}}  # options of formats that are not names
CHARTS = (".svg", ".png", ".pdf", ".html", ".json")
NETCDF = ("netCDF4", "h5netcdf", "scipy")  # xarray writes with any of them
APART = ("source", "limit", "skip_bad")  # keywords of whence.read that are options of their own here


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True)
class Loading:
    """How to load a model."""

    revision: str | None = None
    "The branch, tag or commit on the Hub."
    device: str = "auto"
    "Where the model runs: auto, cpu, cuda or mps."
    dtype: str = "auto"
    "The precision: auto (which is float32), float64, float32, bfloat16 or float16."
    device_map: str | None = None
    "Spread a large model over the GPUs, the main memory and the disk: auto, balanced, balanced_low_0 or sequential."
    max_memory: str | None = None
    "With --device-map, how much of each may be used: 0=20GB,cpu=60GB."
    offload_folder: Path | None = None
    "With --device-map, the folder for weights that stay on the disk and cannot be read from the checkpoint directly."
    trust_remote_code: Switch = False
    "Run the model code that comes with the checkpoint."
    allow_pickle: Switch = False
    "Read pickled checkpoints. Opening one can run code."

    def load(self, model: str | None, revision: str | None = None) -> "Model":
        """The model; a revision that is named with it goes before that of all."""
        from whence.models.load import load, quiet

        quiet(bars=sys.stderr.isatty())
        return load(
            model,
            revision=revision or self.revision,
            device=self.device,
            dtype=self.dtype,
            device_map=self.device_map,
            max_memory=_amounts(self.max_memory),
            offload_folder=self.offload_folder,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True)
class Source:
    """Which model, and how to load it."""

    model: Annotated[str | None, Parameter(name=["--model", "-m"])] = None
    "A Hub id, a folder or a .gguf file. Without one, the built-in model is used."
    loading: Loading = Loading()

    def named(self, model: str | None) -> "Source":
        """The same with the model that was named without --model."""
        if None not in (model, self.model):
            raise BadInput(f"Two models were named, {model!r} and {self.model!r}; name one.")
        return self if model is None else replace(self, model=model)

    def load(self) -> "Model":
        return self.loading.load(self.model)


def _amounts(argument: str | None) -> dict[str | int, str] | None:
    """Devices and amounts, as whence.load takes them, from "0=20GB,cpu=60GB"."""
    amounts: dict[str | int, str] = {}
    for part in argument.split(",") if argument is not None else ():
        place, _, amount = (piece.strip() for piece in part.partition("="))
        if not place or not amount:
            raise BadInput(f"--max-memory takes amounts as in 0=20GB,cpu=60GB, and {part!r} was given.")
        amounts[int(place) if place.isdecimal() else place] = amount
    return None if argument is None else amounts


@contextmanager
def going_on(out: str | Path) -> Iterator[None]:
    """Says on Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"whence: stopped; finished parts are kept in {out}, and the same command resumes.", file=sys.stderr)
        raise


def reading(argument: str | None) -> dict[str, Any]:
    """The options of a corpus's format, as whence.read takes them, from "text=review,label=stars"."""
    options: dict[str, Any] = {}
    for part in re.split(r",\s*(?=\w+=)", argument) if argument else ():
        name, _, value = part.strip().partition("=")
        if not name or not value or name in APART:
            raise BadInput(f"--read takes options as in text=review,label=stars, and {part!r} was given.")
        if name in SWITCHES and value not in SWITCHES[name]:
            raise BadInput(f"{name!r} is {' or '.join(SWITCHES[name])}, and {value!r} was given.")
        options[name] = SWITCHES.get(name, {}).get(value, value)
    return options


def asked_for(measures: list[str], argument: str | None) -> "list[str | Options]":
    """Measures, as whence.measure takes them, with those of the options, "norm=spectral,error=0.05", that each has."""
    from whence.measures.registry import measures as registered
    from whence.measures.registry import with_options

    known = {name for measure in registered().values() for name in measure.options.names()}
    options: dict[str, Any] = {}
    for part in argument.split(",") if argument else ():
        name, _, value = part.strip().partition("=")
        if name not in known or not value:
            raise BadInput(
                f"--options takes options as in norm=spectral,error=0.05, and {part.strip()!r} was given; there are:"
                f" {', '.join(sorted(known))}."
            )
        options[name] = _number(value)
    return with_options(measures, options)


def _number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def text_of(text: str | None, command: str = "explain") -> str:
    from whence.text.sentence import decode

    if text not in (None, STANDARD_INPUT):
        return text
    if text is None and sys.stdin.isatty():
        raise BadInput(
            f'No text was given; for example: whence {command} "The keys to the cabinet [MASK] on the table."'
        )
    return decode(sys.stdin.buffer.read(), "Standard input")


def check_prefix(model: "Model", prefix: str | None) -> None:
    """Refuses the beginning of an answer where there is no decoder to go on with it."""
    if prefix is not None and model.encoder is None:
        raise BadInput(
            f"{type(model.model).__name__} has one stack, and --prefix is the beginning of an encoder-decoder's answer;"
            " leave it out."
        )


def check_file(out: Path, endings: tuple[str, ...]) -> None:
    """Refuses a file that cannot be written, before the work."""
    if out.is_dir():
        raise BadInput(f"{str(out)!r} is a folder; name a file in it.")
    if out.suffix not in endings:
        raise BadInput(f"{str(out)!r} should end in {' or '.join(endings)}.")
    if not out.parent.is_dir():
        raise BadInput(f"{str(out)!r} cannot be written: there is no folder {str(out.parent)!r}.")
    if out.suffix == ".nc" and not any(map(find_spec, NETCDF)):
        raise Unsupported(f"Writing netCDF needs {NETCDF[0]}: pip install 'whence[netcdf]', or name a .csv file.")


def check_chart(out: Path) -> None:
    """The same of a file to draw into, and whether there is anything to draw with."""
    check_file(out, CHARTS)
    require("Charts need", "plot", "altair", "vl_convert")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: tuple[int, ...] = ()) -> None:
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(head):
        drawn.add_column(name, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(drawn)
