"""Tool files with one mistake each, as people make them, and what is said about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.flows.tool_files import content


def base(name: str, **changes: Any) -> str:
    """A good file with one tool, written as a person would."""
    properties = {"pattern": {"type": "string", "default": "TODO"}, "limit": {"type": "integer", "default": 5}}
    given = {
        "name": name,
        "description": "Find a pattern.",
        "inputSchema": {"type": "object", "properties": properties},
        "handler": {"type": "shell", "command": "grep -m {{limit}} {{pattern}} src/app.py", "timeout": 5000},
        "examples": [{"input": {"pattern": "x"}}],
    }
    return content({**given, **changes}, name=f"file of {name}")


class Mistake(NamedTuple):
    """One mistake: what was typed instead, where it is reported, and what the report says."""

    name: str
    typed: Callable[[str], str | bytes]
    where: tuple[int, int]
    message: str
    tool: str | None = "own"

    @property
    def file(self) -> bytes:
        """What was saved."""
        typed = self.typed(base(self.name))
        return typed if isinstance(typed, bytes) else typed.encode()


def instead(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


MISTAKES = [
    Mistake("comma", instead("5000\n", "5000,\n"), (23, 24), "not valid JSON: remove this comma", None),
    Mistake("cut", lambda text: text[:200], (10, 21), "not valid JSON: the file ends in the middle; close what", None),
    Mistake("quotes", instead('"name"', "'name'"), (2, 3), "not valid JSON: texts and names stand in double", None),
    Mistake("key", instead('"inputSchema"', '"input_schema"'), (7, 7), 'not allowed here; did you mean "inputSchema"?'),
    Mistake("type", instead("5000", '"5s"'), (23, 20), 'handler.timeout: expected integer, got string "5s" (milli'),
    Mistake(
        "missing", instead('"description": "Find a pattern.",', ""), (4, 5), '"description" is missing (what it do'
    ),
    Mistake(
        "name", instead('"name": "name"', '"name": "a name"'), (5, 15), "only letters, digits, _ and - are", "a name"
    ),
    Mistake(
        "holder", instead('"holder"', '"git-status"'), (5, 15), "the name is already held by builtin", "git-status"
    ),
    Mistake("across", instead('"across"', '"good-a"'), (5, 15), "the name is already held by plugin good (", "good-a"),
    Mistake("placeholder", instead("{{pattern}}", "{{patern}}"), (22, 20), "is no property of the inputSchema; did"),
    Mistake("program", instead("grep", "{{pattern}}"), (22, 20), "would run as code: it would choose the program"),
    Mistake("shift", instead(',\n            "default": 5', ""), (21, 20), "give 'limit' a \"default\", or name it in"),
    Mistake("schema", instead('"integer"', '"int"'), (15, 21), '"int" is no JSON type; one of string, number, intege'),
    Mistake("example", instead('"x"', "-1"), (28, 24), "examples.0.input.pattern: expected string, got number -1"),
    Mistake("handler", instead('"shell"', '"bash"'), (21, 17), 'expected one of ["shell", "http", "file-read"], got'),
    Mistake(
        "redirect", instead("src/app.py", "< src/app.py"), (22, 20), 'is not supported: give the text with "stdin"'
    ),
    Mistake("latin", lambda text: text.replace("Find", "Für").encode("latin-1"), (6, 24), "not UTF-8: byte 0xfc", None),
    Mistake(
        "deep",
        instead('"x"', "[" * 300 + '"x"' + "]" * 300),
        (28, 146),
        "nested deeper than 128 levels here",
        None,
    ),
]

SHAPES = {"key", "type", "missing", "name", "handler"}
"""The mistakes that a JSON Schema of the format can see."""
