"""The project's own files, listed and parsed, for the tests that look at them."""

from __future__ import annotations

import ast
import functools
import io
import os
import subprocess
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests import machine

ROOT = machine.ROOT
PACKAGE = ROOT / "src" / "toolstead"
TESTS = ROOT / "tests"


@functools.cache
def own_files() -> tuple[Path, ...]:
    """Every file that is tracked, or would be: new ones count, ignored ones do not."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:  # an unpacked archive: nothing is tracked, so an empty repository lists the same
        with tempfile.TemporaryDirectory() as empty:
            _git("init", "-q", empty)
            listed = _git(
                f"--git-dir={empty}/.git", f"--work-tree={ROOT}", "ls-files", "-z", "-o", "--exclude-standard"
            )
    assert listed, "git lists no file"
    paths = (ROOT / name for name in sorted(set(listed.split("\0"))) if name)
    return tuple(path for path in paths if path.is_file())


def source_files() -> list[Path]:
    """The modules under src; what npm installs for the console is not ours."""
    found: list[Path] = []
    for place, folders, names in os.walk(PACKAGE):
        folders[:] = [name for name in folders if name != "node_modules"]
        found += [Path(place, name) for name in names if name.endswith(".py")]
    return sorted(found)


def files_of_tests() -> list[Path]:
    """The Python files under tests."""
    return sorted(TESTS.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """A file's comments with their lines; what only looks like one inside a string is left out."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def module_name(path: Path) -> str:
    """`toolstead.tools.registry` for its file."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shown(path: Path, line: int | None = None) -> str:
    """A place in the words of a compiler: `src/toolstead/errors.py:12`."""
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    return place if line is None else f"{place}:{line}"


def dotted(node: ast.AST) -> str:
    """`os.environ` for the expression that says so; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = dotted(value)
            return f"{before}.{attribute}" if before else ""
        case _:
            return ""


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name means in a file: `import os as o` gives `o` → `os`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name] = f"{module}.{alias.name}"
            case _:
                pass
    return names


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every dotted name that a file uses or imports, in full: `os.environ`, however it was imported."""
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif (spelled := dotted(node)) and isinstance(node, ast.Name | ast.Attribute):
            first, dot, rest = spelled.partition(".")
            yield node.lineno, names.get(first, first) + dot + rest


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else None
