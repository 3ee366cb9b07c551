"""Every regular expression of the package, found in its syntax trees, and how each one is used."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.architecture.sources import PACKAGE, dotted, imported_names, module_name, parsed, shown, source_files

_ONCE = {"match": "match", "fullmatch": "fullmatch", "search": "search"}
_OVER_AND_OVER = dict.fromkeys(("finditer", "findall", "sub", "subn", "split"), "finditer")
METHODS = _ONCE | _OVER_AND_OVER
"""How a method reads a text: at its beginning, whole, looking for one place, or for all of them."""
UNKNOWN = frozenset({"fullmatch", "finditer"})
"""The most costly ways to use an expression, for one that is handed on as a value."""
_FLAGS_AT = {
    "compile": 1,
    "match": 2,
    "fullmatch": 2,
    "search": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
    "subn": 4,
}
_FUNCTIONS = frozenset({*METHODS, "compile"})
_CALL = re.compile(rf"\bre\.(?:{'|'.join(_FUNCTIONS)})\(")


@dataclass(frozen=True, kw_only=True)
class Expression:
    """A regular expression as it is written, and the ways in which its text is read."""

    place: str
    pattern: str | bytes
    flags: int
    ways: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class MadeFromData:
    """An expression that is known only when the program runs: the module, and how it is written there."""

    module: str
    written: str


@functools.cache
def find_expressions() -> tuple[Expression | MadeFromData, ...]:
    """Every call of a function of `re` that takes an expression."""
    return tuple(found for path in source_files() for found in _in_file(path))


def count_calls() -> int:
    """The same calls, counted in the text: whoever finds another number in the trees has skipped one."""
    return sum(len(_CALL.findall(path.read_text("utf-8"))) for path in source_files())


def _in_file(path: Path) -> Iterator[Expression | MadeFromData]:
    tree = parsed(path)
    names = _imported(path)
    constants = {id(value): name for name, value in _assignments(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, _, rest = dotted(node.func).partition(".")
        module, _, function = (names.get(first, first) + "." + rest).rstrip(".").rpartition(".")
        if module != "re" or function not in _FUNCTIONS:
            continue
        try:
            pattern, flags = _evaluate(path, node.args[0]), int(_evaluate(path, _flags(node, function)))
        except NameError:
            yield MadeFromData(module=module_name(path), written=ast.unparse(node.args[0]))
            continue
        if function in METHODS:
            ways = frozenset({METHODS[function]})
        else:
            ways = _ways(path, constants[id(node)]) if id(node) in constants else UNKNOWN
        yield Expression(place=shown(path, node.lineno), pattern=pattern, flags=flags, ways=ways)


@functools.cache
def _imported(path: Path) -> dict[str, str]:
    return imported_names(parsed(path))


def _flags(node: ast.Call, function: str) -> ast.expr:
    given = [word.value for word in node.keywords if word.arg == "flags"] + node.args[_FLAGS_AT[function] :]
    return given[0] if given else ast.Constant(0, lineno=1, col_offset=0)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """A module's own constants."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


class _Constants(dict[str, Any]):
    """The names of a module, each evaluated when it is asked for; what is no constant is a NameError."""

    def __init__(self, path: Path) -> None:
        super().__init__(re=re)
        self._path = path
        self._own = dict(_assignments(parsed(path)))
        self._imported = _imported(path)

    def __missing__(self, name: str) -> Any:
        if name in self._own:
            return _evaluate(self._path, self._own[name])
        module, _, imported = self._imported.get(name, "").rpartition(".")
        other = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if module.startswith("toolstead.") and other.is_file():
            return _constants(other)[imported]
        raise KeyError(name)


@functools.cache
def _constants(path: Path) -> _Constants:
    return _Constants(path)


def _evaluate(path: Path, expression: ast.expr) -> Any:
    return eval(compile(ast.Expression(expression), str(path), "eval"), _constants(path))


def _ways(path: Path, name: str) -> frozenset[str]:
    """How a constant of a module is used, in this module and in those that import it."""
    full = f"{module_name(path)}.{name}"
    ways: set[str] = set()
    for other in source_files():
        local = {alias for alias, meaning in _imported(other).items() if meaning == full}
        if other == path:
            local.add(name)
        if local:
            ways |= _ways_in(parsed(other), local)
    return frozenset(ways)


def _ways_in(tree: ast.Module, names: set[str]) -> set[str]:
    ways: set[str] = set()
    understood: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name) as used, attr=method) if name in names:
                ways |= {METHODS[method]} if method in METHODS else set(UNKNOWN)
                understood.add(used)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Name(id=name) as used, *_]
            ):
                if name in names and method in METHODS:
                    ways.add(METHODS[method])
                    understood.add(used)
            case ast.Name(id=name, ctx=ast.Load()) if name in names and node not in understood:
                ways |= UNKNOWN
            case _:
                pass
    return ways
