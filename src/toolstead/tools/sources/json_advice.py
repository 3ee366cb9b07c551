"""What a good tool file will probably do otherwise than its author expects, for its author."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from toolstead.tools.handlers.secrets import REFERENCE
from toolstead.tools.handlers.shell_syntax import Command, Script, Step, parse

_SINGLE_BRACES = re.compile(r"(?<![{$])\{(\w[\w-]*)\}(?!\})")
_STATUS_1: Mapping[str, str] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"), "nothing is found"),
    **dict.fromkeys(("diff", "cmp"), "there are differences"),
}
"""Programs whose exit status 1 is an answer → what it means."""
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})
_BARE_VARIABLE = re.compile(r"(?<![\\$\w])\$([A-Za-z_]\w*)")
_BUILT_IN = frozenset(
    (
        "alias",
        "bg",
        "cd",
        "eval",
        "exec",
        "exit",
        "export",
        "fg",
        "popd",
        "pushd",
        "set",
        "source",
        "ulimit",
        "umask",
        "unset",
    )
)
"""Commands that only a shell has."""
_SECRET_WORDS = re.compile(r"token|secret|api-?key|password", re.IGNORECASE)


def advise_author(
    tool: Mapping[str, Any],
    *,
    find_program: Callable[[str], object],
    is_set: Callable[[str], bool],
    has_folder: Callable[[str], bool],
) -> Iterator[str]:
    """What to look at in a tool, one sentence each.

    Args:
        tool: The tool as its file has it.
        find_program: Gives nothing for a program that is not on the PATH.
        is_set: Whether a variable is set in the environment.
        has_folder: Whether a folder that a file names is there.
    """
    handler: Mapping[str, Any] = tool["handler"]
    template: str = handler.get("command") or handler.get("url") or ""
    for name in dict.fromkeys(_SINGLE_BRACES.findall(template)):
        yield f"{{{name}}} is text of the template, no parameter; did you mean {{{{{name}}}}}?"
    has_body = handler["type"] == "http" and handler.get("method", "POST") in ("POST", "PUT", "PATCH")
    if has_body and not tool["inputSchema"].get("properties"):
        yield "it takes no arguments, so the body is always empty; --param NAME:TYPE declares what goes into it"
    if handler["type"] == "shell":
        yield from _advise_command(parse(handler["command"]), handler.get("okStatus", (0,)), find_program)
    if handler["type"] == "file-read" and not has_folder(folder := handler["basePath"]):
        yield f"there is no folder {folder}; until there is, every call fails"
    secrets = {**handler.get("headers", {}), **handler.get("env", {})}
    for name, value in secrets.items():
        for variable in _BARE_VARIABLE.findall(value):
            yield f"${variable} in {name} is text as it stands; did you mean ${{{variable}}}?"
    for name, value in handler.get("headers", {}).items():
        if _BARE_VARIABLE.search(value):
            continue
        is_secret = name.lower() in _CREDENTIALS or _SECRET_WORDS.search(name)
        if is_secret and not REFERENCE.search(value):
            yield f"the value of {name} is in the file as it is; ${{NAME}} takes it from the environment instead"
    for name in dict.fromkeys(name for value in secrets.values() for name in REFERENCE.findall(value)):
        if not is_set(name):
            yield f"{name} is not set in this environment; until it is, a call fails and says so"


def explain_status_1(script: Script) -> str | None:
    """What it means that a command ends with status 1, where that is an answer; None where nothing is known of it."""
    return _explain_status_1(script[-1]) if script[-1].after != "||" else None


def _explain_status_1(step: Step) -> str | None:
    program = _name_program(step)
    return f"{program} ends with status 1 when {_STATUS_1[program]}" if program in _STATUS_1 else None


def _name_program(step: Step) -> str:
    """The program whose status is that of a step."""
    return (step.pipeline[-1][0].literal or "").rpartition("/")[2]


def _replace_built_in(command: Command) -> str:
    """What stands in a tool file instead of a command that only a shell has."""
    words = [word.literal for word in command]
    if words[0] == "cd":
        folder = json.dumps(words[1], ensure_ascii=False) if len(words) > 1 and words[1] else "FOLDER"
        return f': set "cwd": {folder} in the handler'
    return ': set "env" in the handler' if words[0] in ("export", "source") else ""


def _advise_command(script: Script, ok_status: Collection[int], find_program: Callable[[str], object]) -> Iterator[str]:
    commands = {command[0].literal: command for step in reversed(script) for command in reversed(step.pipeline)}
    for program, command in reversed(commands.items()):
        if program in _BUILT_IN:
            yield f"{program} belongs to a shell, and there is none{_replace_built_in(command)}"
        elif program and "/" not in program and not find_program(program):
            yield f"{program} is not on your PATH; install it, or give its path: a call fails without it"
    if 1 not in ok_status and (meaning := explain_status_1(script)) is not None:
        yield f'{meaning}, and a call reports that as an error; "okStatus": [0, 1] in the handler makes it an answer'
    if len(script) > 1 and script[-1].after == "||" and _name_program(script[-1]) in ("true", ":"):
        searching = _name_program(script[-2])
        if searching in _STATUS_1:
            yield (
                f"`|| true` hides every failure of {searching}, such as a path that does not exist; without it, "
                f'"okStatus": [0, 1] in the handler lets pass only that {_STATUS_1[searching]}'
            )
