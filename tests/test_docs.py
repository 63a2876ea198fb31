"""What the documentation tells one to run, runs: every block of Python and every whence command, page by page.

A block is left out only where `<!-- not run: the reason -->` stands before it.
"""

import ast
import copy
import doctest
import importlib
import inspect
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

import whence
from tests import tiny
from tests.families import build
from whence import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs/tutorial.md", ROOT / "docs/hour.md", *sorted((ROOT / "docs/howto").glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<kind>python|pycon|sh)\n(?P<code>.*?)^```", re.M | re.S
)
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"  # read from the Hub in the documentation, from a package here


def blocks(page):
    return [match for match in BLOCK.finditer(page.read_text()) if not match["reason"]]


def run_python(code, page, line, names):
    exec(compile("\n" * line + code, str(page), "exec"), names)


def run_pycon(code, page, line, names):
    said = []
    test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert not said, "".join(said)


def run_sh(code, page, line, names):
    for command in code.replace("\\\n", " ").splitlines():
        words = shlex.split(command, comments=True)
        if words[:1] == ["whence"]:
            assert cli.run(words[1:]) == 0, f"{page.name}: {command}"


@pytest.fixture
def hub(request, monkeypatch, loaded_once):
    """Loads the decoder that pages name from this machine."""
    real = whence.load

    def load(model=None, *args, **options):
        return real(request.getfixturevalue("smollm2_folder") if model == SMOLLM2 else model, *args, **options)

    monkeypatch.setattr(importlib.import_module("whence.models.load"), "load", load)


LONG = ("context", "checkpoints", "hour")  # a real decoder is read from GGUF, and runs are made: `make whole`


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.whole if page.stem in LONG else (), id=page.stem) for page in PAGES],
)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys, hub):
    monkeypatch.chdir(tmp_path)
    runs = {"python": run_python, "pycon": run_pycon, "sh": run_sh}
    names = {}
    for block in blocks(page):
        line = page.read_text()[: block.start("code")].count("\n")
        runs[block["kind"]](block["code"], page, line, names)
    assert blocks(page), f"{page} has nothing to run"


EVERY = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(python|pycon|sh|bash|console|text)\n(.*?)^```", re.M | re.S)
SHELL = {"sh", "bash", "console", "text"}


def fenced(page, *kinds):
    return [code for kind, code in FENCED.findall(page.read_text()) if kind in kinds]


def commands(page):
    """Every whence command of a page, in blocks and in running text; in text with a `$` only, as output is not one."""
    for code in fenced(page, *SHELL):
        for line in code.replace("\\\n", " ").splitlines():
            command = line.partition(" | ")[0].removeprefix("$ ")
            if command.startswith("whence ") and (line.startswith("$") or code in fenced(page, "sh", "bash")):
                yield shlex.split(command, comments=True)[1:]


def trees(page):
    for code in fenced(page, "python", "pycon"):
        examples = doctest.DocTestParser().get_examples(code)
        yield ast.parse("".join(example.source for example in examples) if examples else code)


def is_there(module, name):
    return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in EVERY])
def test_what_a_page_names_exists(page):
    """Commands are understood, with their options; what is imported or called is there, and takes those arguments."""
    for words in commands(page):
        cli.app.parse_args(words, exit_on_error=False, print_error=False)
    for tree in trees(page):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whence"):
                assert all(is_there(node.module, alias.name) for alias in node.names), ast.unparse(node)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "whence":
                assert hasattr(whence, node.attr), ast.unparse(node)
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("whence."):
                function = getattr(whence, ast.unparse(node.func).removeprefix("whence."), None)
                if inspect.isfunction(function):
                    inspect.signature(function).bind(*node.args, **{word.arg: None for word in node.keywords})


# pages whose blocks of Python run as they stand, with these names and files given
SNIPPETS = (
    *("README.md", "docs/start.md", "docs/sink.md"),
    *(f"docs/measures/{name}.md" for name in ("attention", "effective", "norms", "mixing", "rollout", "block")),
    *(f"docs/measures/{name}.md" for name in ("contribution", "flow", "identity")),
)
TEXT = "The keys to the cabinet [MASK] on the table."


@pytest.fixture
def given(builtin, tmp_path, monkeypatch, loaded_once):
    """A folder with a corpus, and names that pages take for granted; a model that they name is the built-in one."""
    monkeypatch.chdir(tmp_path)
    lines = "\n".join(f"The {word} is on the table. He saw the {word}." for word in tiny.WORDS)
    Path("corpus.txt").write_text(lines)
    Path("texts.txt").write_text(lines)
    pairs = "\n".join(f"1\t1\t2\tHe saw {word}.\t{word} was there." for word in tiny.WORDS)
    Path("dev.tsv").write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + pairs)
    real = whence.load

    def elsewhere(model=None, *args, **options):
        return real() if isinstance(model, str) else real(model, *args, **options)

    monkeypatch.setattr(importlib.import_module("whence.models.load"), "load", elsewhere)
    speaks = copy.deepcopy(builtin.tokenizer)
    speaks.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    decoder = real(build("gpt2", vocab_size=len(speaks)), speaks)
    chat = [{"role": "user", "content": "Why is the sky blue?"}]
    names = {"model": builtin, "text": TEXT, "whence": whence, "prompt": "The capital of France is", "chat": chat}
    names |= {"decoder": decoder, "answer": " Paris."}
    names |= {"my_model": builtin.model, "my_tokenizer": builtin.tokenizer}
    return names | {"language_model": "a name", "bridge": "a name"}


# what a page is about, where it is no short text in the built-in model
ABOUT = {"docs/sink.md": {"model": "decoder"}, "docs/measures/effective.md": {"text": TEXT * 6}}


@pytest.mark.parametrize("name", SNIPPETS)
def test_the_blocks_of_a_page_run(name, given):
    page = ROOT / name
    found = [block for block in blocks(page) if block["kind"] == "python"]
    assert found
    given |= {what: given.get(value, value) for what, value in ABOUT.get(name, {}).items()}
    for block in found:
        run_python(block["code"], page, page.read_text()[: block.start("code")].count("\n"), given)


def test_the_commands_of_the_readme_run(given):
    """All but the explorer, which does not end by itself; pip and make are what ran these tests."""
    found = [words for words in commands(ROOT / "README.md") if words[0] != "serve"]
    assert found and all(cli.run(words) == 0 for words in found)
