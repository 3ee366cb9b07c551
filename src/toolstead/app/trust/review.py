"""What a person reads before approving: what would run, and what changed since the last approval.

Every text comes from an untrusted author, so what cannot be seen is shown escaped. Nothing that decides is left out:
of files that are loaded (tools, settings, what an agent may do) every value is shown whole, or the project
cannot be approved. Settings and agents are read as the loader does it, so what is approved can be loaded. Of programs
and instructions the size is shown, and the difference.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.adapters.claude.launch import CLAUDE_TOOLS
from toolstead.app.agent_reading import create_reader, find_scope
from toolstead.app.layers import read_document
from toolstead.app.masks import MASK
from toolstead.app.settings_check import check_depth, checked_leaves
from toolstead.app.trust.approvals import Difference
from toolstead.app.trust.snapshot import PinnedFile, Snapshot
from toolstead.errors import SettingsError
from toolstead.schema.visible import escape_unseen
from toolstead.tools.handlers.secrets import REFERENCE
from toolstead.tools.sources.json_files import is_tool_file
from toolstead.tools.sources.json_report import FileReport
from toolstead.types.agent import AgentScope

LONGEST_REVIEW = 1_000_000
"""Characters in all; 5,000 tools have fewer."""
LONGEST_TEXT = 10_000
LONGEST_LINE = 500
MOST_DIFF_LINES = 500
_MOST_DIFFS = 10 * MOST_DIFF_LINES
_WIDTH = 76
_MOST_COMPARED = 2_000
_CONFIG = ".toolstead/config.toml"
_TOKEN_LINE = re.compile(r"""(\btoken\s*=\s*)("[^"]+"|'[^']+')""")
_DETAILS = {
    "allowScript": "values that are run as code",
    "allowLeadingDash": "values that may be options",
    "okStatus": "exit statuses that are no errors",
    "allowedHosts": "may reach, though private",
    "timeout": "timeout (ms)",
}
_HINTS = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open world",
}

Lines = Iterator[str]


class _Refusal(str):
    """A line that says why a project cannot be approved."""

    __slots__ = ()


def what_would_run(snapshot: Snapshot) -> Lines:
    """Each file of a project, and under it what it would do."""
    return map(_escape_text, _review_project(snapshot))


def what_is_refused(snapshot: Snapshot) -> list[str]:
    """Why a project cannot be approved: what cannot be shown to a person, or could not be loaded; mostly nothing."""
    return [_escape_text(line.strip()) for line in _review_project(snapshot) if isinstance(line, _Refusal)]


def what_changed(approved: Mapping[str, bytes], snapshot: Snapshot, changes: Difference) -> Lines:
    """The differences, file by file: of every file as a bounded unified diff, of what decides all that it does."""
    room = _MOST_DIFFS
    for path in sorted((*changes.added, *changes.removed, *changes.changed)):
        before = approved.get(path) if path not in changes.added else None
        file = snapshot.files.get(path)
        if room == 0:
            yield _escape_line(f"{path} differs; look at the file itself")
        for count, line in enumerate(_diff_file(path, before or b"", snapshot, changes) if room else ()):
            if count == (most := min(MOST_DIFF_LINES, count + room)):
                yield f"… more than {most} lines; look at the files themselves"
                break
            room -= 1
            yield _escape_line(line)
        was, now = _decisive_lines(path, before), _decisive_lines(path, file.data if file is not None else None)
        if was != now:
            yield _escape_line(f"{path}, what it does:")
            yield from map(_escape_text, _diff_lines(was, now))


def _review_project(snapshot: Snapshot) -> Lines:
    room = LONGEST_REVIEW
    for line in _review_files(snapshot):
        room -= len(line)
        if len(line) > LONGEST_TEXT:
            yield line
            start = f"{line.strip()[:60]}…"
            yield _Refusal(
                f"  {start} has {len(line):,} characters, more than a person looks at: at most {LONGEST_TEXT:,}"
            )
        elif room < 0:
            yield _Refusal(
                f"there are more than {LONGEST_REVIEW:,} characters to look at; move what is not needed elsewhere"
            )
            return
        else:
            yield line


def _review_files(snapshot: Snapshot) -> Lines:
    for path, file in snapshot.files.items():
        yield f"{path}{' (a program)' if file.executable else ''}"
        lines = _review_decisive(path, file.data)
        for line in lines if lines is not None else [_describe_file(path, file)]:
            yield _Refusal(f"  {line}") if isinstance(line, _Refusal) else f"  {line}"
    for path in snapshot.skipped:
        yield f"{path}: no regular file; it is never read"


def _decisive_lines(path: str, data: bytes | None) -> list[str]:
    return list(_review_decisive(path, data) or ()) if data is not None else []


def _review_decisive(path: str, data: bytes) -> Lines | None:
    """What a file that is loaded does; None for any other."""
    if path.startswith(".toolstead/tools/") and is_tool_file(Path(path)):
        return _review_tools(path, data)
    if path == _CONFIG:
        return _review_settings(data)
    if (scope := find_scope(path)) is not None:
        return _review_agent(path, data, scope)
    if _is_plugin(path) and (fault := _find_syntax_error(data)):
        lines = _count_lines(PinnedFile(data=data))
        return iter((f"Python that cannot be loaded: {lines}", f"error: {fault}"))
    return None


def _is_plugin(path: str) -> bool:
    return path.startswith(".toolstead/plugins/") and path.endswith(".py")


def _find_syntax_error(data: bytes) -> str:
    """Why Python code cannot be loaded, as far as compiling it says so; it is never run here. Empty where it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are for the author, when it is loaded
        try:
            compile(data, "plugin", "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def _describe_file(path: str, file: PinnedFile) -> str:
    if _is_plugin(path):
        return f"Python that would run inside Toolstead: {_count_lines(file)}"
    return _count_lines(file)


def _review_agent(path: str, data: bytes, scope: AgentScope) -> Lines:
    """What an agent may do: every key of its frontmatter, and the size of its instructions."""
    loaded = create_reader().read(Path(path), data, scope)
    agent = loaded.agent
    if agent is None:
        yield "no agent that can be read: nothing of it is loaded"
    else:
        lines = len(agent.instructions.splitlines())
        yield f"agent {agent.name}, with instructions of {lines:,} line{'' if lines == 1 else 's'}"
        yield from _prose_lines("description", agent.description)
        own = [name for name in agent.tools or () if name in CLAUDE_TOOLS] if scope == "claude" else []
        if own:
            yield f"  may use these tools of Claude Code itself: {', '.join(own)}"
        for key in ("model", "runtime", "tools", "disallowed_tools", "agents", "max_turns", "gates", "result_schema"):
            value = getattr(agent, key)
            if value not in (None, "", ()) or (key in agent.lines and value is not None):
                yield f"  {key}: {_plain_text(msgspec.to_builtins(value))}"
        limits = {name: value for name, value in msgspec.structs.asdict(agent.limits).items() if value is not None}
        if limits:
            yield f"  limits: {_plain_text(limits)}"
        for tool in agent.custom_tools:
            yield f"  tool {tool.name}: asks an agent{f' on {tool.model}' if tool.model else ''}"
            yield from (f"  {line}" for line in _prose_lines("prompt", tool.prompt))
            yield from (f"  {line}" for line in _prose_lines("takes", _describe_inputs(tool.input_schema)))
            if tool.tools is not None:
                yield f"    tools: {_plain_text(list(tool.tools))}"
    yield from (f"{one.severity}: line {one.line}: {one.message}" for one in loaded.findings if one.severity == "error")


def _review_tools(path: str, data: bytes) -> Lines:
    content, problems = _read_json(path, data)
    tools = content.get("tools") if content is not None else None
    if not isinstance(tools, list):
        yield "no tool file that can be read: nothing of it is loaded"
    for tool in cast("list[Any]", tools) if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            yield from _review_tool(cast("dict[str, Any]", tool))
    yield from (f"not loaded: {problem}" for problem in problems)


def _review_tool(tool: Mapping[str, Any]) -> Lines:
    handler: Any = tool.get("handler")
    given = cast("dict[str, Any]", handler) if isinstance(handler, dict) else {}
    match given:
        case {"type": "shell", "command": command}:
            does, said = f"runs  {_plain_text(command)}", ("type", "command")
        case {"type": "http", "url": url}:
            does, said = (
                f"asks  {_plain_text(given.get('method', 'POST'))} {_plain_text(url)}",
                ("type", "method", "url"),
            )
        case {"type": "file-read", "basePath": folder}:
            does, said = f"reads files in {_plain_text(folder)}", ("type", "basePath")
        case _:
            does, said = "a handler that cannot be read", ()
    yield f"{_plain_text(tool.get('name'))}: {does}"
    yield from _detail_lines(given, said)
    yield from _prose_lines("description", tool.get("description"))
    yield from _prose_lines("takes", _describe_inputs(tool.get("inputSchema")))
    if hints := _describe_hints(tool.get("annotations")):
        yield f"  says of itself: {hints}"


def _detail_lines(given: Mapping[str, Any], said: tuple[str, ...]) -> Lines:
    """What else decides what a handler does, and the secrets that it is given."""
    secrets: dict[str, None] = {}
    for key, value in given.items():
        if key in said or value in ([], {}, "", None):
            continue
        text = _plain_text(value)
        yield f"  {_DETAILS.get(key, key)}: {text}"
        secrets.update(dict.fromkeys(REFERENCE.findall(text)))
    if secrets:
        yield f"  is given your secrets: {', '.join(secrets)}"


def _prose_lines(label: str, text: Any) -> Lines:
    shown = f"{label}: {_plain_text(text)}"
    if not text or len(shown) > LONGEST_TEXT:
        yield from [f"  {shown}"] if text else []
        return
    # Between blanks only: the search for other places would take hours for some texts.
    lines = textwrap.wrap(escape_unseen(shown), _WIDTH - 6, break_long_words=False, break_on_hyphens=False)
    yield from (f"    {line}" if count else f"  {line}" for count, line in enumerate(lines))


def _describe_inputs(schema: Any) -> str:
    """The names of a tool's arguments, and what the model is told about them."""
    match schema:
        case {"properties": properties} if isinstance(properties, dict):
            named = cast("dict[str, Any]", properties)
            return ", ".join(f"{name}{_describe_input(given)}" for name, given in named.items())
        case _:
            return ""


def _describe_input(given: Any) -> str:
    match given:
        case {"description": description}:
            return f" ({_plain_text(description)})"
        case _:
            return ""


def _describe_hints(annotations: Any) -> str:
    given = cast("dict[str, Any]", annotations) if isinstance(annotations, dict) else {}
    hints = (
        f"{'not ' if value is False else ''}{_HINTS[key]}" if key in _HINTS else f"{key} {_plain_text(value)}"
        for key, value in given.items()
        if value is not None
    )
    return ", ".join(hints)


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")


def _review_settings(data: bytes) -> Lines:
    """Every value, then why the loader would refuse them."""
    try:
        table, origin_of = read_document(Path(_CONFIG), data)
        check_depth(table, origin_of)
        yield from (f"sets  {key} = {_mask_token(key, value)!r}" for key, value in _walk_leaves(table, ""))
        checked_leaves(table, origin_of)
    except SettingsError as error:
        yield from (_Refusal(line) for line in str(error).splitlines())


def _mask_token(key: str, value: Any) -> Any:
    """The value as it is shown: a profile's token gives a client something, and changes nothing of what is run."""
    return MASK if key.startswith("profiles.") and key.endswith(".token") and value else value


def _walk_leaves(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _walk_leaves(cast("dict[str, Any]", value), f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _read_json(path: str, data: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    """A JSON object within the loader's bounds, and what is wrong with it, each with line and column."""
    report = FileReport(Path(path))
    content = report.parse(data)
    told = ((found, found.message.partition("; a tool file looks like ")[0]) for found in report.problems)
    return content, [f"{found.line}:{found.column}: {message}" for found, message in told]


def _count_lines(file: PinnedFile) -> str:
    text = _text_lines(file.data)
    if text is None:
        return f"{len(file.data):,} bytes"
    return "1 line" if len(text) == 1 else f"{len(text)} lines"


def _diff_file(path: str, before: bytes, snapshot: Snapshot, changes: Difference) -> Lines:
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
        return
    differences = _diff_lines(old, new)
    if (first := next(differences, None)) is not None:
        lines = chain((f"--- approved/{path}", f"+++ now/{path}", first), differences)
        yield from (_TOKEN_LINE.sub(rf"\1{MASK}", line) for line in lines) if path == _CONFIG else lines


def _diff_lines(old: list[str], new: list[str]) -> Lines:
    """The lines of a unified diff, without its head."""
    if len(old) <= _MOST_COMPARED and len(new) <= _MOST_COMPARED:
        return islice(difflib.unified_diff(old, new, lineterm=""), 2, None)
    return _diff_long(old, new)


def _diff_long(old: list[str], new: list[str]) -> Lines:
    """Long texts without the lines they begin and end with alike: to find more could take hours."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    gone, came = old[head : len(old) - tail], new[head : len(new) - tail]
    yield f"@@ -{head + 1},{len(gone)} +{head + 1},{len(came)} @@"
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
    return _escape_text(text, LONGEST_LINE)


def _escape_text(text: str, longest: int = LONGEST_TEXT) -> str:
    shown = escape_unseen(text[:longest].replace("\t", "    "))
    return shown if len(text) <= longest else f"{shown}… ({len(text) - longest:,} more)"
