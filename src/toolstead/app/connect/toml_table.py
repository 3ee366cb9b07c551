"""Edits of one table in a TOML text that leave everything else as it stands, comments included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolstead.app.toml_text import parse_toml, read_toml, split_key, split_statements, toml_key, toml_value

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A line of a document, or several that belong together.

    Attributes:
        text: As it stands.
        path: The table it opens, or the key it sets, from the root; empty for a comment or a blank line.
        is_header: It opens a table.
    """

    text: str
    path: Path
    is_header: bool = False


def set_table(text: str, path: Path, values: Mapping[str, Any], dropped: Sequence[str]) -> str:
    """The text with these values in a table; its other keys stay, and it is made at the end where there is none.

    Args:
        text: A valid document.
        path: The table.
        values: What it must hold.
        dropped: Keys that go.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    statements = _read_statements(text)
    header = next((at for at, one in enumerate(statements) if one.is_header and one.path == path), None)
    found = _find_table(parse_toml(text, ""), path)
    if header is None:
        kept = {key: value for key, value in found.items() if key not in dropped}
        inline = _replace_inline(statements, path, {**kept, **values})
        if inline is not None:
            return inline
        rest = "".join(one.text for one in statements if one.path[: len(path)] != path)
        return _append_table(rest, path, {**kept, **values}, newline)
    changed = {key: value for key, value in values.items() if key not in found or found[key] != value}
    gone = {*dropped, *(key for key in changed if isinstance(found.get(key), Mapping))}
    lines: list[str] = []
    last = header
    for at, one in enumerate(statements):
        inside = one.path[: len(path)] == path and len(one.path) > len(path)
        key = one.path[len(path)] if inside else ""
        if inside and key in gone:
            lines.append("")
            continue
        if inside and not one.is_header and one.path == (*path, key) and key in changed:
            lines.append(_assign_value(key, changed.pop(key), newline, keep=one.text))
        else:
            lines.append(one.text)
        if inside and not one.is_header and _is_below(statements, at, header):
            last = at
    added = "".join(_assign_value(key, value, newline) for key, value in changed.items())
    is_open = not lines[last].endswith("\n")  # at the end of a text without a newline there
    lines[last] += newline + added.removesuffix(newline) if added and is_open else added
    return "".join(lines)


def remove_table(text: str, path: Path) -> str:
    """The text without a table, the tables in it, and the empty line before it."""
    statements = _read_statements(text)
    inline = _replace_inline(statements, path, None)
    if inline is not None:
        return inline
    lines: list[str] = []
    held: list[str] = []  # comments and empty lines after something of ours: of the next, unless ours goes on
    is_ours = has_cut = False
    for one in statements:
        if one.path[: len(path)] == path:
            held.clear()
            if not has_cut and one.is_header and lines and not lines[-1].strip():
                lines.pop()
            is_ours = has_cut = True
        elif not one.path and is_ours:
            held.append(one.text)
        else:
            if has_cut and is_ours and lines and lines[-1].strip() and held and held[0].strip():
                lines.append("\r\n" if "\r\n" in text else "\n")
            lines += [*held, one.text]
            held.clear()
            is_ours = False
    rest = "".join([*lines, *held])
    if has_cut and is_ours and not held and not text.endswith("\n"):  # as it was appended to an end without a newline
        rest = rest.removesuffix("\n").removesuffix("\r")
    return rest


def _replace_inline(statements: Sequence[Statement], path: Path, values: Mapping[str, Any] | None) -> str | None:
    """The text with a table, or without it, inside the braces of `parent = { … }`; None where no line is so."""
    at = next((at for at, one in enumerate(statements) if not one.is_header and one.path == path[:-1] != ()), None)
    found = split_key(statements[at].text) if at is not None else None
    if at is None or found is None or not found[1].lstrip().startswith("{"):
        return None
    line, rest = statements[at].text, found[1]
    begin = rest.index("{") + 1
    end = next(place for place, sign in enumerate(rest) if sign == "}" and read_toml(f"_ = {rest[: place + 1]}"))
    pairs = _split_pairs(rest[begin:end])
    tail = pairs[-1][len(pairs[-1].rstrip()) :] if pairs else ""
    kept = [pair for pair in pairs if _key_of(pair) != path[-1]]
    if values is not None:
        kept.append(f"{' ' if kept else tail}{toml_key(path[-1:])} = {toml_value(values)}")
    if kept:
        kept = [*(pair.rstrip() for pair in kept[:-1]), kept[-1].rstrip() + tail]
    fresh = f"{line[: len(line) - len(rest)]}{rest[:begin]}{','.join(kept)}{rest[end:]}"
    return "".join([*(one.text for one in statements[:at]), fresh, *(one.text for one in statements[at + 1 :])])


def _split_pairs(inside: str) -> list[str]:
    """What stands between the braces of an inline table, pair by pair, without the commas."""
    pairs: list[str] = []
    begin = 0
    for place in (*(place for place, sign in enumerate(inside) if sign == ","), len(inside)):
        if read_toml(f"_ = {{{inside[begin:place]}}}"):  # else the comma stands inside of a value
            pairs.append(inside[begin:place])
            begin = place + 1
    return pairs


def _key_of(pair: str) -> str:
    key = split_key(pair.lstrip())
    return key[0][0] if key is not None else ""


def _read_statements(text: str) -> list[Statement]:
    statements: list[Statement] = []
    table: Path = ()
    for one in split_statements(text):
        bare = one.strip()
        if not bare or bare.startswith("#"):
            statements.append(Statement(text=one, path=()))
        elif bare.startswith("["):
            table = _read_header(one)
            statements.append(Statement(text=one, path=table, is_header=True))
        else:
            key = split_key(one)
            statements.append(Statement(text=one, path=(*table, *key[0]) if key is not None else table))
    return statements


def _read_header(line: str) -> Path:
    path: list[str] = []
    table: Any = parse_toml(line, "")
    while isinstance(table, dict) and table:
        ((name, table),) = cast("dict[str, Any]", table).items()
        path.append(name)
    return tuple(path)


def _find_table(document: Any, path: Path) -> Mapping[str, Any]:
    for name in path:
        document = cast("Mapping[str, Any]", document).get(name) if isinstance(document, Mapping) else None
    return cast("Mapping[str, Any]", document) if isinstance(document, Mapping) else {}


def _is_below(statements: Sequence[Statement], at: int, header: int) -> bool:
    """Whether a statement stands in the very table that a header opens."""
    return at > header and not any(one.is_header for one in statements[header + 1 : at + 1])


def _assign_value(key: str, value: Any, newline: str, keep: str = "") -> str:
    """A line; with the comment of the one that it replaces."""
    comment = ""
    if (rest := split_key(keep)) is not None:
        for place in (place for place, sign in enumerate(rest[1]) if sign == "#"):
            if read_toml(f"_ = {rest[1][:place]}") is not None:
                comment = rest[1][len(rest[1][:place].rstrip()) :].rstrip()
                break
    return f"{toml_key([key])} = {toml_value(value)}{comment}{newline}"


def _append_table(text: str, path: Path, values: Mapping[str, Any], newline: str) -> str:
    lines = [f"[{toml_key(path)}]", *(f"{toml_key([key])} = {toml_value(value)}" for key, value in values.items())]
    block = newline.join(lines)
    if not text.strip():
        return text + block + newline
    if not text.endswith("\n"):
        return text + newline * 2 + block
    return text + newline + block + newline
