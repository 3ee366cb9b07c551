"""What a person reads before approving: what would run, and what changed since the last approval.

Every text comes from an untrusted author, so what cannot be seen is shown escaped, and
long texts are cut.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.app.trust.approvals import Difference
from toolstead.app.trust.snapshot import PinnedFile, Snapshot
from toolstead.schema.visible import escape_unseen
from toolstead.tools.sources.json_files import is_tool_file

MOST_DIFF_LINES = 500
LONGEST_LINE = 500
_SOME = 40
_MOST_SETTINGS = 200
_MOST_COMPARED = 2_000
_SECRET = re.compile(r"\$\{(\w+)\}")

Lines = Iterator[str]


def what_would_run(snapshot: Snapshot) -> Lines:
    """Each file of a project, and under it what it would do."""
    for path, file in snapshot.files.items():
        yield f"{_escape_line(path)}{' (a program)' if file.executable else ''}"
        for count, line in enumerate(_review_file(path, file)):
            if count == _MOST_SETTINGS:
                yield f"  … more than {_MOST_SETTINGS} lines; look at the file itself"
                break
            yield f"  {_escape_line(line)}"
    for path in snapshot.skipped:
        yield f"{_escape_line(path)}: no regular file; it is never read"


def what_changed(approved: Mapping[str, bytes], snapshot: Snapshot, changes: Difference) -> Lines:
    """The differences as a unified diff, file by file; bounded."""
    for count, line in enumerate(_diff_files(approved, snapshot, changes)):
        if count == MOST_DIFF_LINES:
            yield f"… more than {MOST_DIFF_LINES} lines; look at the files themselves"
            return
        yield _escape_line(line)


def _review_file(path: str, file: PinnedFile) -> Lines:
    if path.startswith(".toolstead/tools/") and is_tool_file(Path(path)):
        return _review_tools(file.data)
    if path == ".toolstead/config.toml":
        return _review_settings(file.data)
    if path == ".mcp.json":
        return _review_servers(file.data)
    if path.startswith(".toolstead/plugins/") and path.endswith(".py"):
        return iter([f"Python that would run inside Toolstead: {_count_lines(file)}"])
    if path.endswith(".md"):
        return iter([f"an agent's instructions: {_count_lines(file)}"])
    return iter([_count_lines(file)])


def _review_tools(data: bytes) -> Lines:
    tools = _json_member(data, "tools")
    if not isinstance(tools, list):
        yield "no tool file that can be read"
        return
    for tool in cast("list[Any]", tools)[:_SOME]:
        if isinstance(tool, dict):
            given = cast("dict[str, Any]", tool)
            yield f"{given.get('name')}: {_review_handler(given.get('handler'))}"
    if len(cast("list[Any]", tools)) > _SOME:
        yield f"and {len(cast('list[Any]', tools)) - _SOME} tools more; look at the file itself"


def _review_handler(handler: Any) -> str:
    match handler:
        case {"type": "shell", "command": command}:
            return f"runs  {command}{_handler_details(cast('dict[str, Any]', handler), ('cwd', 'env', 'stdin'))}"
        case {"type": "http", "url": url}:
            given = cast("dict[str, Any]", handler)
            return f"asks  {given.get('method', 'POST')} {url}{_handler_details(given, ('allowedHosts', 'headers'))}"
        case {"type": "file-read", "basePath": folder}:
            return f"reads files in {folder}"
        case _:
            return "a handler that cannot be read"


def _handler_details(handler: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """What else decides what a handler does, and the secrets that it is given."""
    details = [f"{key} {_plain_text(handler[key])}" for key in keys if handler.get(key)]
    secrets = dict.fromkeys(_SECRET.findall(" ".join(details)))
    if secrets:
        details.append(f"your secrets {', '.join(secrets)}")
    return "".join(f"; {text}" for text in details)


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")


def _review_settings(data: bytes) -> Lines:
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
        yield from [f"sets  {key} = {value!r}" for key, value in _walk_leaves(table, "")]
    except (ValueError, RecursionError):  # ValueError: no TOML, or a number too long to be written out
        yield "no TOML that can be read"


def _walk_leaves(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _walk_leaves(cast("dict[str, Any]", value), f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _review_servers(data: bytes) -> Lines:
    servers = _json_member(data, "mcpServers")
    if not isinstance(servers, dict):
        yield "no list of MCP servers that can be read"
        return
    for name, server in cast("dict[str, Any]", servers).items():
        match server:
            case {"command": command}:
                given = cast("dict[str, Any]", server)
                words = " ".join(_plain_text(word) for word in (command, *_as_list(given.get("args"))))
                yield f"MCP server {name}: starts  {words}{_handler_details(given, ('cwd', 'env'))}"
            case {"url": url}:
                given = cast("dict[str, Any]", server)
                yield f"MCP server {name}: connects to {url}{_handler_details(given, ('headers',))}"
            case _:
                yield f"MCP server {name}: neither a command nor an address"


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]


def _json_member(data: bytes, name: str) -> Any:
    """A member of a JSON object; None where there is none."""
    try:
        content: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", content).get(name) if isinstance(content, dict) else None


def _count_lines(file: PinnedFile) -> str:
    text = _text_lines(file.data)
    if text is None:
        return f"{len(file.data):,} bytes"
    return "1 line" if len(text) == 1 else f"{len(text)} lines"


def _diff_files(approved: Mapping[str, bytes], snapshot: Snapshot, changes: Difference) -> Lines:
    for path in sorted((*changes.added, *changes.removed, *changes.changed)):
        before = approved.get(path, b"") if path not in changes.added else b""
        file = snapshot.files.get(path)
        after = file.data if file is not None else b""
        if path in changes.added:
            yield f"added {path}"
        elif path in changes.removed:
            yield f"removed {path}"
        elif before == after:
            yield f"{path} {'became' if file is not None and file.executable else 'is no longer'} a program"
        old, new = _text_lines(before), _text_lines(after)
        if old is None or new is None:
            yield f"{path}: {len(before):,} bytes became {len(after):,} bytes that are no text"
            continue
        names = (f"approved/{path}", f"now/{path}")
        if len(old) <= _MOST_COMPARED and len(new) <= _MOST_COMPARED:
            yield from difflib.unified_diff(old, new, *names, lineterm="")
        else:
            yield from _diff_long(old, new, *names)


def _diff_long(old: list[str], new: list[str], before: str, after: str) -> Lines:
    """Long texts without the lines they begin and end with alike: to find more could take hours."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    gone, came = old[head : len(old) - tail], new[head : len(new) - tail]
    yield from (f"--- {before}", f"+++ {after}", f"@@ -{head + 1},{len(gone)} +{head + 1},{len(came)} @@")
    for at in range(max(len(gone), len(came))):  # by turns, so that neither hides the other
        yield from (f"-{line}" for line in gone[at : at + 1])
        yield from (f"+{line}" for line in came[at : at + 1])


def _text_lines(data: bytes) -> list[str] | None:
    """The lines of a text; None for what is no text."""
    if b"\0" in data:
        return None
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    return lines[:-1] if not lines[-1] else lines


def _escape_line(text: str) -> str:
    shown = escape_unseen(text[:LONGEST_LINE].replace("\t", "    "))
    return shown if len(text) <= LONGEST_LINE else f"{shown}… ({len(text) - LONGEST_LINE:,} more)"
