"""docs/promises.md and the tests: every promise has its proof, and every proof its promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT, dotted, files_of_tests, parsed, shown

PAGE = ROOT / "docs" / "promises.md"
ENTRY = re.compile(r"^[-*] \*\*(?P<id>[A-Z]+\d+)\*\*", re.MULTILINE)
NAMED = re.compile(r"`(?P<path>[\w./-]+\.py)::(?P<name>[\w:]+)`")


def _promised(text: str) -> dict[str, list[str]]:
    """Id → the tests it names, as `path::name`. An entry of the list reaches to the next one, or to a heading."""
    entries = list(ENTRY.finditer(text))
    ends = [entry.start() for entry in entries[1:]] + [len(text)]
    promised: dict[str, list[str]] = {}
    for entry, end in zip(entries, ends, strict=True):
        body = re.split(r"^#", text[entry.end() : end], maxsplit=1, flags=re.MULTILINE)[0]
        assert entry["id"] not in promised, f"{entry['id']} stands twice"
        promised[entry["id"]] = [f"{found['path']}::{found['name']}" for found in NAMED.finditer(body)]
    return promised


def _ids(decorators: list[ast.expr]) -> set[str]:
    """The ids in `@pytest.mark.promise("R1")` among decorators, or in a `pytestmark`."""
    return {
        argument.value
        for node in decorators
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and dotted(call.func) == "pytest.mark.promise"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _proofs(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Each test of a file as `name` or `Class::name`, with the ids it proves."""
    marks = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(dotted(target) == "pytestmark" for target in node.targets)
    ]
    of_module = _ids(marks)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            of_class = of_module | _ids(node.decorator_list)
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name.startswith("test"):
                    yield f"{node.name}::{inner.name}", of_class | _ids(inner.decorator_list)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node.name, of_module | _ids(node.decorator_list)


def _proven() -> dict[str, set[str]]:
    """`path::name` of every test → the ids it proves."""
    return {
        f"{shown(path)}::{name}": ids
        for path in files_of_tests()
        if path.name.startswith("test_")
        for name, ids in _proofs(parsed(path))
    }


def _problems(promised: dict[str, list[str]], proven: dict[str, set[str]]) -> list[str]:
    """What does not fit between page and tests."""
    problems = [f"{promise} names no test" for promise, named in promised.items() if not named]
    for promise, named in promised.items():
        for test in named:
            if test not in proven:
                problems.append(f"{promise} names {test}, which does not exist")
            elif promise not in proven[test]:
                problems.append(f"{promise} names {test}, which lacks @pytest.mark.promise({promise!r})")
    used = {promise: test for test, ids in proven.items() for promise in ids}
    problems += [
        f"{test} proves {promise}, which the page lacks" for promise, test in used.items() if promise not in promised
    ]
    return problems


def test_every_promise_has_its_proof_and_every_proof_its_promise() -> None:
    assert PAGE.is_file(), f"{shown(PAGE)} is missing"
    promised = _promised(PAGE.read_text(encoding="utf-8"))
    assert promised, "the page lists no promise"
    problems = _problems(promised, _proven())
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("- **R1** Kept. — tests: `tests/test_a.py::test_x`", None),
        ("- **R1** Kept, over\n  two lines. — tests:\n  `tests/test_a.py::test_x`\n", None),
        ("- **R1** Alone.", "R1 names no test"),
        ("- **R1** Gone. — tests: `tests/test_a.py::test_gone`", "does not exist"),
        ("- **R1** Unmarked. — tests: `tests/test_a.py::test_y`", "lacks @pytest.mark.promise('R1')"),
        ("- **R2** Other. — tests: `tests/test_a.py::test_x`", "proves R1, which the page lacks"),
    ],
)
def test_what_does_not_fit_is_found(page: str, problem: str | None) -> None:
    proven = {"tests/test_a.py::test_x": {"R1"}, "tests/test_a.py::test_y": set[str]()}
    problems = _problems(_promised(page), proven)
    assert problems == [] if problem is None else any(problem in found for found in problems)


def test_marks_are_read_from_functions_classes_and_modules() -> None:
    text = """
import pytest
pytestmark = [pytest.mark.promise("A1"), pytest.mark.requires("git")]
@pytest.mark.promise("A2", "A3")
async def test_x(): ...
@pytest.mark.promise("A4")
class TestY:
    def test_z(self): ...
"""
    assert dict(_proofs(ast.parse(text))) == {"test_x": {"A1", "A2", "A3"}, "TestY::test_z": {"A1", "A4"}}
