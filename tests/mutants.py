"""Do the tests notice a fault? Faults put one at a time into a copy of the sources: `make mutants`.

A mutant is one changed operator, constant or condition. It is caught when a test that calls the changed function fails.
The same seed and the same sources give the same mutants, so that two states of the tests can be compared.
Whether a new test catches a survivor: `python -m tests.mutants --only store.py:203 --tests tests/corpus/test_store.py`.
"""

import argparse
import ast
import contextlib
import importlib
import math
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("measures", "corpus")
TESTS = ["tests/measures", "tests/corpus", "tests/sentence", "tests/identity/test_identify.py"]
LIBRARIES = {"transformers", "xarray", "pandas", "pyarrow", "scipy", "tokenizers", "torch", "numpy"}
ARGUMENTS = ["-q", "-x", "--tb=line", "-p", "no:cacheprovider", "-m", "not slow and not whole"]
ARGUMENTS += ["--ignore=tests/corpus/engines", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # already imported
SECONDS = 20  # of tests for each mutant
LIMIT = 600  # seconds for the tests of one mutant; longer means that it hangs, which nobody overlooks
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[str, str, str]]:
    """The function, the words and the whole text of every mutant of a module."""
    for place in range(len(list(_candidates(ast.parse(source))))):
        tree = ast.parse(source)
        function, node = list(_candidates(tree))[place]
        before = ast.unparse(node)
        _change(node)
        yield function, f"{node.lineno}: {before} -> {ast.unparse(node)}", ast.unparse(tree)


def _candidates(node: ast.AST, within: str = "", function: bool = False) -> Iterator[tuple[str, ast.AST]]:
    """What can be changed and the function it is in; not annotations, which have no effect."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not function:
        within, function = f"{within}.{node.name}".lstrip("."), isinstance(node, ast.FunctionDef)
    if _changeable(node):
        yield within if function else "", node
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _candidates(child, within, function)


def _changeable(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[kind]) | ast.BoolOp(op=kind) | ast.BinOp(op=kind):
            return type(kind) in SWAPS
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Constant(value=value):
            return type(value) in {int, float, bool}
    return False


def _change(node: ast.AST) -> None:
    match node:
        case ast.Compare():
            node.ops = [SWAPS[type(node.ops[0])]()]
        case ast.BoolOp() | ast.BinOp():
            node.op = SWAPS[type(node.op)]()
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand, lineno=node.lineno)
        case ast.Constant():
            node.value = not node.value if isinstance(node.value, bool) else node.value + 1


def chosen(sources: Path, count: int, seed: int) -> list[tuple[str, str, str, str]]:
    folder = sources / "whence"
    modules = [path for package in PACKAGES for path in sorted((folder / package).rglob("*.py"))]
    modules = [path for path in modules if path.parent.name != "engines"]
    every = [(str(path.relative_to(folder)), *mutant) for path in modules for mutant in mutants(path.read_text())]
    return random.Random(seed).sample(every, min(count, len(every)))


class Recorder:
    """A pytest plugin that notes which functions of the sources each test calls, and how long the test takes."""

    def __init__(self, sources: Path, report: Path):
        self.start, self.report, self.calls = f"{sources}/whence/", report, {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        called, begun = set(), time.monotonic()
        note = lambda frame, *_: called.add(frame.f_code)  # noqa: E731  returns None: no tracing inside the function
        sys.settrace(note)
        threading.settrace(note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            own = {(code.co_filename.removeprefix(self.start), code.co_qualname.partition(".<")[0])
                   for code in list(called) if code.co_filename.startswith(self.start)}  # fmt: skip
            self.calls[item.nodeid] = time.monotonic() - begun, own

    def pytest_sessionfinish(self):
        self.report.write_bytes(pickle.dumps((self.calls, sorted(sys.modules))))


def tests_of(calls: dict, module: str, function: str) -> list[str]:
    """Tests that call the function (outside functions: anything of the module): the module's own first, then quick and
    different ones."""
    own_file = f"/test_{Path(module).stem}.py"
    able = sorted((seconds, test) for test, (seconds, own) in calls.items()
                  if any(path == module and function in {name, ""} for path, name in tuple(own)))  # fmt: skip
    turns: Counter = Counter()
    ranked = []
    for seconds, test in able:
        turns[kind := test.partition("[")[0]] += 1
        ranked.append((own_file not in test, turns[kind], seconds, test))
    ranked.sort()
    until = list(accumulate(seconds for *_, seconds, _ in ranked))
    return [test for (*_, test), sum_of_seconds in zip(ranked, until, strict=True) if sum_of_seconds < SECONDS]


def passes(sources: Path, tests: list[str], output: Path, *plugins, limit: float = LIMIT) -> bool:
    """Whether the tests pass, in a process of their own that has the big libraries already."""
    child = os.fork()
    if not child:
        _run(sources, tests, output, plugins)
    until = time.monotonic() + limit
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1] == 0
        time.sleep(0.05)
    return ended[1] == 0


def _run(sources: Path, tests: list[str], output: Path, plugins: tuple) -> None:
    code = 1
    try:
        os.setsid()
        for stream in (1, 2):
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        os.environ["PYTHONPATH"] = str(sources)
        sys.path.insert(0, str(sources))
        code = int(pytest.main([*tests, *ARGUMENTS], plugins=list(plugins)))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)  # not the parent's way out, which would remove the copy


def recorded(sources: Path, folder: Path, tests: list[str]) -> dict:
    """Who calls what; the parent then imports the libraries that the tests needed, once for all mutants."""
    if not passes(sources, tests, folder / "output", Recorder(sources, folder / "calls"), limit=math.inf):
        sys.exit(f"The tests fail without a mutant; mend them first:\n{(folder / 'output').read_text()[-2000:]}")
    calls, modules = pickle.loads((folder / "calls").read_bytes())
    for name in modules:
        if name.partition(".")[0] in LIBRARIES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    sys.dont_write_bytecode = True  # what is cached by now is sound
    return calls


def caught(sources: Path, calls: dict, mutant: tuple[str, str, str, str], output: Path) -> bool:
    path, function, words, text = mutant
    module, tests, started = sources / "whence" / path, tests_of(calls, path, function), time.monotonic()
    sound = module.read_text()
    for cached in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
        cached.unlink()
    module.write_text(text)
    survived = not tests or passes(sources, tests, output)
    module.write_text(sound)
    took = f"{time.monotonic() - started:.0f} s, {len(tests)} tests"
    print("SURVIVED" if survived else "caught", f"{path}:{words} ({took})", flush=True)
    return not survived


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", nargs="*", default=[""], help="only mutants of these lines, such as simplex.py:183")
    options.add_argument("--tests", nargs="*", default=TESTS)
    arguments = options.parse_args()
    os.chdir(ROOT)
    os.environ["HF_HUB_OFFLINE"] = "1"
    importlib.import_module("torch")
    with tempfile.TemporaryDirectory() as folder:
        sources, output = Path(folder, "src"), Path(folder, "output")
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        calls, made = recorded(sources, Path(folder), arguments.tests), chosen(sources, arguments.count, arguments.seed)
        made = [mutant for mutant in made if any(f"{only}:" in f"{mutant[0]}:{mutant[2]}:" for only in arguments.only)]
        count = sum(caught(sources, calls, mutant, output) for mutant in made)
    print(f"{count} of {len(made)} mutants caught, {len(made) - count} survived; {len(calls)} tests")


if __name__ == "__main__":
    main()
