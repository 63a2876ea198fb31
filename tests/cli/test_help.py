"""--help: examples that parse and stay whole, and no noise."""

import io
import shlex

import pytest
from rich.console import Console

from whence import cli
from whence.cli.examples import EXAMPLES


def names(app, above=()):
    """Every command and command of a command, as it is typed."""
    for name in app:
        if not name.startswith("-"):
            yield (*above, name)
            yield from names(app[name], (*above, name))


COMMANDS = [" ".join(name) for name in names(cli.app)]


def test_every_command_has_examples_and_nothing_else_has():
    assert EXAMPLES.keys() == {"whence", *COMMANDS}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_parse_and_are_of_their_command(name):
    for example in EXAMPLES[name]:
        words = shlex.split(example.partition(" | ")[0].partition(" < ")[0])[1:]
        cli.app.parse_args(words, exit_on_error=False, print_error=False)
        command = " ".join(cli.app.parse_commands(words)[0])
        assert command in COMMANDS and (name == "whence" or command.startswith(name))


def helped(name, width):
    console = Console(file=io.StringIO(), width=width)
    cli.app.help_print(name.removeprefix("whence").split(), console=console)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", EXAMPLES)
def test_help_fits_the_terminal_and_breaks_no_example(name, width):
    lines = helped(name, width)
    assert all(f"  {example}" in lines for example in EXAMPLES[name])
    assert all(len(line) <= width for line in lines)
    assert "default: False" not in "\n".join(lines)


def test_sentences_fill_the_width():
    """Where a docstring breaks a line, the terminal does not."""
    rows = [line for line in helped("measure", 400) if line.startswith("│")]
    assert len(rows) > 20 and all("--" in row for row in rows)
