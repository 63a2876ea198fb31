"""The command line: each command is a thin call of one function. Errors are one sentence and exit code 2."""

import gc
import importlib
import os
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError, UnusedCliTokensError

from whence.cli.examples import shown
from whence.cli.help import CORPORA, EXPLORER, FACTS, FLAGS, TEXTS, Flowing
from whence.cli.shared import STANDARD_INPUT
from whence.errors import WhenceError

# one module each, with a function of the same name, and the panel in which it is listed
COMMANDS = {
    "explain": TEXTS,
    "why": TEXTS,
    "lm_head": TEXTS,
    "lens": TEXTS,
    "measure": CORPORA,
    "report": CORPORA,
    "identify": CORPORA,
    "study": CORPORA,
    "serve": EXPLORER,
    "verify": FACTS,
    "measures": FACTS,
}
# what to do with more arguments than a command takes
BEYOND = {
    "explain": "put a text of several words in quotes, or name the second text of a pair with --pair",
    "why": "put a text of several words in quotes",
    "lm-head": "put a text of several words in quotes",
    "measure": "name several files by one pattern in quotes, as in 'data/*.txt'",
    "identify": "name several files by one pattern in quotes, as in 'data/*.txt'",
}

app = App(
    name="whence",
    help="See where the information in each hidden token of a transformer comes from, and what a prediction rests on.",
    help_epilogue=shown("whence"),
    help_formatter=Flowing(),
    help_format="plaintext",  # the others import a Markdown parser, a fifth of the time --help takes
    help_flags=["--help", "-h"],
    version_flags=["--version"],
    version=lambda: _version(),
)
app["--help"].group = app["--version"].group = FLAGS
for _place, (_module, _panel) in enumerate(COMMANDS.items()):
    app.command(getattr(importlib.import_module(f"whence.cli.{_module}"), _module))
    _name = _module.replace("_", "-")
    app[_name].group, app[_name].sort_key, app[_name].help_epilogue = _panel, _place, shown(_name)


def main() -> NoReturn:
    """The entry point. Taking torch and transformers down again takes a second, and nothing is left to close."""
    if not sys.stderr.isatty():  # bars of other packages, which read this when they are imported (GGUF's dequantising)
        os.environ.setdefault("TQDM_DISABLE", "1")
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
    # a lone hyphen would be taken for an option without a name
    arguments = [STANDARD_INPUT if argument == "-" else argument for argument in arguments if argument != "--debug"]
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except SystemExit as left:  # cyclopts' way at Ctrl-C, rich's when nobody reads its output any more
        return 0 if isinstance(left.__context__, BrokenPipeError) else int(left.code or 0)
    except (WhenceError, CycloptsError, OSError) as error:
        if debug:
            raise
        print(f"whence: {' '.join(_sentence(error).split())}", file=sys.stderr)
        return 2
    return 0


def _sentence(error: Exception) -> str:
    if isinstance(error, UnusedCliTokensError):
        return _beyond(error)
    if isinstance(error, OSError) and error.strerror:  # a full disk, a place that cannot be written
        return error.strerror + (f": {error.filename}" if error.filename else "")
    return str(error)


def _beyond(error: UnusedCliTokensError) -> str:
    command = next(iter(error.command_chain or ()), "")
    remedy = BEYOND.get(command, f"see whence {command} --help" if command else "see whence --help")
    return f"There is no place for {' '.join(error.unused_tokens or ())!r}; {remedy}."


def _version() -> str:
    from importlib.metadata import version

    return version("whence")
