"""How --help looks: in which panel an option stands, and sentences that fill the width of the terminal."""

from typing import TYPE_CHECKING, Any

from cyclopts import Group

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

# panels of options, after the command's own
CORPUS = Group("Reading the corpus", sort_key=1)
ANSWER = Group("The answer", sort_key=2)
QUESTION = Group("What is explained", sort_key=3)
VIEW = Group("How it is told", sort_key=4)
OUTPUT = Group("Output", sort_key=5)
WORK = Group("Where the work is done", sort_key=6)
MODEL = Group("Model", sort_key=7)

# panels of commands
TEXTS = Group("One text", sort_key=1)
CORPORA = Group("Many texts", sort_key=2)
EXPLORER = Group("In the browser", sort_key=3)
FACTS = Group("Models and measures", sort_key=4)
FLAGS = Group("Options", sort_key=5)


class Flowing:
    """Cyclopts' own formatter (imported when help is asked for), without the line breaks of the docstrings."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        from rich.text import Text

        for entry in panel.entries:
            text = entry.description.primary_renderable
            entry.description.primary_renderable = Text(" ".join(text.plain.split()))
        self._cyclopts()(console, options, panel)

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        self._cyclopts().render_usage(console, options, usage)

    @staticmethod
    def _cyclopts() -> Any:
        from cyclopts.help import DefaultFormatter

        return DefaultFormatter()
