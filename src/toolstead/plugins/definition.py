"""Checks what a plugin's author wrote: any value in, a valid `Plugin` and `Hooks` out."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from toolstead.errors import DefinitionError, PluginError
from toolstead.plugins.contract import HOOKS, Hooks, Plugin, Tool
from toolstead.plugins.field_check import bad_field, check_function, describe_kind, explain_no_description, show_value
from toolstead.plugins.health import describe_crash
from toolstead.plugins.names import BETWEEN, LONGEST_TOOL_NAME, NAME, qualify_name
from toolstead.plugins.prompt_definition import check_instructions, check_prompts, check_resources
from toolstead.plugins.settings import check_settings_class
from toolstead.schema.compiled import compile_input_schema, compile_schema, schema_from_parameters
from toolstead.schema.visible import first_unseen

if TYPE_CHECKING:
    from toolstead.plugins.discovery import Discovered

logger = logging.getLogger(__name__)

LONGEST_NAME = 32
LONGEST_VERSION = 100

_STEPS = ("register", "start", "stop")


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
        raise bad_field(name, "plugin", f"a Plugin(name={name!r}, …) is needed, not {describe_kind(value)}")
    _check_name(value.name, name)
    version: Any = value.version
    if not isinstance(version, str) or not version.strip():
        raise bad_field(name, "version", f'text such as "1.0.0" is needed, not {show_value(version)}')
    if len(version) > LONGEST_VERSION:
        raise bad_field(name, "version", f"{len(version)} characters; at most {LONGEST_VERSION}")
    if (reason := first_unseen(version, "name")) is not None:
        raise bad_field(name, "version", reason)
    for step in _STEPS:
        if (function := getattr(value, step)) is not None:
            check_function(name, step, function, ("ctx",))
    check_settings_class(value)
    _check_tools(name, value.tools, bare=bare)
    check_prompts(name, value.prompts, bare=bare)
    check_resources(name, value.resources)
    check_instructions(name, value.instructions)
    return value


def check_hooks(plugin: str, value: Any) -> Hooks:
    """Check what `register` returned. None is refused: it is also what a forgotten `return` gives, which drops a gate.

    Raises:
        PluginError: It is no `Hooks`, or one of the hooks cannot be called.
    """
    if not isinstance(value, Hooks):
        reason = f"it returned {describe_kind(value)}; end it with `return Hooks(…)`, or `return Hooks()` for none"
        raise bad_field(plugin, "register", reason)
    for hook, arguments in HOOKS.items():
        if (function := getattr(value, hook)) is not None:
            check_function(plugin, hook, function, arguments)
    for field in ("before", "after"):
        names: Any = getattr(value, field)
        if isinstance(names, str) or not isinstance(names, Sequence | set | frozenset):
            raise bad_field(
                plugin, field, f'a list of plugins\' names is needed, such as ["context"], not {show_value(names)}'
            )
        for item in cast("Sequence[Any]", names):
            if not isinstance(item, str):
                raise bad_field(plugin, field, f"names of plugins are text, not {show_value(item)}")
    seconds: Any = value.timeout
    if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
        raise bad_field(plugin, "timeout", f"seconds above 0 are needed, not {show_value(seconds)}")
    return value


def _check_name(given: Any, found: str) -> None:
    if not isinstance(given, str) or not given:
        raise bad_field(found, "name", f"a name is needed, such as {found!r}, not {show_value(given)}")
    if not NAME.fullmatch(given):
        reason = first_unseen(given, "name") or "only letters, digits, `_` and `-` are allowed, such as `my-plugin`"
        raise bad_field(found, "name", f"{show_value(given)}: {reason}")
    if len(given) > LONGEST_NAME:
        raise bad_field(found, "name", f"{given!r} has {len(given)} characters; at most {LONGEST_NAME}")
    if BETWEEN in given:
        raise bad_field(
            found, "name", f"{given!r} has `{BETWEEN}` in it, which separates a plugin's name from its tool's"
        )
    if given != found:
        raise bad_field(
            found,
            "name",
            f"it is Plugin(name={given!r}), but its file or entry point is called {found!r}; rename one",
        )


def _check_tools(plugin: str, tools: Any, *, bare: bool) -> None:
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise bad_field(plugin, "tools", f"a list of tools is needed, not {describe_kind(tools)}")
    seen: set[str] = set()
    for position, tool in enumerate(cast("Sequence[Any]", tools), start=1):
        if not isinstance(tool, Tool):
            raise bad_field(
                plugin,
                "tools",
                f"number {position} is {describe_kind(tool)}; decorate the function with @tool, or build Tool(…)",
            )
        name: Any = tool.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise bad_field(
                plugin,
                "tools",
                f"number {position}: name: letters, digits, `_` and `-` are needed, not {show_value(name)}",
            )
        if name in seen:
            raise bad_field(plugin, "tools", f"two are called {name!r}; give one of them another name")
        seen.add(name)
        whole = qualify_name(plugin, name, bare=bare)
        if len(whole) > LONGEST_TOOL_NAME:
            raise bad_field(
                plugin,
                "tools",
                f"{name!r}: models see {whole!r}, which has {len(whole)} characters; at most {LONGEST_TOOL_NAME}",
            )
        _check_tool(plugin, tool)


def _check_tool(plugin: str, tool: Tool) -> None:
    """Check what would make the tool useless; the registry checks the rest, and may quarantine one tool."""
    description: Any = tool.description
    if not isinstance(description, str) or not description.strip():
        raise bad_field(plugin, "tools", f"{tool.name!r}: description: {explain_no_description(tool)}")
    check_function(plugin, "tools", tool.handler, ("ctx", "input", "meta"), where=f"{tool.name!r}: handler: ")
    try:
        schema = tool.schema
        if tool.parameters is not None:
            schema = schema_from_parameters(tool.parameters, tool=tool.name)
        compile_input_schema(schema, tool=tool.name)
        if tool.output_schema is not None:
            compile_schema(tool.output_schema, tool=tool.name, field="output_schema")
    except DefinitionError as error:
        raise bad_field(plugin, "tools", f"{tool.name!r}: {error.field}: {error.reason}") from error


def load_definition(found: Discovered) -> Plugin:
    """What a plugin is, from its code, which is not used any further.

    Raises:
        PluginError: It cannot be loaded.
    """
    try:
        return check_plugin(found.load(), found.name, bare=found.bare)
    except (PluginError, KeyboardInterrupt):
        raise
    except BaseException as error:  # importing runs anything
        logger.info("plugin %r cannot be loaded", found.name, exc_info=True)
        reason = f"{describe_crash(error, found.origin)}; without its code its settings cannot be checked"
        raise PluginError(plugin=found.name, field="load", reason=reason) from None
    finally:
        found.unload()
