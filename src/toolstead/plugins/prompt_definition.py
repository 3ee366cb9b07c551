"""Checks the prompts, resources and instructions of a plugin: what is wrong is refused when the plugin is loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolstead.plugins.contract import Prompt, PromptArgument, Resource
from toolstead.plugins.field_check import bad_field, check_function, describe_kind, show_value
from toolstead.plugins.names import LONGEST_TOOL_NAME, NAME, qualify_name
from toolstead.plugins.uri_template import UriTemplate
from toolstead.schema.visible import first_unseen

MOST_PROMPTS = 1_000
MOST_RESOURCES = 1_000
LONGEST_URI = 2_000
LONGEST_INSTRUCTIONS = 4_000
OWN_SCHEMES = ("toolstead", "file")
"""Schemes of addresses that no plugin may use: ours, and that of files, which a client would look for on its own."""

_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):\S+")


def check_prompts(plugin: str, prompts: Any, *, bare: bool) -> None:
    """Check a plugin's prompts.

    Raises:
        PluginError: One of them is wrong.
    """
    seen: set[str] = set()
    for position, prompt in enumerate(_check_list(plugin, "prompts", prompts, MOST_PROMPTS), start=1):
        if not isinstance(prompt, Prompt):
            raise bad_field(plugin, "prompts", f"number {position} is {describe_kind(prompt)}; build Prompt(…)")
        name: Any = prompt.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            reason = f"number {position}: name: letters, digits, `_` and `-` are needed, not {show_value(name)}"
            raise bad_field(plugin, "prompts", reason)
        whole = qualify_name(plugin, name, bare=bare)
        if len(whole) > LONGEST_TOOL_NAME:
            reason = f"{name!r}: clients see {whole!r}, which has {len(whole)} characters; at most {LONGEST_TOOL_NAME}"
            raise bad_field(plugin, "prompts", reason)
        if name in seen:
            raise bad_field(plugin, "prompts", f"two are called {name!r}; give one of them another name")
        seen.add(name)
        check_function(plugin, "prompts", prompt.handler, ("ctx", "arguments"), where=f"{name!r}: handler: ")
        _check_texts(plugin, "prompts", name, description=prompt.description, title=prompt.title)
        _check_timeout(plugin, "prompts", name, prompt.timeout)
        _check_arguments(plugin, name, prompt.arguments)


def check_resources(plugin: str, resources: Any) -> None:
    """Check a plugin's resources.

    Raises:
        PluginError: One of them is wrong.
    """
    seen: set[str] = set()
    for position, resource in enumerate(_check_list(plugin, "resources", resources, MOST_RESOURCES), start=1):
        if not isinstance(resource, Resource):
            raise bad_field(plugin, "resources", f"number {position} is {describe_kind(resource)}; build Resource(…)")
        uri: Any = resource.uri
        found = _SCHEME.fullmatch(uri) if isinstance(uri, str) and len(uri) <= LONGEST_URI else None
        if found is None or first_unseen(uri, "name") is not None:
            reason = f"number {position}: uri: an address such as `notes://today` is needed, not {show_value(uri)}"
            raise bad_field(plugin, "resources", reason)
        if found[1].lower() in OWN_SCHEMES:
            reason = f"{uri!r}: uri: `{found[1]}:` is Toolstead's own; use another scheme, such as `{plugin}:`"
            raise bad_field(plugin, "resources", reason)
        if uri in seen:
            raise bad_field(plugin, "resources", f"two have the address {uri!r}; give one of them another")
        seen.add(uri)
        try:
            names = UriTemplate(uri).names
        except ValueError as error:
            raise bad_field(plugin, "resources", f"{uri!r}: uri: {error}") from None
        shown: Any = resource.name
        if not isinstance(shown, str) or not shown.strip():
            raise bad_field(plugin, "resources", f"{uri!r}: name: a name for people is needed")
        check_function(plugin, "resources", resource.read, ("ctx", "variables"), where=f"{uri!r}: read: ")
        _check_texts(
            plugin,
            "resources",
            uri,
            name=resource.name,
            description=resource.description,
            title=resource.title,
            mime_type=resource.mime_type,
        )
        _check_timeout(plugin, "resources", uri, resource.timeout)
        complete: Any = resource.complete
        if not isinstance(complete, Mapping):
            raise bad_field(plugin, "resources", f"{uri!r}: complete: a mapping from variables to functions is needed")
        for name, function in cast("Mapping[Any, Any]", complete).items():
            if name not in names:
                raise bad_field(
                    plugin, "resources", f"{uri!r}: complete: there is no {show_value(name)} in the address"
                )
            where = f"{uri!r}: complete: {name}: "
            check_function(plugin, "resources", function, ("ctx", "text", "given"), where=where)


def check_instructions(plugin: str, instructions: Any) -> None:
    """Check a plugin's instructions.

    Raises:
        PluginError: They are no text, too long, or have characters that nobody sees.
    """
    if not isinstance(instructions, str):
        raise bad_field(plugin, "instructions", f"text is needed, not {describe_kind(instructions)}")
    if len(instructions) > LONGEST_INSTRUCTIONS:
        reason = f"{len(instructions):,} characters; at most {LONGEST_INSTRUCTIONS:,}: every model reads them"
        raise bad_field(plugin, "instructions", reason)
    if (reason := first_unseen(instructions, "prose")) is not None:
        raise bad_field(plugin, "instructions", reason)


def _check_arguments(plugin: str, prompt: str, arguments: Any) -> None:
    seen: set[str] = set()
    for position, argument in enumerate(_check_list(plugin, "prompts", arguments, 100, f"{prompt!r}: arguments: ")):
        where = f"{prompt!r}: arguments: "
        if not isinstance(argument, PromptArgument):
            reason = f"{where}number {position + 1} is {describe_kind(argument)}; build PromptArgument(…)"
            raise bad_field(plugin, "prompts", reason)
        name: Any = argument.name
        if not isinstance(name, str) or not _ARGUMENT.fullmatch(name):
            reason = f"{where}letters, digits, `_`, `-` and `.` are needed, at most 64, not {show_value(name)}"
            raise bad_field(plugin, "prompts", reason)
        if name in seen:
            raise bad_field(plugin, "prompts", f"{where}two are called {name!r}; give one of them another name")
        seen.add(name)
        values: Any = argument.values
        if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in cast("Any", values)):
            raise bad_field(plugin, "prompts", f"{where}{name!r}: values: a list of texts is needed")
        if argument.complete is not None:
            check_function(
                plugin,
                "prompts",
                argument.complete,
                ("ctx", "text", "given"),
                where=f"{where}{name!r}: complete: ",
            )
        _check_texts(plugin, "prompts", f"{prompt}: {name}", description=argument.description, title=argument.title)


def _check_list(plugin: str, field: str, values: Any, most: int, where: str = "") -> Sequence[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise bad_field(plugin, field, f"{where}a list is needed, not {describe_kind(values)}")
    found = cast("Sequence[Any]", values)
    if len(found) > most:
        raise bad_field(plugin, field, f"{where}{len(found):,} are too many; at most {most:,}")
    return found


def _check_texts(plugin: str, field: str, of: str, **texts: Any) -> None:
    for name, text in texts.items():
        if text is None:
            continue
        if not isinstance(text, str):
            raise bad_field(plugin, field, f"{of!r}: {name}: text is needed, not {describe_kind(text)}")
        if (reason := first_unseen(text, "prose")) is not None:
            raise bad_field(plugin, field, f"{of!r}: {name}: {reason}")


def _check_timeout(plugin: str, field: str, of: str, seconds: Any) -> None:
    if not (type(seconds) in (int, float) and 0 < seconds < math.inf):
        raise bad_field(plugin, field, f"{of!r}: timeout: seconds above 0 are needed, not {show_value(seconds)}")
