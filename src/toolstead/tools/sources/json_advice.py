"""What a good tool file will probably do otherwise than its author expects: for whoever makes one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from toolstead.tools.handlers.secrets import REFERENCE
from toolstead.tools.handlers.shell_syntax import Script, Step, parse

_SINGLE_BRACES = re.compile(r"(?<![{$])\{(\w[\w-]*)\}(?!\})")
_STATUS_1: Mapping[str, str] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"), "nothing is found"),
    **dict.fromkeys(("diff", "cmp"), "there are differences"),
}
"""Programs whose exit status 1 is an answer → what it means."""
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})
_SECRET_WORDS = re.compile(r"token|secret|api-?key|password", re.IGNORECASE)


def advise_author(
    tool: Mapping[str, Any], *, find_program: Callable[[str], object], is_set: Callable[[str], bool]
) -> Iterator[str]:
    """What to look at in a tool, one sentence each.

    Args:
        tool: The tool as its file has it.
        find_program: Gives nothing for a program that is not on the PATH.
        is_set: Whether a variable is set in the environment.
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
    secrets = {**handler.get("headers", {}), **handler.get("env", {})}
    for name, value in handler.get("headers", {}).items():
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


def _advise_command(script: Script, ok_status: Collection[int], find_program: Callable[[str], object]) -> Iterator[str]:
    programs = [command[0].literal for step in script for command in step.pipeline]
    for program in dict.fromkeys(filter(None, programs)):
        if "/" not in program and not find_program(program):
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
