"""whence verify: is a model read correctly?"""

from whence.cli.shared import Source, table


def verify(model: str | None = None, /, *, source: Source = Source()) -> None:  # noqa: B008
    """Check that a model is read correctly: the parts sum to the whole, and its predictions stay the same.

    Parameters
    ----------
    model
        A Hub id, a folder or a .gguf file. Without one, the built-in model is checked.
    """
    loaded = source.named(model).load()
    rows = [
        (check.name, f"{check.error:.1e}", f"{check.limit:.0e}", "yes" if check.passed else "NO", check.gives)
        for check in loaded.checks
    ]
    anatomy = loaded.anatomy
    heads = f"{anatomy.heads} heads" if anatomy.heads else "none of which attends"
    heads += f" in layers {anatomy.listed_attending}" if anatomy.heads and anatomy.unattending else ""
    size = f"{anatomy.layers} layers, {heads}, width {anatomy.width}"
    print(f"{loaded.id}: family {anatomy.family}, {size}")
    table(("check", "error", "limit", "passed", "makes possible"), rows, right=(1, 2))
    print(f"It gives: {', '.join(sorted(loaded.gives))}.")
