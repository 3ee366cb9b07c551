"""What the files of `.claude/agents` spell differently: lists in one line, camelCase, and texts that are no YAML.

These files are written for Claude Code, which takes them as they are; so what we do not use is a note.
"""

from __future__ import annotations

import re

import msgspec

from toolstead.agents.findings import FindingReport
from toolstead.agents.frontmatter import AgentText
from toolstead.agents.yaml_nodes import YamlNode

CLAUDE_KEYS = frozenset(
    {
        *("color", "permissionMode", "skills", "hooks", "mcpServers", "memory", "background", "isolation", "effort"),
        *("initialPrompt", "argument-hint", "allowed-tools", "disable-model-invocation", "license", "metadata"),
    }
)
"""Keys that Claude Code reads, in agents or beside them, and Toolstead does not."""
SPELLINGS = {"disallowedTools": "disallowed_tools", "maxTurns": "max_turns"}
_LISTS = ("tools", "disallowed_tools")
_READ_LINES = frozenset(
    {"name", "description", "model", "tools", "agents", "disallowed_tools", "max_turns", "runtime"}
    | CLAUDE_KEYS
    | SPELLINGS.keys()
)
_LINE = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t](.*))?")
_PREFIX = "mcp__toolstead"
_OUTER_QUOTES = re.compile(r"""(["'])(.*)\1""", re.DOTALL)


def read_lines(text: AgentText) -> YamlNode | None:
    """A frontmatter that is no YAML, read line by line; None when that has no name or description either.

    A line that begins with a known key begins a value, and the lines up to the next one belong to it.
    """
    start = text.start or 0
    members: dict[str, YamlNode] = {}
    keys: dict[str, int] = {}
    pieces: list[str] = []
    key, began = "", start
    at = start
    for line in text.text[start : text.end].split("\n"):
        match = _LINE.fullmatch(line)
        if match is not None and match[1] in _READ_LINES and match[1] not in keys:
            _end_value(members, key, pieces, began)
            value = (match[2] or "").lstrip(" \t")
            key, pieces = match[1], [value]
            keys[key], began = at, at + (len(line) - len(value) if value else 0)
        else:
            pieces.append(line)
        at += len(line) + 1
    _end_value(members, key, pieces, began)
    if not members.keys() & {"name", "description"}:
        return None
    return YamlNode(value=members, start=start, end=text.end, keys=keys)


def _end_value(members: dict[str, YamlNode], key: str, pieces: list[str], began: int) -> None:
    """Keep the value of a key: a list when its lines are items, else their text."""
    if not key:
        return
    lines = [piece.strip() for piece in pieces]
    filled = [line for line in lines if line]
    end = began + sum(len(piece) + 1 for piece in pieces)
    if filled and not lines[0] and all(line.startswith("- ") for line in filled):
        items = tuple(YamlNode(value=_unquote(line[2:].strip()), start=began, end=end) for line in filled)
        members[key] = YamlNode(value=items, start=began, end=end)
        return
    if lines[0] in ("|", ">", "|-", ">-", "|+", ">+"):
        lines = lines[1:]
    value = _unquote("\n".join(lines).strip())
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    shown: str | int = number if number is not None and key in ("maxTurns", "max_turns") else value
    members[key] = YamlNode(value=shown, start=began, end=end)


def _unquote(text: str) -> str:
    match = _OUTER_QUOTES.fullmatch(text)
    return match[2] if match is not None else text


def adapt_frontmatter(root: YamlNode, report: FindingReport) -> YamlNode:
    """A frontmatter of Claude Code in our own spelling."""
    members: dict[str, YamlNode] = {}
    keys: dict[str, int] = {}
    for given, node in (root.members or {}).items():
        key, at = SPELLINGS.get(given, given), root.keys[given]
        if key in members:
            report.add_error(at, f"`{given}` is `{key}` in another spelling; remove one of the two")
            continue
        if node.value is None:
            report.add_warning(at, f"`{given}` is empty, and counts as absent")
            continue
        if key == "model" and node.value == "inherit":
            continue
        keys[key] = at
        members[key] = _adapt_list(node) if key in _LISTS else node
    return msgspec.structs.replace(root, value=members, keys=keys)


def _adapt_list(node: YamlNode) -> YamlNode:
    """A list of tools, also one that is written in one line; our own tools by their own names."""
    items = node.items
    if isinstance(node.value, str):
        items = tuple(_split_names(node))
    if items is None:
        return node
    return msgspec.structs.replace(node, value=tuple(_adapt_name(item) for item in items))


def _split_names(node: YamlNode) -> list[YamlNode]:
    """The names in one text, cut at commas outside of parentheses."""
    text: str = node.value
    if text.startswith("[") and text.endswith("]"):
        text = " " + text[1:-1]
    found: list[YamlNode] = []
    depth, began = 0, 0
    for at, character in enumerate(f"{text},"):
        depth += (character == "(") - (character == ")")
        if character == "," and (depth <= 0 or at == len(text)):
            piece = text[began:at]
            start = node.start + node.is_quoted + began + len(piece) - len(piece.lstrip())
            if name := piece.strip().strip("\"'"):
                found.append(YamlNode(value=name, start=min(start, node.end), end=node.end))
            began, depth = at + 1, 0
    return found


def _adapt_name(item: YamlNode) -> YamlNode:
    """The name of a tool of ours without what Claude Code puts before it."""
    name = item.value
    if not isinstance(name, str) or not name.startswith(_PREFIX):
        return item
    rest = name.removeprefix(_PREFIX)
    if not rest:
        return msgspec.structs.replace(item, value="*")
    return msgspec.structs.replace(item, value=rest[2:]) if rest.startswith("__") and len(rest) > 2 else item
