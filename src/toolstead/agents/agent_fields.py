"""Values of a frontmatter, read and checked by kind: texts, names, patterns, numbers, lists and schemas.

Each method gives the value, or None after it reported what is wrong. `agent_file` and `custom_tool` use them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from toolstead.agents.findings import FindingReport
from toolstead.agents.yaml_nodes import YamlNode
from toolstead.errors import SchemaError
from toolstead.nearest_names import suggest
from toolstead.schema.compiled import compile_input_schema, compile_schema
from toolstead.schema.explanation import preview_value, shorten_text
from toolstead.schema.visible import Kind, find_hidden, first_unseen
from toolstead.types.tool import JSONSchema

NAME = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 16_384
LONGEST_PATTERN = 256
MOST_ITEMS = 1_000
_PATTERN = re.compile(r"[a-zA-Z0-9_*?\[\]!-]+")
_LARGEST_NUMBER = 1e12


class FieldReader:
    """Reads values, and reports what is wrong with them."""

    def __init__(self, report: FindingReport) -> None:
        self.report = report

    def check_keys(self, node: YamlNode, known: Collection[str], what: str) -> None:
        """Refuse the keys of a mapping that it may not have, each with the nearest that it may."""
        for key in node.members or ():
            if key not in known:
                hint = suggest(key, known, show=_quote, otherwise=f"there are: {', '.join(known)}")
                self.report.add_error(node.keys[key], f"{_quote(key)} is no key of {what}; {hint}")

    def read_text(self, node: YamlNode, field: str, *, kind: Kind = "value") -> str | None:
        """A text, all of it visible."""
        value = node.value
        if not isinstance(value, str):
            self._refuse(node, field, "text is needed")
            return None
        if (reason := first_unseen(value, kind)) is not None:
            self.report.add_error(node.start, f"{field}: {reason}")
            return None
        return value

    def read_filled_text(self, node: YamlNode, field: str, *, kind: Kind = "value") -> str | None:
        """A text that is not empty."""
        text = self.read_text(node, field, kind=kind)
        if text is not None and not text.strip():
            self.report.add_error(node.start, f"{field}: it is empty; write it, or remove the key")
            return None
        return text

    def read_description(self, node: YamlNode, field: str) -> str | None:
        """Prose for people and models; it may be empty."""
        text = self.read_text(node, field, kind="prose")
        if text is not None and len(text) > LONGEST_DESCRIPTION:
            self.report.add_error(
                node.start, f"{field}: {len(text):,} characters; at most {LONGEST_DESCRIPTION:,}: move text to the body"
            )
            return None
        return text

    def read_name(self, node: YamlNode, field: str) -> str | None:
        """A name of an agent or a tool."""
        name = self.read_text(node, field, kind="name")
        if name is None:
            return None
        if (problem := find_name_problem(name)) is not None:
            self.report.add_error(node.start, f"{field}: {problem}")
            return None
        return name

    def read_flag(self, node: YamlNode, field: str) -> bool | None:
        """True or false."""
        if isinstance(node.value, bool):
            return node.value
        self._refuse(node, field, "true or false is needed")
        return None

    def read_number(
        self, node: YamlNode, field: str, *, is_whole: bool = False, least: float = 0, is_above: bool = False
    ) -> Any:
        """A number: at least `least`, or above it."""
        value = node.value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and isinstance(value, int if is_whole else (int, float)):
            is_enough = value > least if is_above else value >= least
            if is_enough and value <= _LARGEST_NUMBER:
                return value
        kind = "a whole number" if is_whole else "a number"
        self._refuse(node, field, f"{kind} {'above' if is_above else 'of at least'} {least:g} is needed")
        return None

    def read_items(self, node: YamlNode, field: str, example: str) -> tuple[YamlNode, ...] | None:
        """The items of a list."""
        items = node.items
        if items is None:
            self._refuse(node, field, f"a list such as {example} is needed")
        elif len(items) > MOST_ITEMS:
            self.report.add_error(node.start, f"{field}: {len(items):,} items, at most {MOST_ITEMS:,}")
            return None
        return items

    def read_pattern(self, node: YamlNode, field: str, *, takes_rules: bool = False) -> str | None:
        """A name of tools or a pattern.

        Args:
            node: The value.
            field: Its place, for messages.
            takes_rules: Whether it may be one of Claude Code's rules, such as `Bash(git diff:*)`.
        """
        text = self.read_text(node, field, kind="name")
        if text is None:
            return None
        name, opened, _ = text.partition("(") if takes_rules else (text, "", "")
        is_whole = not opened or text.endswith(")")
        if is_whole and len(text) <= LONGEST_PATTERN and _PATTERN.fullmatch(name):
            return text
        shown = f", not {preview_value(text)}" if text else ""
        self.report.add_error(node.start, f"{field}: a tool's name or a pattern such as `git-*` is needed{shown}")
        return None

    def read_patterns(self, node: YamlNode, field: str, *, takes_rules: bool = False) -> tuple[str, ...] | None:
        """A list of names and patterns."""
        items = self.read_items(node, field, "[git-status, web_*]")
        if items is None:
            return None
        read = (self.read_pattern(item, f"{field}.{at}", takes_rules=takes_rules) for at, item in enumerate(items))
        return tuple(pattern for pattern in read if pattern is not None)

    def read_names(self, node: YamlNode, field: str) -> tuple[str, ...] | None:
        """A list of names."""
        items = self.read_items(node, field, "[researcher, reviewer]")
        if items is None:
            return None
        read = (self.read_name(item, f"{field}.{at}") for at, item in enumerate(items))
        return tuple(name for name in read if name is not None)

    def read_schema(self, node: YamlNode, field: str, *, is_input: bool = False) -> JSONSchema | None:
        """A JSON Schema.

        Args:
            node: The value.
            field: Its place, for messages.
            is_input: Whether it describes arguments, which are an object.
        """
        if node.members is None:
            self._refuse(node, field, "a JSON Schema such as {type: object} is needed")
            return None
        return self.compile_document(node.to_plain(), node, field, is_input=is_input)

    def compile_document(
        self, document: Mapping[str, Any], node: YamlNode, field: str, *, is_input: bool, skipped: int = 0
    ) -> JSONSchema | None:
        """A schema that was made from a node, checked.

        Args:
            document: The schema.
            node: What it was made from.
            field: Its place, for messages.
            is_input: Whether it describes arguments.
            skipped: How many steps of a path into the schema the node does not have.
        """
        hidden = list(find_hidden(document, part="schema"))
        for found in hidden:
            self.report.add_error(
                node.find_place(found.path[skipped:]), f"{_join(field, found.shown_path[skipped:])}: {found.reason}"
            )
        if hidden:
            return None
        try:
            if is_input:
                compiled = compile_input_schema(document, tool="", documents=None)
            else:
                compiled = compile_schema(document, tool="", field=field)
        except SchemaError as error:
            path = error.path[skipped:]
            reason = _explain_schema(document, error)
            self.report.add_error(node.find_place(path), f"{_join(field, path)}: {reason}")
            return None
        for warning in compiled.warnings:
            self.report.add_warning(node.start, f"{field}: {warning}")
        return compiled.document

    def _refuse(self, node: YamlNode, field: str, needed: str) -> None:
        value = node.value
        if value is None:
            self.report.add_error(node.start, f"{field}: {needed}, not nothing; write it, or remove the key")
            return
        hint = ""
        if needed.startswith("text") and isinstance(value, bool | int | float):
            hint = "; put it in quotes"
        self.report.add_error(node.start, f"{field}: {needed}, not {preview_value(node.to_plain())}{hint}")


def find_name_problem(name: str) -> str | None:
    """What is wrong with a name, and what would be right; None for a good one."""
    if not name:
        return "a name is needed, such as `code-reviewer`"
    if not NAME.fullmatch(name):
        hint = make_name(name)
        wanted = f"; write `{hint}`" if hint else ""
        return f"only letters, digits, `_` and `-` are allowed, not {preview_value(name)}{wanted}"
    if len(name) > LONGEST_NAME:
        return f"{len(name)} characters; at most {LONGEST_NAME}"
    return None


def make_name(text: str) -> str:
    """The name that is most like a text; empty when there is none."""
    return re.sub(r"[^a-z0-9_-]+", "-", text[:200].lower()).strip("-")[:LONGEST_NAME]


def _explain_schema(document: Mapping[str, Any], error: SchemaError) -> str:
    """What is wrong with a schema, in the words of its author for the most frequent mistakes."""
    value: Any = document
    for step in error.path:
        try:
            value = value[step if isinstance(value, list) else str(step)]
        except (LookupError, TypeError):
            return error.reason
    match error.path[-1:], value:
        case ("required",), bool():
            return "a list of names beside `properties` is needed, such as [title]"
        case ("required",), str():
            return f"a list of names is needed: [{shorten_text(value, 60)}]"
        case ("pattern",), str():
            return f"{preview_value(value)} is no regular expression"
        case _, str() if error.path[-2:-1] == ("properties",):
            return f"a schema such as {{type: {shorten_text(value, 60)}}} is needed, not {preview_value(value)}"
        case _:
            return error.reason


def _join(field: str, path: tuple[str | int, ...]) -> str:
    return shorten_text(".".join([field, *map(str, path)]), 200)


def _quote(name: str) -> str:
    return f"`{shorten_text(name, 60)}`"
