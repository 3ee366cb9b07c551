"""Checks what a plugin's author wrote: any value in, a valid `Plugin` and `Hooks` out."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Sequence
from typing import Any, cast

from toolstead.errors import DefinitionError, PluginError
from toolstead.plugins.contract import HOOKS, Hooks, Plugin, Tool
from toolstead.plugins.settings import check_settings_class
from toolstead.schema.compiled import compile_input_schema, compile_schema, schema_from_parameters
from toolstead.schema.visible import escape_unseen, first_unseen

LONGEST_NAME = 32
LONGEST_TOOL_NAME = 64
LONGEST_VERSION = 100
BETWEEN = "__"
"""Stands between a plugin's name and its tool's."""

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_STEPS = ("register", "start", "stop")


def qualify_name(plugin: str, tool: str, *, bare: bool = False) -> str:
    """What a model calls a plugin's tool."""
    return tool if bare else f"{plugin}{BETWEEN}{tool}"


def check_plugin(value: Any, name: str, *, bare: bool = False) -> Plugin:
    """Check what a module has as its `plugin`.

    Args:
        value: What it has.
        name: The name under which it was found.
        bare: Whether its tools keep their bare names.

    Raises:
        PluginError: Something is wrong with it; it says with which field, and what would be right.
    """
    if not isinstance(value, Plugin):
        raise _bad_field(name, "plugin", f"a Plugin(name={name!r}, …) is needed, not {_describe_kind(value)}")
    _check_name(value.name, name)
    version: Any = value.version
    if not isinstance(version, str) or not version.strip():
        raise _bad_field(name, "version", f'text such as "1.0.0" is needed, not {_show_value(version)}')
    if len(version) > LONGEST_VERSION:
        raise _bad_field(name, "version", f"{len(version)} characters; at most {LONGEST_VERSION}")
    if (reason := first_unseen(version, "name")) is not None:
        raise _bad_field(name, "version", reason)
    for step in _STEPS:
        if (function := getattr(value, step)) is not None:
            _check_function(name, step, function, ("ctx",))
    check_settings_class(value)
    _check_tools(name, value.tools, bare=bare)
    return value


def check_hooks(plugin: str, value: Any) -> Hooks:
    """Check what `register` returned; None is no hooks.

    Raises:
        PluginError: It is neither, or one of the hooks cannot be called.
    """
    if value is None:
        return Hooks()
    if not isinstance(value, Hooks):
        raise _bad_field(plugin, "register", f"it must return Hooks(…) or None, not {_describe_kind(value)}")
    for hook, arguments in HOOKS.items():
        if (function := getattr(value, hook)) is not None:
            _check_function(plugin, hook, function, arguments)
    for field in ("before", "after"):
        names: Any = getattr(value, field)
        if isinstance(names, str) or not isinstance(names, Sequence | set | frozenset):
            raise _bad_field(
                plugin, field, f'a list of plugins\' names is needed, such as ["context"], not {_show_value(names)}'
            )
        for item in cast("Sequence[Any]", names):
            if not isinstance(item, str):
                raise _bad_field(plugin, field, f"names of plugins are text, not {_show_value(item)}")
    seconds: Any = value.timeout
    if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
        raise _bad_field(plugin, "timeout", f"seconds above 0 are needed, not {_show_value(seconds)}")
    return value


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine: a function, a method, a partial, an object with an async `__call__`.

    A plain function that wraps an async one (`functools.wraps`) is believed to return its coroutine.
    """
    while isinstance(function, functools.partial):
        function = cast("Any", function.func)
    called = function if inspect.isroutine(function) else cast("Any", type(function)).__call__
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(inspect.unwrap(called))


def _check_name(given: Any, found: str) -> None:
    if not isinstance(given, str) or not given:
        raise _bad_field(found, "name", f"a name is needed, such as {found!r}, not {_show_value(given)}")
    if not _NAME.fullmatch(given):
        reason = first_unseen(given, "name") or "only letters, digits, `_` and `-` are allowed, such as `my-plugin`"
        raise _bad_field(found, "name", f"{_show_value(given)}: {reason}")
    if len(given) > LONGEST_NAME:
        raise _bad_field(found, "name", f"{given!r} has {len(given)} characters; at most {LONGEST_NAME}")
    if BETWEEN in given:
        raise _bad_field(
            found, "name", f"{given!r} has `{BETWEEN}` in it, which separates a plugin's name from its tool's"
        )
    if given != found:
        raise _bad_field(
            found, "name", f"it calls itself {given!r}, but was found as {found!r}; give both the same name, any one"
        )


def _check_tools(plugin: str, tools: Any, *, bare: bool) -> None:
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise _bad_field(plugin, "tools", f"a list of tools is needed, not {_describe_kind(tools)}")
    seen: set[str] = set()
    for position, tool in enumerate(cast("Sequence[Any]", tools), start=1):
        if not isinstance(tool, Tool):
            raise _bad_field(
                plugin,
                "tools",
                f"number {position} is {_describe_kind(tool)}; decorate an async function with @tool, or build Tool(…)",
            )
        name: Any = tool.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _bad_field(
                plugin,
                "tools",
                f"number {position}: name: letters, digits, `_` and `-` are needed, not {_show_value(name)}",
            )
        if name in seen:
            raise _bad_field(plugin, "tools", f"two are called {name!r}; give one of them another name")
        seen.add(name)
        whole = qualify_name(plugin, name, bare=bare)
        if len(whole) > LONGEST_TOOL_NAME:
            raise _bad_field(
                plugin,
                "tools",
                f"{name!r}: models see {whole!r}, which has {len(whole)} characters; at most {LONGEST_TOOL_NAME}",
            )
        _check_tool(plugin, tool)


def _check_tool(plugin: str, tool: Tool) -> None:
    """Check what would make the tool useless; the registry checks the rest, and may quarantine one tool."""
    description: Any = tool.description
    if not isinstance(description, str) or not description.strip():
        raise _bad_field(plugin, "tools", f"{tool.name!r}: description: a sentence for the model is needed")
    _check_function(plugin, "tools", tool.handler, ("ctx", "input", "meta"), where=f"{tool.name!r}: handler: ")
    try:
        schema = tool.schema
        if tool.parameters is not None:
            schema = schema_from_parameters(tool.parameters, tool=tool.name)
        compile_input_schema(schema, tool=tool.name)
        if tool.output_schema is not None:
            compile_schema(tool.output_schema, tool=tool.name, field="output_schema")
    except DefinitionError as error:
        raise _bad_field(plugin, "tools", f"{tool.name!r}: {error.field}: {error.reason}") from error


def _check_function(plugin: str, field: str, function: Any, arguments: tuple[str, ...], where: str = "") -> None:
    """Refuse what cannot be awaited, or cannot be called with these."""
    call = f"({', '.join(arguments)})"
    if not callable(function):
        raise _bad_field(plugin, field, f"{where}an `async def` with {call} is needed, not {_describe_kind(function)}")
    if not is_async(function):
        raise _bad_field(plugin, field, f"{where}an `async def` with {call} is needed; put `async` before its `def`")
    try:
        # The signature of the call, not of what is wrapped: a decorator may take other arguments.
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:
        return  # compiled code may have none to show
    try:
        signature.bind(*arguments)
    except TypeError:
        raise _bad_field(
            plugin, field, f"{where}it is called with {call}, but takes {escape_unseen(str(signature)[:200])}"
        ) from None


def _describe_kind(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


def _show_value(value: Any) -> str:
    if isinstance(value, str):
        return repr(escape_unseen(value[:80]))
    return repr(value) if isinstance(value, int | float | None) else _describe_kind(value)


def _bad_field(plugin: str, field: str, reason: str) -> PluginError:
    return PluginError(plugin=plugin, field=field, reason=reason)
