"""What README and docs tell one to run, runs: every block of Python and every command, from the top of a page down.

In place of models from the Hub and of corpora stand those of `tests/documented.py`, which also names the commands that
are not run. A block is left out only where `<!-- not run: the reason -->` stands before it.
"""

import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest

import whence
from tests import documented
from tests.documented import FILES, FILES_OF, MODELS, NAMES, NAMES_OF, NOT_RUN, SAMPLES, TINY, WRITTEN
from whence import cli
from whence.plot.palette import THEMES

ROOT = Path(__file__).parents[1]
APART = ("docs/notebooks/", "docs/studies/results/")  # tests/test_notebooks.py; figures, without anything to run
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<kind>python|pycon|sh|console|text)\n(?P<code>.*?)^```"
    r"(?:\n\n```text\n(?P<quoted>.*?)^```)?",
    re.M | re.S,
)
NUMBER = r"[−-]?\d+(?:\.\d+)?"


def blocks(page):
    return [block for block in BLOCK.finditer(page.read_text()) if block["kind"] != "text" or "$ " in block["code"]]


# a real decoder is read from GGUF, or probes are fitted many times: `make whole`
STUDIES = ("lost", "referee", "token-identifiability", "lens", "attribution", "attention-identifiability", "correlates")
LONG = ("docs/hour.md", "docs/howto/context.md", *(f"docs/studies/{name}.md" for name in STUDIES))
PAGES = [
    pytest.param(page, id=name, marks=pytest.mark.whole if name in LONG else ())
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if not (name := str(page.relative_to(ROOT))).startswith(APART) and blocks(page)
]


def run_python(block, page, names, capsys):
    line = page.read_text()[: block.start("code")].count("\n")
    exec(compile("\n" * line + block["code"], str(page), "exec"), names)


def run_pycon(block, page, names, capsys):
    said, line = [], page.read_text()[: block.start("code")].count("\n")
    test = doctest.DocTestParser().get_doctest(block["code"], names, page.name, str(page), line)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert not said, "".join(said)


def run_commands(block, page, names, capsys):
    printed = ""
    for command, quoted in commands(block["code"]):
        out = run_command(command, capsys, bool(block["reason"]))
        assert_quoted(quoted, out)
        printed += out
    assert_quoted(block["quoted"] or "", printed)


def commands(code):
    """Each with what is quoted as its output: where commands have a `$`, the lines without one."""
    code = code.replace("\\\n", " ")
    if "$ " not in code:
        return [(line, "") for line in code.splitlines()]
    return [part.split("\n", 1) for part in re.split(r"^\$ ", code, flags=re.M) if part]


def run_command(command, capsys, only_parse):
    """What it prints."""
    words = shlex.split(command.partition(" | ")[0], comments=True)
    left_out = only_parse or any(" ".join(words).startswith(start) for start in NOT_RUN)
    if words[:1] != ["whence"]:
        assert left_out or not words, f"{words[0]} is neither whence nor in NOT_RUN"
        return ""
    if left_out:
        cli.app.parse_args(words[1:], exit_on_error=False, print_error=False)
        return ""
    if words[1] == "study":
        words = [word for word in words if word != "--quick"] + list(documented.SMALL)
    code, said = cli.run(words[1:]), capsys.readouterr()
    assert code == 0, f"{command}: {said.err}"
    return said.out


def assert_quoted(quoted, printed):
    """The words are those, wherever the lines break, and the numbers but for one in the last digit that is written."""
    quoted, printed = (" ".join(text.split()) for text in (quoted, printed))
    pattern = f"({NUMBER})".join(map(re.escape, re.split(NUMBER, quoted)))
    found = re.search(pattern, printed)
    assert found, f"quoted is\n{quoted}\nand printed was\n{printed}"
    for written, real in zip(re.findall(NUMBER, quoted), found.groups(), strict=True):
        digits = len(written.partition(".")[2])
        assert abs(value(written) - value(real)) < 1.5 * 10**-digits, f"{written} is quoted, and {real} was printed"


def value(number):
    return float(number.replace("−", "-"))


@pytest.fixture(scope="session")
def models(tmp_path_factory, builtin):
    return documented.Models(tmp_path_factory.mktemp("documented"), builtin.tokenizer)


@pytest.fixture(scope="session")
def tiny(models):
    return whence.load(models.written("encoder"))


@pytest.fixture
def hub(request, monkeypatch):
    """Loads the decoder that pages name from this machine; what takes long to load is loaded once."""
    page = getattr(request.node, "callspec", None) and request.node.callspec.id
    real, ready = whence.load, {"whence/builtin": "builtin", documented.SMOLLM2: "smollm2"}
    ready[None] = "tiny" if page and page.startswith(TINY) else "builtin"

    def load(model=None, *args, **options):
        known = ready.get(model) if isinstance(model, str | None) else None
        return request.getfixturevalue(known) if known else real(model, *args, **options)

    monkeypatch.setattr(importlib.import_module("whence.models.load"), "load", load)


def placed(file):
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    return Path(file)


@pytest.fixture
def here(request, tmp_path, monkeypatch, hub, models):
    """here(page): its files in a folder of its own, and the names that its Python takes for granted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("webbrowser.open", lambda address: None)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("whence.studies.frame.write._charts", lambda *given: dict.fromkeys(THEMES, ""))

    def prepare(page):
        name, text = str(page.relative_to(ROOT)), page.read_text()
        for file, ours in (FILES | FILES_OF.get(name, {})).items():
            placed(file).symlink_to(SAMPLES / ours)
        for file, content in WRITTEN.items():
            placed(file).write_bytes(content if isinstance(content, bytes) else content.encode())
        for file in ("cat.png", "photos/cat.jpg"):
            documented.picture(placed(file))
        for there, ours in MODELS.items():
            if there in text:
                placed(there.replace("*", "0")).symlink_to(
                    models.written(ours) if hasattr(models, ours) else request.getfixturevalue(ours)
                )
        code = "\n".join(block["code"] for block in blocks(page) if not block["reason"])
        known = NAMES | NAMES_OF.get(name, {})
        return {what: make(models) for what, make in known.items() if re.search(rf"\b{what}\b", code)}

    return prepare


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(page, here, capsys):
    names = here(page)
    runs = {"python": run_python, "pycon": run_pycon}
    for block in blocks(page):
        if not block["reason"] or block["kind"] not in runs:
            runs.get(block["kind"], run_commands)(block, page, names, capsys)


INLINE = re.compile(r"`whence ([a-z][^`]*)`")


def test_commands_in_running_text_are_there():
    """With every option that they name."""
    for page in PAGES:
        for command in INLINE.findall(page.values[0].read_text()):
            words = command.split()
            found, apps, _ = cli.app.parse_commands(words)
            assert found, f"{page.id}: whence {command}"
            options = {name for argument in apps[-1].assemble_argument_collection() for name in argument.names}
            assert {word for word in words if word.startswith("--")} <= options, f"{page.id}: whence {command}"
