"""The user's own tool files, as people see, check and change them over HTTP.

Files are read by the loader of tool files, written by what `toolstead tools new` writes with, and a text is checked as
`toolstead tools check` checks it. Only files of the user's folder are touched, never through a link.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from toolstead.adapters.rest.console_answers import (
    CheckedTool,
    ToolFileCheck,
    ToolFileRefusal,
    ToolFileSummary,
    ToolFileText,
    ToolFileWritten,
)
from toolstead.app.authoring import (
    add_file,
    find_name_holder,
    find_program,
    is_folder,
    is_variable_set,
    put_file,
    put_format_schema,
)
from toolstead.app.private_file import lock_file
from toolstead.errors import ToolError, ToolsteadError
from toolstead.tools.sources.json_advice import advise_author
from toolstead.tools.sources.json_files import LARGEST_FILE, LoadedFile, read_regular
from toolstead.tools.validation import fill_defaults
from toolstead.types.tool import Problem

if TYPE_CHECKING:
    from toolstead.app.wiring import Wiring
    from toolstead.tools.definition import RegisteredTool

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GONE = ""
"""The digest of a file that is not there."""
_FILE_MODE = 0o666
_NOT_READ = "this server was started without the user's tools (user_tools=False), so none is read or written here"


class SteadToolFiles:
    """The tool files of the user's folder."""

    def __init__(self, parts: Wiring) -> None:
        """Read nothing yet."""
        self._parts = parts
        self._source = parts.files.users
        self._folder = self._source.folders[0]
        self._registry = parts.registry
        self._changing = asyncio.Lock()
        self._lock = parts.places.data / "tool-files"

    async def list_files(self) -> list[ToolFileSummary]:
        """The files, by name, with what each offers and what is wrong with it."""
        problems: dict[str, list[Problem]] = {}
        for problem in self._registry.current.problems:
            problems.setdefault(problem.source, []).append(problem)
        return [
            ToolFileSummary(
                name=path.stem,
                path=str(path),
                tools=tuple(tool.info.name for tool in tools),
                problems=tuple(problems.get(str(path), ())),
            )
            for path, tools in sorted(self._source.list_kept().items())
        ]

    async def read_file(self, name: str) -> ToolFileText | ToolFileRefusal:
        """A file's text as it is now."""
        found = await asyncio.to_thread(self._read, name)
        if isinstance(found, ToolFileRefusal):
            return found
        path, data = found
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _refuse("content", f"{path} is not UTF-8 text; open it in an editor on the server's machine")
        return ToolFileText(name=name, path=str(path), text=text, digest=_digest(data))

    async def write_file(self, name: str, text: str, expected: str | None) -> ToolFileWritten | ToolFileRefusal:
        """Write a file, if its text is good, and offer its tools at once.

        Args:
            name: The file's name without `.json`.
            text: All of its text.
            expected: The digest of what it has to hold now, empty where it must not exist; None for anything.
        """
        async with self._changing:
            written = await asyncio.to_thread(self._write, name, text, expected)
            if isinstance(written, ToolFileRefusal):
                return written
            await self._registry.refresh(self._source)
        logger.info("%s was written over HTTP", written.path)
        names = [tool.info.name for tool in written.tools]
        reasons = {one: self._registry.current.hidden.get(one) for one in names}
        return ToolFileWritten(
            name=name,
            path=str(written.path),
            digest=_digest(text.encode()),
            tools=tuple(names),
            hidden={one: reason for one, reason in reasons.items() if reason is not None},
            warnings=written.warnings,
        )

    async def delete_file(self, name: str, expected: str | None) -> ToolFileRefusal | None:
        """Delete a file, and take its tools away at once; `expected` as for writing."""
        async with self._changing:
            deleted = await asyncio.to_thread(self._delete, name, expected)
            if isinstance(deleted, ToolFileRefusal):
                return deleted
            await self._registry.refresh(self._source)
        logger.info("%s was deleted over HTTP", deleted)
        return None

    async def check_text(
        self, text: str, *, name: str | None = None, tool: str | None = None, input: Mapping[str, Any] | None = None
    ) -> ToolFileCheck:
        """Check a text as if it were written; nothing is written or run.

        Args:
            text: The text of a tool file.
            name: The file that it is for; names that this file holds are free. Where it is not known, those that any
                of the user's files holds are.
            tool: The tool whose call is to be shown; every one unless given.
            input: The arguments of that call; without them none is shown.
        """
        data = _encode(text)
        file, given = await asyncio.to_thread(self._check, data, name)
        checked = [
            await self._describe_tool(one, given[one.info.name], input if tool in (None, one.info.name) else None)
            for one in file.tools
        ]
        problems = file.problems
        names = ", ".join(given)
        if tool is not None and tool not in given and given:
            problems = (*problems, Problem(source=str(file.path), message=f"it holds no tool {tool!r}; it has {names}"))
        return ToolFileCheck(problems=problems, warnings=file.warnings, tools=tuple(checked))

    def _find_path(self, name: str) -> Path | ToolFileRefusal:
        """The file of a name: what `tools new` would write, or one that is there already."""
        path = self._folder / f"{name}.json"
        if not self._parts.places.offers_users and self._folder == self._parts.places.user_content / "tools":
            return _refuse("name", _NOT_READ)
        if _NAME.fullmatch(name) is None and path not in self._source.list_kept():
            return _refuse("name", f"{name[:100]!r} is no name for a tool file: 1 to 64 letters, digits, _ and -")
        return path

    def _read(self, name: str) -> tuple[Path, bytes] | ToolFileRefusal:
        """A file and what it holds."""
        path = self._find_path(name)
        if isinstance(path, ToolFileRefusal):
            return path
        if path.is_symlink():
            return _refuse("content", f"{path} is a link, and no link is followed here; open the file that it leads to")
        try:
            data = read_regular(path, follows_link=False)
        except FileNotFoundError:
            return _refuse("unknown", f"there is no {path}")
        except OSError as error:
            return _refuse("content", f"{path} cannot be read: {error.strerror}")
        if len(data) > LARGEST_FILE:
            return _refuse("content", f"{path} is larger than {LARGEST_FILE:,} bytes, the most that is read")
        return path, data

    def _write(self, name: str, text: str, expected: str | None) -> LoadedFile | ToolFileRefusal:
        path = self._find_path(name)
        if isinstance(path, ToolFileRefusal):
            return path
        data = _encode(text)
        file, _ = self._check(data, name)
        if file.problems:
            count = len(file.problems)
            message = f"the text has {count} problem{'' if count == 1 else 's'}; nothing was written"
            return _refuse("content", f"{message}: {file.problems[0].message}", problems=file.problems)
        try:
            with lock_file(self._lock):
                before = self._read(name)
                if isinstance(before, ToolFileRefusal) and before.reason != "unknown":
                    return before
                now = _GONE if isinstance(before, ToolFileRefusal) else _digest(before[1])
                if expected is not None and expected != now:
                    return _explain_conflict(path, now)
                if now == _GONE:
                    add_file(path, data)
                else:
                    put_file(path, data, mode=stat.S_IMODE(path.lstat().st_mode) & _FILE_MODE)
                put_format_schema(path.parent)
        except (ToolsteadError, OSError) as error:
            return _refuse("content", str(error))
        return file

    def _delete(self, name: str, expected: str | None) -> Path | ToolFileRefusal:
        try:
            with lock_file(self._lock):
                found = self._read(name)
                if isinstance(found, ToolFileRefusal):
                    is_gone = found.reason == "unknown" and expected not in (None, _GONE)
                    return _explain_conflict(self._folder / f"{name}.json", _GONE) if is_gone else found
                path, data = found
                if expected is not None and expected != _digest(data):
                    return _explain_conflict(path, _digest(data))
                path.unlink()
        except (ToolsteadError, OSError) as error:
            return _refuse("content", str(error))
        return path

    def _check(self, data: bytes, name: str | None) -> tuple[LoadedFile, dict[str, dict[str, Any]]]:
        """A text as the loader reads it, without the tools whose names are taken; and its tools as it gives them."""
        path = self._folder / f"{name}.json" if name is not None else Path("tool file")
        given = _find_tools(data)
        others = self._parts.files.loaded_files()
        if name is None:
            others = [file for file in others if file.path.parent != self._folder]
        current, held = self._registry.current, dict[str, str]()
        for one in given:
            registered = current.held.get(one)
            info = None if registered is None else registered.info
            if name is None and info is not None and Path(info.provenance.origin).parent == self._folder:
                continue
            holder = find_name_holder(one, path, others, held=info, is_hidden=one not in current.tools)
            if holder is not None:
                held[one] = holder
        return self._source.check_text(path, data, held), given

    async def _describe_tool(
        self, tool: RegisteredTool, given: dict[str, Any], input: Mapping[str, Any] | None
    ) -> CheckedTool:
        environ, project = self._parts.files.environ, self._parts.places.project
        advice = advise_author(
            given,
            find_program=partial(find_program, environ=environ),
            is_set=partial(is_variable_set, environ=environ),
            has_folder=partial(is_folder, project),
        )
        kind = cast('Literal["shell", "http", "file-read"]', given["handler"]["type"])
        preview, error = (None, "") if input is None else await self._preview_call(tool, kind, input)
        return CheckedTool(
            name=tool.info.name,
            description=tool.info.description,
            input_schema=tool.info.input_schema,
            kind=kind,
            advice=tuple(await asyncio.to_thread(list, advice)),
            preview=preview,
            preview_error=error,
        )

    async def _preview_call(
        self, tool: RegisteredTool, kind: str, input: Mapping[str, Any]
    ) -> tuple[dict[str, Any] | None, str]:
        """What a call would run, by the handler's own function; or why the call would be refused."""
        filled = fill_defaults(tool.input, input)
        if problems := await self._parts.dispatcher.validator.find_problems(tool.input, filled):
            return None, f"Invalid arguments for {tool.info.name}:\n" + "\n".join(problems)
        handler: Any = tool.tool.handler
        try:
            shown: dict[str, Any] = await asyncio.to_thread(handler.preview_call, filled)
        except ToolError as error:
            return None, str(error)
        match kind:
            case "shell":
                shown["argv"] = [argv for pipeline in shown["argv"] for argv in pipeline]
            case "http":
                shown = {key: value for key, value in shown.items() if value is not None}
            case _:
                shown = {"path": shown["file"], "maxSize": shown["maxSize"]}
        return shown, ""


def _refuse(
    reason: Literal["name", "unknown", "conflict", "content"], message: str, *, problems: tuple[Problem, ...] = ()
) -> ToolFileRefusal:
    return ToolFileRefusal(reason=reason, message=message, problems=problems)


def _explain_conflict(path: Path, now: str) -> ToolFileRefusal:
    what = "is not there any more" if now == _GONE else "is not as it was when it was read"
    return ToolFileRefusal(reason="conflict", message=f"{path} {what}; nothing was changed", digest=now)


def _find_tools(data: bytes) -> dict[str, dict[str, Any]]:
    """The tools of a text by their names, as it gives them; none where it is no tool file."""
    if len(data) > LARGEST_FILE:
        return {}
    try:
        content = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return {}
    tools: Any = cast("dict[str, Any]", content).get("tools") if isinstance(content, dict) else None
    found: dict[str, dict[str, Any]] = {}
    for tool in cast("list[Any]", tools) if isinstance(tools, list) else ():
        one = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        if isinstance(name := one.get("name"), str):
            found.setdefault(name, one)
    return found


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # which the loader refuses


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
