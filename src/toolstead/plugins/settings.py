"""A plugin's settings: a table in, a value of the plugin's own class out.

The class is a dataclass, a msgspec Struct or a pydantic model; pydantic is asked only for a class of its own. No
complaint shows a value, because any of them may be a secret.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Literal, cast

import msgspec

from toolstead.errors import PluginError
from toolstead.nearest_names import suggest
from toolstead.plugins.annotations import union_members
from toolstead.plugins.contract import Plugin

MASK = "********"
_SHORTEST_MASKED = 4
_MOST_FAULTS = 10
_PLACE = " - at `$"
_ENUM = "Invalid enum value"
_WRONG_KIND = re.compile(r"Expected `([\w.]+)`, got `(\w+)`")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
"""What a person calls a kind of value."""


def read_settings(plugin: Plugin, table: Mapping[str, Any]) -> Any:
    """The settings that a table gives: of the plugin's class where it has one, else the table, read-only.

    Raises:
        PluginError: A key is unknown, or a value does not fit; every such key is named, and no value is shown.
    """
    kind = plugin.settings
    if kind is None:
        return types.MappingProxyType(copy.deepcopy(dict(table)))
    faults = list(_unknown_keys(kind, table, ""))
    read = _read_by_pydantic if _is_pydantic(kind) else _read_by_msgspec
    value: Any = None
    try:
        value = read(kind, table, faults)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - `__init__`, validators: the author's own code
        faults.append(f"{type(error).__name__}: {_scrub_values(_error_text(error), table)}")
    if faults:  # not from the error: a traceback in a log would show the values that it refused
        raise _bad_settings(plugin, "; ".join(faults[:_MOST_FAULTS])) from None
    return value


def check_settings_class(plugin: Plugin) -> None:
    """Check that the class of a plugin's settings can be used, and that every field has a default.

    Raises:
        PluginError: It cannot.
    """
    kind: Any = plugin.settings
    if kind is None:
        return
    if not isinstance(kind, type) or not _is_record(kind):
        name = kind.__name__ if isinstance(kind, type) else type(kind).__name__
        raise _bad_settings(plugin, f"a class is needed: a dataclass, a msgspec Struct or a pydantic model, not {name}")
    try:
        fields = _fields_of(kind)
        if not _is_pydantic(kind):
            _check_hints(plugin, fields)
    except PluginError:
        raise
    except Exception as error:  # annotations are the author's own code, run when they are resolved
        raise _bad_settings(plugin, f"the fields of {kind.__name__} cannot be read: {_error_text(error)}") from error
    if required := dict.fromkeys(repr(field.name) for field in fields.values() if field.required):
        reason = "every field needs a default, because every setting is optional; without one"
        raise _bad_settings(plugin, f"{reason}: {', '.join(required)}")
    try:
        read_settings(plugin, {})
    except PluginError as error:
        raise _bad_settings(plugin, f"{kind.__name__}() with its defaults alone: {error.reason}") from None


def describe_settings(kind: type) -> dict[str, Any] | None:
    """JSON Schema of a class of settings; None for a table without a class, and for what no schema can say."""
    if not _is_record(kind):
        return None
    try:
        described = json.loads(_encode_schema(kind))
    except (Exception, SystemExit):  # noqa: BLE001 - annotations and schemas of pydantic: the author's own code
        return None
    if not _is_open(kind):
        described.setdefault("additionalProperties", False)
    return described


@functools.lru_cache(maxsize=256)
def _encode_schema(kind: type) -> str:
    """The schema of a class, its own properties at the top, as forms need them."""
    if _is_pydantic(kind):
        from pydantic import TypeAdapter

        return json.dumps(TypeAdapter(kind).json_schema())
    fields, usual = _fields_of(kind), kind()
    made, shared = msgspec.json.schema_components(
        [field.hint for field in fields.values()], schema_hook=_describe_foreign, ref_template="#/$defs/{name}"
    )
    properties = {
        # Beside a reference other keys count too, in the drafts that are read here.
        key: {**schema, "default": msgspec.to_builtins(getattr(usual, field.name), enc_hook=str)}
        for (key, field), schema in zip(fields.items(), made, strict=True)
    }
    return json.dumps({"type": "object", "properties": properties, **({"$defs": shared} if shared else {})})


def _describe_foreign(kind: type) -> dict[str, Any]:
    """What stands for a type that has no schema of its own: a path is text, anything else may be anything."""
    return {"type": "string"} if issubclass(kind, PurePath) else {}


class _SettingsField(msgspec.Struct, frozen=True):
    """A field of a class of settings: its name there, what it holds, and whether it needs a value."""

    name: str
    hint: Any
    required: bool


def _fields_of(kind: Any) -> dict[str, _SettingsField]:
    """The keys of a table → the fields they fill; pydantic may have several keys for one field."""
    if _is_pydantic(kind):
        return {
            key: _SettingsField(name, field.annotation, field.is_required())
            for name, field in kind.__pydantic_fields__.items()
            for key in (name, field.alias, field.validation_alias)
            if isinstance(key, str)
        }
    if issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return {field.encode_name: _SettingsField(field.name, field.type, field.required) for field in fields}
    hints, missing = typing.get_type_hints(kind, include_extras=True), dataclasses.MISSING
    return {
        field.name: _SettingsField(
            field.name, hints[field.name], field.default is missing and field.default_factory is missing
        )
        for field in dataclasses.fields(kind)
        if field.init
    }


def _check_hints(plugin: Plugin, fields: Mapping[str, _SettingsField]) -> None:
    for key, field in fields.items():
        try:
            msgspec.json.Decoder(field.hint, dec_hook=_read_path)
        except (TypeError, ValueError, RecursionError) as error:
            raise _bad_settings(plugin, f"{key}: its annotation cannot be read: {_error_text(error)}") from None


def _read_by_msgspec(kind: type, table: Mapping[str, Any], faults: list[str]) -> Any:
    """Convert field by field, so that all faults are reported at once, then construct the class from them."""
    fields = _fields_of(kind) if table else {}  # annotations cost, and most plugins are not configured
    values: dict[str, Any] = {}
    for key in filter(fields.__contains__, table):
        try:
            values[fields[key].name] = msgspec.convert(table[key], fields[key].hint, dec_hook=_read_path)
        except msgspec.ValidationError as error:
            faults.append(_explain_error(key, fields[key].hint, str(error), table))
    return None if faults else kind(**values)


def _read_by_pydantic(kind: type, table: Mapping[str, Any], faults: list[str]) -> Any:
    from pydantic import TypeAdapter, ValidationError

    if faults:
        return None
    try:
        return TypeAdapter(kind).validate_python(dict(table))
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            where, text = ".".join(map(str, problem["loc"])), _scrub_values(problem["msg"], table)
            faults.append(f"{where}: {text}" if where else text)
    return None


def _explain_error(key: str, hint: Any, message: str, table: Mapping[str, Any]) -> str:
    """The message of msgspec about a value, with the whole key first, and without the value where it would show it."""
    place = ""
    text, found, path = message.rpartition(_PLACE)
    if found and path.endswith("`"):
        message, place = text, path[:-1]
    if message.startswith(_ENUM):
        allowed = [] if place else [repr(value) for part in union_members(hint) for value in _allowed_choices(part)]
        message = f"one of {', '.join(allowed)} is needed" if allowed else "it is none of the values allowed here"
    elif kinds := _WRONG_KIND.fullmatch(message):
        wanted, found_kind = (_KINDS.get(kind, f"`{kind}`") for kind in kinds.groups())
        message = f"it must be {wanted}, not {found_kind}"
    return f"{key}{place}: {_scrub_values(message, table)}"


def _allowed_choices(hint: Any) -> list[Any]:
    if typing.get_origin(hint) is Literal:
        return list(typing.get_args(hint))
    return [member.value for member in hint] if isinstance(hint, type) and issubclass(hint, enum.Enum) else []


def _read_path(kind: type, value: Any) -> Any:
    """Paths are written as text; anything else that msgspec does not know must be what it is already."""
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if isinstance(value, kind):
        return value
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _unknown_keys(hint: Any, value: Any, prefix: str) -> Iterator[str]:
    """A sentence for every key that no class knows, however deep; classes alone would drop some of them silently."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, list | tuple) and origin in (list, tuple, set, frozenset) and arguments:
        for position, item in enumerate(cast("list[Any]", value)):
            yield from _unknown_keys(arguments[0], item, f"{prefix}[{position}]")
        return
    if not isinstance(value, Mapping) or not value:
        return
    table = cast("Mapping[Any, Any]", value)
    records = [part for part in union_members(hint) if isinstance(part, type) and _is_record(part)]
    if origin is dict and len(arguments) == 2:
        known, is_open = dict.fromkeys(table, arguments[1]), True
    elif len(records) == 1:
        known, is_open = {key: field.hint for key, field in _fields_of(records[0]).items()}, _is_open(records[0])
    else:  # no class, or several that only the decoder can distinguish
        return
    for key, item in table.items():
        whole = f"{prefix}.{key}" if prefix else str(key)
        if key in known:
            yield from _unknown_keys(known[key], item, whole)
        elif not is_open:
            otherwise = f"known here: {', '.join(known)}" if known else "there is nothing to set"
            yield f"there is no setting {whole!r}; {suggest(str(key), known, otherwise=otherwise)}"


def _is_record(kind: type) -> bool:
    return _is_pydantic(kind) or issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(cast("Any", kind))


def _is_pydantic(kind: type) -> bool:
    """Whether pydantic made it: a model, or a dataclass of its kind. Checked without importing it."""
    return hasattr(kind, "__pydantic_validator__")


def _is_open(kind: type) -> bool:
    """Whether a class takes keys that it does not name, or names them in ways that only it can read."""
    if not _is_pydantic(kind):
        return False
    config: Any = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", {})
    fields: Any = cast("Any", kind).__pydantic_fields__
    return config.get("extra") == "allow" or any(
        field.validation_alias is not None and not isinstance(field.validation_alias, str) for field in fields.values()
    )


def _scrub_values(text: str, table: Mapping[str, Any]) -> str:
    """A third-party message without the table's values that are long enough to be secrets."""
    for value in sorted(set(_leaf_texts(table)), key=len, reverse=True):
        if len(value) >= _SHORTEST_MASKED:
            text = text.replace(value, MASK).replace(repr(value)[1:-1], MASK)
    return " ".join(text.split())


def _leaf_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(cast("Mapping[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from _leaf_texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _error_text(error: BaseException) -> str:
    return str(error) or "(no text)"


def _bad_settings(plugin: Plugin, reason: str) -> PluginError:
    return PluginError(plugin=plugin.name, field="settings", reason=reason)
