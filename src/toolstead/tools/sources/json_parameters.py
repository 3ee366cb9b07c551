"""Parameters that an author declares for a new tool file: `limit:integer=20`, and what they make of its draft."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolstead.errors import ToolsteadError
from toolstead.nearest_names import suggest

_DECLARED = re.compile(r"(?P<name>[^:=?]+)(?P<optional>\?)?:(?P<kind>\w+)(?:=(?P<default>.*))?", re.DOTALL)
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "string": ("example", "text"),
    "integer": (1, "20"),
    "number": (1.5, "0.5"),
    "boolean": (True, "true"),
    "array": (["example"], '["a", "b"]'),
}
"""Type of JSON Schema → a value for the example, and how a default is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredParameter:
    """A parameter as its author declares it.

    Attributes:
        name: Its name.
        kind: Its type in JSON Schema.
        is_optional: Whether a call may leave it out.
        defaults: The default, or nothing.
    """

    name: str
    kind: str
    is_optional: bool
    defaults: tuple[Any, ...] = ()

    def make_schema(self, guessed: Mapping[str, Any]) -> dict[str, Any]:
        """Its schema: of what was guessed, the description stays, and limits where the type is the same."""
        kept = dict(guessed) if guessed.get("type") == self.kind else {"description": guessed["description"]}
        kept.pop("default", None)
        items = {"items": {"type": "string"}} if self.kind == "array" else {}
        default = {"default": self.defaults[0]} if self.defaults else {}
        return {"type": self.kind, **{key: kept[key] for key in kept if key != "type"}, **items, **default}

    @property
    def example(self) -> Any:
        """A value for the example."""
        return _KINDS[self.kind][0]


def read_parameters(texts: Sequence[str]) -> dict[str, DeclaredParameter]:
    """What is declared, by name.

    Raises:
        ToolsteadError: One cannot be understood, or is declared twice.
    """
    found: dict[str, DeclaredParameter] = {}
    for text in texts:
        declared = _read_parameter(text)
        if declared.name in found:
            raise ToolsteadError(f"--param {text}: {declared.name} is declared twice")
        found[declared.name] = declared
    return found


def read_headers(texts: Sequence[str]) -> dict[str, str]:
    """Headers from `NAME: VALUE`.

    Raises:
        ToolsteadError: One has no name or no value, or is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition(":"))
        if not name or not value:
            raise ToolsteadError(f"--header {text!r}: a header looks like 'Authorization: Bearer ${{TOKEN}}'")
        if name.lower() in map(str.lower, found):
            raise ToolsteadError(f"--header {text!r}: {name} is given twice")
        found[name] = value
    return found


def _read_parameter(text: str) -> DeclaredParameter:
    read = _DECLARED.fullmatch(text)
    if read is None:
        raise ToolsteadError(
            f"--param {text!r}: a parameter looks like name:type or name:type=default; name?:type may be left out"
        )
    name, kind, default = read["name"].strip(), read["kind"], read["default"]
    if kind not in _KINDS:
        hint = suggest(kind, _KINDS, otherwise=f"there are {', '.join(_KINDS)}")
        raise ToolsteadError(f"--param {text!r}: there is no type {kind!r}; {hint}")
    defaults = () if default is None else (_read_default(text, name, kind, default),)
    return DeclaredParameter(name=name, kind=kind, is_optional=bool(read["optional"] or defaults), defaults=defaults)


def _read_default(text: str, name: str, kind: str, default: str) -> Any:
    if kind == "string":
        return default
    try:
        value: Any = json.loads(default)
    except (ValueError, RecursionError):
        value = None
    types = {"integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,)}
    if type(value) not in types[kind]:
        shown = _KINDS[kind][1]
        raise ToolsteadError(f"--param {text!r}: {default!r} is no {kind}; write it as in {name}:{kind}={shown}")
    return value
