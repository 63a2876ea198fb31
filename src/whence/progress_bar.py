"""A bar for long work, in a terminal or a notebook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress() -> Iterator[Callable[..., None]]:
    """What `progress=` of measure, run, identify, cloze, perturb and study takes: a bar with the time left.

    with whence.progress() as bar:
        whence.run(model, corpus, "mixing", progress=bar)

    It appears on the error stream with the first report and disappears when the work is done. When the error stream
    is not a terminal, there is no bar.
    """
    from rich.console import Console
    from rich.progress import Progress, TaskID

    console, tasks = Console(stderr=True), dict[str, TaskID]()
    with Progress(console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter)) as bar:

        def report(*arguments: Any) -> None:
            """Takes (done, total), or (name, done, total) where the work has several steps."""
            *names, done, total = arguments
            name = names[0] if names else "measuring"
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield report
