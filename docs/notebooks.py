"""Makes the notebooks of the documentation from docs/notebooks/*.py: make notebooks [NAME ...].

A source is in the percent format: cells of Markdown and of Python. Of each are made a page with what its cells say
(NAME.md), a Jupyter notebook with the same (NAME.ipynb), and a notebook for marimo (marimo/NAME.py).
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCES = HERE / "notebooks"
NAMES = ("encoder", "decoder", "corpus", "study")
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.M)
INSTALL = '%pip install -q "whence[plot,stats]"'
MARIMO = "0.25.2"  # whose format it is
COLAB = "https://colab.research.google.com/assets/colab-badge.svg"


@dataclass
class Cell:
    """A cell, and what it said when it was run: text, a table in HTML, or a picture in SVG."""

    code: bool
    source: str
    said: dict[str, str] = field(default_factory=dict)


def cells(source: str) -> list[Cell]:
    """The cells of a file in the percent format."""
    _, *parts = CELL.split(source)
    found = [Cell(not kind, text.strip()) for kind, text in zip(parts[::2], parts[1::2], strict=True)]
    for cell in found:
        if not cell.code:
            cell.source = re.sub(r"^# ?", "", cell.source, flags=re.M)
    return found


def run(found: list[Cell]) -> None:
    """Runs the cells in one namespace, in a folder that is left behind, and keeps what they say."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in found:
                if cell.code:
                    cell.said = _said(cell.source, names)
        finally:
            os.chdir(before)


def _said(source: str, names: dict[str, Any]) -> dict[str, str]:
    """What a cell prints, then the value of its last line, as a notebook has it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    said = _shown(value)
    if printed.getvalue():
        said["text/plain"] = printed.getvalue().rstrip() + ("\n" + said["text/plain"] if "text/plain" in said else "")
    return said


def _shown(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if type(value).__module__.startswith("altair"):
        import vl_convert

        return {"image/svg+xml": vl_convert.vegalite_to_svg(value.to_json())}
    text = value.to_html(border=0).replace(' class="dataframe"', "") if type(value).__name__ == "DataFrame" else ""
    return ({"text/html": text} if text else {}) | {"text/plain": repr(value)}


def as_page(name: str, found: list[Cell], address: str | None) -> dict[Path, str]:
    """The page with its pictures beside it."""
    files, parts = {}, []
    for number, cell in enumerate(found):
        parts.append(f"```python\n{cell.source}\n```" if cell.code else cell.source)
        if svg := cell.said.get("image/svg+xml"):
            picture = SOURCES / "pictures" / f"{name}-{number}.svg"
            files[picture] = svg
            parts.append(f"![What the cell draws](pictures/{picture.name})")
        elif html := cell.said.get("text/html"):
            parts.append(re.sub(r"\n\s*", "", html))
        elif text := cell.said.get("text/plain"):
            parts.append(f"```text\n{text}\n```")
    links = f"[Jupyter notebook]({name}.ipynb){{ download }} · [marimo notebook](marimo/{name}.py){{ download }}"
    parts.insert(1, links + colab(name, address))
    return files | {SOURCES / f"{name}.md": "\n\n".join(parts) + "\n"}


def colab(name: str, address: str | None) -> str:
    """The button that opens the notebook in Colab; there is none before the repository has an address."""
    if address is None:
        return ""
    place = address.removeprefix("https://github.com/").rstrip("/")
    opened = f"https://colab.research.google.com/github/{place}/blob/main/docs/notebooks/{name}.ipynb"
    return f" · [![Open in Colab]({COLAB})]({opened})"


def as_jupyter(found: list[Cell]) -> str:
    """A notebook of format 4.5, with what the cells said."""
    written = [_jupyter(0, Cell(True, f"# {INSTALL}  # once, where whence is not there yet"), None)]
    count = 0
    for number, cell in enumerate(found, 1):
        count += cell.code
        written.append(_jupyter(number, cell, count if cell.code else None))
    meta = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    book = {"cells": written, "metadata": meta, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _jupyter(number: int, cell: Cell, count: int | None) -> dict[str, Any]:
    written = {"id": f"cell-{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)}
    if not cell.code:
        return written | {"cell_type": "markdown"}
    data = {kind: text.splitlines(keepends=True) for kind, text in cell.said.items()}
    said = [{"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}] if data else []
    return written | {"cell_type": "code", "execution_count": count, "outputs": said}


def as_marimo(found: list[Cell]) -> str:
    """A notebook of marimo, whose cells are functions of the names they use that give back those they make."""
    code = [ast.parse(cell.source) for cell in found if cell.code]
    makers = [_made(tree) for tree in code]
    everything = set().union(*makers)
    head = f'import marimo\n\n__generated_with = "{MARIMO}"\napp = marimo.App()'
    parts = [head, "@app.cell\ndef _():\n    import marimo as mo\n\n    return (mo,)"]
    trees = iter(zip(code, makers, strict=True))
    for cell in found:
        if not cell.code:
            text = cell.source.replace('"""', "'''")
            parts.append(f'@app.cell\ndef _(mo):\n    mo.md(r"""\n{_indented(text)}\n    """)\n    return')
            continue
        tree, made = next(trees)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & everything - made
        back = f"return ({', '.join(sorted(made))},)" if made else "return"
        parts.append(f"@app.cell\ndef _({', '.join(sorted(used))}):\n{_indented(cell.source)}\n    {back}")
    return "\n\n\n".join([*parts, 'if __name__ == "__main__":\n    app.run()']) + "\n"


def _made(tree: ast.Module) -> set[str]:
    """The names that a cell defines for others."""
    made: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            made.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            made |= {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.Assign):
            names = (node for target in statement.targets for node in ast.walk(target))
            made |= {node.id for node in names if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return made


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


def repository() -> str | None:
    """The address in mkdocs.yml, once there is one."""
    found = re.search(r"^repo_url: *(\S+)", (HERE.parent / "mkdocs.yml").read_text(), re.M)
    return found[1] if found else None


def main(names: list[str]) -> None:
    for name in names or NAMES:
        found = cells((SOURCES / f"{name}.py").read_text())
        run(found)
        files = as_page(name, found, repository())
        files |= {SOURCES / f"{name}.ipynb": as_jupyter(found), SOURCES / "marimo" / f"{name}.py": as_marimo(found)}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{name}: {', '.join(str(path.relative_to(HERE)) for path in files)}")


if __name__ == "__main__":
    main(sys.argv[1:])
