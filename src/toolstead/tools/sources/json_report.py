"""What is wrong in one JSON tool file: each problem with its line, column, tool and field.

Positions and texts are made only for what is wrong, because nearly every file is right.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.errors import SchemaError
from toolstead.schema.compiled import MAX_DEPTH, MAX_SIZE, CompiledSchema
from toolstead.schema.explanation import SchemaFinding, preview_value, shorten_text
from toolstead.schema.visible import escape_unseen, find_hidden
from toolstead.tools.sources.json_files import LARGEST_FILE
from toolstead.tools.sources.json_text import (
    SHAPE,
    Outline,
    Position,
    explain_syntax,
    find_first_deeper,
    find_repeated_names,
)
from toolstead.types.tool import Problem

DEEPEST = 2 * MAX_DEPTH
MOST_PROBLEMS = 50
MOST_NAMES = 50_000
LONGEST_MESSAGE = 2_000
_NO_OUTLINE = bytes(set(range(256)) - set(b'{}[]"'))
_DANGLING = re.compile(r"Pointer '([^']*)' does not exist")
_OUTSIDE = re.compile(r"refers to (\S+), and ")
_MISSING = re.compile(r'"([^"]+)" is missing')

Place = tuple[str | int, ...]
"""Property names and indexes from the file's root."""


class FileReport:
    """Collects the problems of one file.

    Attributes:
        path: The file.
        count: How many problems were found so far.
        tool: The name of the tool that is being read, where it has one.
        is_flat: Whether every schema in it is surely within the bounds of size and depth.
        is_plain: Whether every schema in it is plain, so that compiling them can wait.
        skipped: The indexes of tools to leave out, such as for a duplicate name inside them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.tool: str | None = None
        self.is_flat = False
        self.is_plain = False
        self.skipped: set[int] = set()
        self._data = b""
        self._problems: list[Problem] = []
        self._is_usable = True

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first problems; the last one says how many more there are."""
        more = self.count - len(self._problems)
        if not more:
            return tuple(self._problems)
        last = Problem(source=str(self.path), message=f"{more:,} more problems; fix these first", line=1, column=1)
        return (*self._problems, last)

    def parse(self, data: bytes) -> dict[str, Any] | None:
        """The file's content, or None with a problem that says where it stops being a tool file."""
        if len(data) > LARGEST_FILE:
            self._report_problem(
                Position(1, 1), f"the file is larger than {LARGEST_FILE:,} bytes; split it into several"
            )
            return None
        self._data = data
        try:
            content = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
            shortest = _without_escapes(msgspec.json.encode(content))
        except (ValueError, RecursionError) as error:  # also what is no UTF-8
            if not self._is_too_deep(data.decode("utf-8-sig", "replace")):
                self._report_problem(*explain_syntax(data, str(error)))
            return None
        if (
            names := shortest.count(b'":')
        ) > MOST_NAMES:  # written without blanks and escapes, so no text has these two
            self._report_problem(
                Position(1, 1), f"the file has {names:,} names, at most {MOST_NAMES:,} are read; split it into several"
            )
            return None
        self.is_flat = len(data) <= MAX_SIZE and _is_flat(shortest)
        if not self.is_flat and self._is_too_deep(self._text):
            return None
        if not isinstance(content, dict):
            self._report_problem(
                self._outline.locate_value(()),
                f"a tool file is a JSON object such as {SHAPE}, not {preview_value(content)}",
            )
            return None
        # The content has only one of two duplicate names, so the text has more quotes.
        has_repeated = _without_escapes(data).count(b'"') != shortest.count(b'"')
        tools = cast("dict[str, Any]", content)
        return None if has_repeated and not self._skip_repeated(tools) else tools

    def check_value(self, schema: CompiledSchema, value: Any, at: Place, *, of_format: bool = False) -> bool:
        """Whether a value fits; what does not is reported with its place.

        Args:
            schema: What it must fit.
            value: The value.
            at: Where it stands.
            of_format: The schema is a piece of the format, whose texts say what each key is for.
        """
        found = schema.find_problems(value)
        for finding in found:
            place = (*at, *finding.path)
            reason = _with_purpose(schema.document, finding) if of_format else finding.reason
            if finding.key is not None:
                self.add((*place, finding.key), reason, key=True, field=place)
            else:
                self.add(place, reason)
        return not found

    def add_schema_error(self, error: SchemaError, schema: Any, at: Place) -> None:
        """Report what is wrong with a tool's schema, in the words of its author."""
        if dangling := _DANGLING.search(error.reason):
            reference, known = f"#{dangling[1]}", ", ".join(schema.get("$defs", {})) or "none"
            reason = f'"{reference}" leads nowhere; the names under "$defs" are: {known}'
        elif outside := _OUTSIDE.match(error.reason):
            reference, reason = outside[1], error.reason
        else:
            path = _path_in(schema, error.path)
            self.add((*at, *path), _for_authors(path, error.reason, schema))
            return
        self.add((*at, *_place_of_reference(schema, reference)), reason)

    def add(
        self, place: Place, reason: str, *, tool: str | None = None, key: bool = False, field: Place | None = None
    ) -> None:
        """Report a problem at a place of the file.

        Args:
            place: Where.
            reason: What is wrong, and what would be right.
            tool: The tool's name, where it is not the one being read.
            key: Point at the property's name, not at its value.
            field: What to name instead of the place.
        """
        if len(self._problems) >= MOST_PROBLEMS:
            self.count += 1
            return
        named = tool or self.tool
        shown = place if field is None else field
        if named is not None and shown[:1] == ("tools",):
            shown = shown[2:]
        where = ".".join(str(step) for step in shown)
        self._report_problem(
            self._outline.locate_value(place, key=key), f"{where}: {reason}" if where else reason, named
        )

    def find_position(self, place: Place) -> Position:
        """Where in the file a place is."""
        return self._outline.locate_value(place)

    def skip_hidden(self, content: dict[str, Any]) -> bool:
        """Report what a reader cannot see, and skip the tools that have it; False when the whole file is unusable."""
        for hidden in find_hidden(content, part="file"):
            name = escape_unseen(self._skip_tool(hidden.path, content) or "") or None
            self.add(hidden.path, hidden.reason, tool=name, key=hidden.is_key, field=hidden.shown_path)
        return self._is_usable

    def _skip_repeated(self, content: dict[str, Any]) -> bool:
        """Report duplicate names, and skip the tools that have them; False when the whole file is unusable."""
        for place, position in find_repeated_names(self._text):
            name = self._skip_tool(place, content)
            shown = ".".join(map(str, place if name is None else place[2:]))
            self._report_problem(position, f"{shown}: duplicate name; remove one of the two", name)
        return self._is_usable

    def _skip_tool(self, place: Place, content: dict[str, Any]) -> str | None:
        """Skip the tool around a place, and return its name; outside of all tools, the file is unusable."""
        match place:
            case "tools", int() as number, _, *_:
                self.skipped.add(number)
                tools = content["tools"]  # the last of two such lists, which may be shorter
                is_there = isinstance(tools, list) and number < len(cast("list[Any]", tools))
                tool: Any = cast("list[Any]", tools)[number] if is_there else None
                name: Any = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
                return name if isinstance(name, str) else None
            case _:
                self._is_usable = False
                return None

    def _is_too_deep(self, text: str) -> bool:
        deep = find_first_deeper(text, DEEPEST)
        if deep is not None:
            self._report_problem(deep, f"nested deeper than {DEEPEST} levels here")
        return deep is not None

    @cached_property
    def _text(self) -> str:
        return self._data.decode("utf-8-sig")

    @cached_property
    def _outline(self) -> Outline:
        return Outline(self._text)

    def _report_problem(self, position: Position, message: str, tool: str | None = None) -> None:
        self.count += 1
        if len(self._problems) < MOST_PROBLEMS:
            line, column = position
            # A message may quote a schema's data, which may have anything in it, and a lot of it.
            shown = escape_unseen(shorten_text(message, LONGEST_MESSAGE), "prose")
            problem = Problem(source=str(self.path), tool_name=tool, message=shown, line=line, column=column)
            self._problems.append(problem)


def _without_escapes(text: bytes) -> bytes:
    """A JSON text in which every quote that is left begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _is_flat(text: bytes) -> bool:
    """Whether a JSON text without escapes is nested less deeply than a schema may be, judged by its brackets.

    Such schemas need no private copy, which would take 0.48 s for 10,000 tools where this takes 0.02.
    """
    brackets = b"".join(text.translate(None, _NO_OUTLINE).split(b'"')[::2])
    for _ in range(MAX_DEPTH // 2):  # each round takes away one level, or two
        if not brackets:
            return True
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return not brackets


def _with_purpose(document: Any, finding: SchemaFinding) -> str:
    """A reason, with what the format says about the key in question."""
    missing = _MISSING.fullmatch(finding.reason)
    node = document
    for step in (*finding.path, missing[1]) if missing else finding.path:
        properties: Any = node.get("properties", {})
        node = properties.get(step, {}) if isinstance(step, str) else node.get("items", {})
    purpose: str = node.get("description", "") if finding.key is None else ""
    if finding.path[-1:] == ("name",) and finding.reason.startswith("expected text"):
        return f"only letters, digits, _ and - are allowed, such as list-todos, {finding.reason.rpartition(', ')[2]}"
    if finding.reason.startswith("expected at least 1 characters"):
        return f"it is empty; needed: {_lower_sentence(purpose)}"
    if not purpose or finding.reason.startswith("expected one of"):
        return finding.reason
    return f"{finding.reason} ({_lower_sentence(purpose)})"


def _lower_sentence(sentence: str) -> str:
    """A sentence of the format as it may stand inside another one."""
    text = sentence.removesuffix(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _path_in(schema: Any, path: Place) -> Place:
    """A path as it is in the schema: the compiler gives a name of digits as a number."""
    found: list[str | int] = []
    node = schema
    for given in path:
        step = str(given) if isinstance(node, dict) else given
        try:
            node = cast("Any", node)[step]
        except (LookupError, TypeError):  # such as 7 for a name 007
            break
        found.append(step)
    return tuple(found)


def _for_authors(path: Place, reason: str, schema: Any) -> str:
    """A schema's fault in the words of its author, for the most frequent mistakes."""
    value = schema
    for step in path:
        value = value[step]
    match path[-1:], value:
        case ("required",), bool():
            owner = path[-2] if len(path) > 1 else "name"
            return f'a list of names is needed, beside "properties": "required": ["{owner}"]'
        case ("required",), str():
            return f'a list of names is needed: ["{value}"]'
        case _, str() if path[-2:-1] == ("properties",):
            return f'a schema such as {{"type": "string"}} is needed, not {preview_value(value)}'
        case ("pattern",), str():
            return f"{preview_value(value)} is no regular expression"
        case _:
            return reason


def _place_of_reference(schema: Any, reference: str) -> Place:
    """Where a schema refers to something; the schema itself, where that is not found."""
    waiting: list[tuple[Place, Any]] = [((), schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            members = cast("dict[str, Any]", node)
            if members.get("$ref") == reference:
                return (*place, "$ref")
            waiting.extend(((*place, name), item) for name, item in members.items())
        elif isinstance(node, list):
            waiting.extend(((*place, number), item) for number, item in enumerate(cast("list[Any]", node)))
    return ()
