"""Bounded YAML in which every value knows its place.

The text is read event by event, and size, depth, number and aliases are bounded while it is: nothing composes or
constructs it, because the C loader ends the process on deep nesting. Plain words are read as YAML 1.2 reads
them: `no`, `on` and `2026-01-31` are text, and only `true` and `false` are flags.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

import msgspec

LARGEST = 65_536
"""Characters of a text."""
DEEPEST = 72
"""Levels of nesting: those of a schema, and some for what it stands in."""
MOST_NODES = 10_000
"""Values of a text, each alias counted as what it repeats."""

_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_LONGEST_NUMBER = 40
_LARGEST_NUMBER = 2**63 - 1
_MERGE = "<<"
_HINTS = (
    ("mapping values are not allowed", "this value has a second `: ` in it; put the whole value in quotes"),
    ("unexpected end of stream", "the quote that begins here has no end"),
    ("unknown escape character", "in double quotes a backslash begins an escape; write two, or use single quotes"),
    ("hexadecimal numbers", "this escape is incomplete; write two backslashes, or use single quotes"),
    ("invalid Unicode character", "this escape is no character; write two backslashes, or use single quotes"),
    ("alphabetic or numeric character", "a value that begins with `*` or `&` needs quotes"),
    ("expected ',' or ']'", "the list that begins here has no `]`"),
    ("expected ',' or '}'", "the mapping that begins here has no `}`; a value that begins with `{` needs quotes"),
    ("could not find expected ':'", "a line `key: value` is needed here; longer text is indented below `key: |`"),
    ("expected key", "this line begins in no column of the lines above; indent it like its neighbours"),
    ("expected <block end>", "this line begins in no column of the lines above; indent it like its neighbours"),
    ("expected '-' indicator", "this line begins in no column of the list above; indent it like its neighbours"),
    ("block sequence entries are not allowed", "a list begins on a line of its own, below its key"),
    ("directive", "a line that begins with `%` needs quotes or indentation"),
)
"""What a person would change, for what the YAML parser says."""
_AT_CONTEXT = ("unexpected end of stream", "expected ',' or", "alphabetic or numeric character")


class FrontmatterError(ValueError):
    """A frontmatter that cannot be read.

    Attributes:
        reason: What is wrong, and what would be right.
        at: Where, as an index into the text.
        is_syntax: Whether the text is no YAML; otherwise it is YAML that is not read here.
    """

    def __init__(self, reason: str, at: int = 0, *, is_syntax: bool = False) -> None:
        self.reason = reason
        self.at = at
        self.is_syntax = is_syntax
        super().__init__(reason)


class YamlNode(msgspec.Struct, frozen=True, kw_only=True):
    """A value and its place.

    Attributes:
        value: A text, a number, a flag, None, a tuple of nodes, or a dict of nodes.
        start: Where it begins, as an index into the text.
        end: Where it ends.
        keys: Where each key of a mapping stands.
        size: How many values it is, itself included.
        height: How many levels it has below itself.
        is_quoted: Whether it stands in quotes or as a block of text.
    """

    value: Any
    start: int
    end: int
    keys: dict[str, int] = {}
    size: int = 1
    height: int = 0
    is_quoted: bool = False

    @property
    def items(self) -> tuple[YamlNode, ...] | None:
        """The items of a list; None for everything else."""
        return cast("tuple[YamlNode, ...]", self.value) if isinstance(self.value, tuple) else None

    @property
    def members(self) -> dict[str, YamlNode] | None:
        """The members of a mapping; None for everything else."""
        return cast("dict[str, YamlNode]", self.value) if isinstance(self.value, dict) else None

    def to_plain(self) -> Any:
        """The value as JSON has it."""
        if (items := self.items) is not None:
            return [item.to_plain() for item in items]
        if (members := self.members) is not None:
            return {name: member.to_plain() for name, member in members.items()}
        return self.value

    def find_place(self, path: tuple[str | int, ...]) -> int:
        """Where something inside begins; where its nearest ancestor begins, when it is not there."""
        node, at = self, self.start
        for step in path:
            members, items = node.members, node.items
            if members is not None and str(step) in members:
                node, at = members[str(step)], node.keys[str(step)]
            elif items is not None and isinstance(step, int) and step < len(items):
                node = items[step]
                at = node.start
            else:
                break
        return at


def parse_yaml(text: str, offset: int = 0) -> YamlNode | None:
    """Read one YAML document; None when it is empty.

    Args:
        text: The text, at most `LARGEST` characters.
        offset: What places are counted from.

    Raises:
        FrontmatterError: It is no YAML, or YAML that is not read here.
    """
    import yaml  # when a file is read: a start without agents does without

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _NodeBuilder(offset)
    try:
        for event in cast("Any", yaml).parse(text, Loader=loader):
            builder.take_event(event)
    except FrontmatterError:  # a ValueError too
        raise
    except yaml.MarkedYAMLError as error:
        raise _explain_syntax(error, text, offset) from None
    except yaml.YAMLError as error:
        at = min(getattr(error, "position", 0) or 0, max(len(text) - 1, 0))
        shown = f"U+{ord(text[at]):04X}" if text else "it"
        raise FrontmatterError(f"{shown} is a character that YAML does not allow; remove it", offset + at) from None
    except (ValueError, OverflowError):  # such as an escape beyond the last character, where no C loader is installed
        raise FrontmatterError(
            "an escape in double quotes is no character; use single quotes", offset, is_syntax=True
        ) from None
    return builder.root


class _Frame:
    """A list or a mapping that is being read."""

    __slots__ = ("anchor", "height", "is_mapping", "items", "key", "keys", "members", "size", "start")

    def __init__(self, start: int, *, is_mapping: bool, anchor: str | None) -> None:
        self.start = start
        self.is_mapping = is_mapping
        self.anchor = anchor
        self.items: list[YamlNode] = []
        self.members: dict[str, YamlNode] = {}
        self.keys: dict[str, int] = {}
        self.key: str | None = None
        self.size, self.height = 1, 0

    def close(self, end: int) -> YamlNode:
        value = self.members if self.is_mapping else tuple(self.items)
        return YamlNode(value=value, start=self.start, end=end, keys=self.keys, size=self.size, height=self.height + 1)


class _NodeBuilder:
    """Builds nodes from events, within the bounds."""

    def __init__(self, offset: int) -> None:
        self.root: YamlNode | None = None
        self._offset = offset
        self._frames: list[_Frame] = []
        self._anchors: dict[str, YamlNode] = {}
        self._count = 0
        self._documents = 0

    def take_event(self, event: Any) -> None:
        import yaml

        start, end = self._offset + event.start_mark.index, self._offset + event.end_mark.index
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise FrontmatterError("a second YAML document begins here; a frontmatter is one", start)
            case yaml.AliasEvent():
                self._take_alias(str(cast("Any", event).anchor), start)
            case yaml.ScalarEvent():
                self._refuse_tag(event, start)
                self._count_nodes(1, start)
                self._take_scalar(event, start, end)
            case yaml.CollectionStartEvent():
                self._refuse_tag(event, start)
                self._count_nodes(1, start)
                if len(self._frames) >= DEEPEST:
                    raise FrontmatterError(f"nested deeper than {DEEPEST} levels here", start)
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._refuse_as_key(start)
                self._frames.append(_Frame(start, is_mapping=is_mapping, anchor=cast("Any", event).anchor))
            case yaml.CollectionEndEvent():
                frame = self._frames.pop()
                self._add(frame.close(end), frame.anchor, start)
            case _:
                pass

    def _take_alias(self, name: str, start: int) -> None:
        node = self._anchors.get(name)
        if node is None:
            raise FrontmatterError(f"`*{name[:60]}` repeats nothing; a value that begins with `*` needs quotes", start)
        self._refuse_as_key(start)
        self._count_nodes(node.size, start)
        if len(self._frames) + node.height > DEEPEST:
            raise FrontmatterError(f"nested deeper than {DEEPEST} levels here", start)
        self._add(node, None, start)

    def _take_scalar(self, event: Any, start: int, end: int) -> None:
        text: str = event.value
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.is_mapping and frame.key is None:
            self._take_key(frame, text, start, is_plain=not event.style)
            return
        value = text if event.style or not event.implicit[0] else _resolve_word(text, start)
        node = YamlNode(value=value, start=start, end=end, is_quoted=bool(event.style))
        self._add(node, event.anchor, start)

    def _take_key(self, frame: _Frame, name: str, start: int, *, is_plain: bool) -> None:
        if not name:
            raise FrontmatterError("a key is missing before this colon", start)
        if is_plain and name == _MERGE:
            raise FrontmatterError("`<<` is not read; write the keys out", start)
        if name in frame.members:
            raise FrontmatterError(f"`{name[:60]}` is a duplicate key; remove one of the two", start)
        frame.key, frame.keys[name] = name, start

    def _add(self, node: YamlNode, anchor: str | None, start: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._frames:
            self.root = node
            return
        frame = self._frames[-1]
        frame.size += node.size
        frame.height = max(frame.height, node.height)
        if not frame.is_mapping:
            frame.items.append(node)
        elif frame.key is not None:
            frame.members[frame.key] = node
            frame.key = None

    def _refuse_as_key(self, start: int) -> None:
        if self._frames and self._frames[-1].is_mapping and self._frames[-1].key is None:
            raise FrontmatterError("a key is plain text; a value that begins with `{` or `[` needs quotes", start)

    def _refuse_tag(self, event: Any, start: int) -> None:
        if event.tag is not None:
            raise FrontmatterError(f"the tag {str(event.tag)[:60]!r} is not read; remove it, or put quotes", start)

    def _count_nodes(self, more: int, start: int) -> None:
        self._count += more
        if self._count > MOST_NODES:
            raise FrontmatterError(f"more than {MOST_NODES:,} values, counted with what aliases repeat", start)


def _resolve_word(text: str, start: int) -> Any:
    """A plain word as YAML 1.2 reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if not (text[0].isdigit() or text[0] in "-+.") or not text.isascii():
        return text
    if _NO_NUMBER.fullmatch(text):
        raise FrontmatterError(f"{text} is no JSON value; put it in quotes", start)
    is_whole = _WHOLE.fullmatch(text) is not None
    if not is_whole and not _FLOAT.fullmatch(text):
        return text
    if len(text) <= _LONGEST_NUMBER:
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        value = int(text, base) if is_whole else float(text)
        if math.isfinite(value) and (not is_whole or abs(value) <= _LARGEST_NUMBER):
            return value
    raise FrontmatterError(f"the number {text[:20]}… is too large; put it in quotes if it is text", start)


def _explain_syntax(error: Any, text: str, offset: int) -> FrontmatterError:
    problem: str = error.problem or error.context or "it cannot be read"
    mark = error.problem_mark or error.context_mark
    if error.context_mark is not None and any(part in problem for part in _AT_CONTEXT):
        mark = error.context_mark
    at = min(mark.index, len(text)) if mark is not None else 0
    found = text[at : at + 1]
    if "cannot start any token" in problem:
        hint = (
            "a tab cannot indent; use spaces" if found == "\t" else f"a value that begins with `{found}` needs quotes"
        )
    else:
        hint = next((hint for part, hint in _HINTS if part in problem), f"no YAML: {problem}")
    return FrontmatterError(hint, offset + at, is_syntax=True)
