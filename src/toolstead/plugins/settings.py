"""A plugin's settings: a table in, a value of the plugin's own class out.

The class is a dataclass, a msgspec Struct or a pydantic model; pydantic is asked only for a class of its own. No
complaint shows a value, because any of them may be a secret.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Literal, cast

import msgspec

from toolstead.errors import PluginError, suggest
from toolstead.plugins.annotations import union_members
from toolstead.plugins.contract import Plugin

MASK = "********"
_SHORTEST_MASKED = 4
_MOST_FAULTS = 10
_PLACE = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_ENUM = "Invalid enum value"


def read_settings(plugin: Plugin, table: Mapping[str, Any]) -> Any:
    """The settings that a table gives: of the plugin's class where it has one, else the table, read-only.

    Raises:
        PluginError: A key is unknown, or a value does not fit; every such key is named, and no value is shown.
    """
    kind = plugin.settings
    if kind is None:
        return types.MappingProxyType(copy.deepcopy(dict(table)))
    faults = list(_unknown_keys(kind, table, ""))
    try:
        if _is_pydantic(kind):
            value = None if faults else _read_by_pydantic(kind, table)
        else:
            value = _read_by_msgspec(kind, table, faults)
    except _Faults as found:
        faults += found.texts
    except (Exception, SystemExit) as error:  # noqa: BLE001 - `__init__`, validators: the author's own code
        faults.append(f"{type(error).__name__}: {_scrub_values(_error_text(error), table)}")
    else:
        if not faults:
            return value
    # Not from the error: a traceback in a log would show the values that it refused.
    raise PluginError(plugin=plugin.name, field="settings", reason="; ".join(faults[:_MOST_FAULTS])) from None


def check_settings_class(plugin: Plugin) -> None:
    """Check that the class of a plugin's settings can be used, and that every field has a default.

    Raises:
        PluginError: It cannot.
    """
    kind: Any = plugin.settings
    if kind is None:
        return
    if not isinstance(kind, type) or not _is_record(kind):
        raise _bad_settings(
            plugin, f"a class is needed: a dataclass, a msgspec Struct or a pydantic model, not {_name_of(kind)}"
        )
    try:
        hints = _key_hints(kind)
        if not _is_pydantic(kind):
            for key, hint in hints.items():
                _check_hint(plugin, key, hint)
        required = _required_keys(kind)
    except PluginError:
        raise
    except Exception as error:  # annotations are the author's own code, run when they are resolved
        raise _bad_settings(plugin, f"the fields of {kind.__name__} cannot be read: {_error_text(error)}") from error
    if required:
        names = ", ".join(repr(name) for name in required)
        raise _bad_settings(
            plugin, f"every field needs a default, because every setting is optional; without one: {names}"
        )
    try:
        read_settings(plugin, {})
    except PluginError as error:
        raise _bad_settings(plugin, f"{kind.__name__}() with its defaults alone: {error.reason}") from None


class _Faults(Exception):  # noqa: N818 - a bundle of sentences on its way out; never leaves this module
    def __init__(self, texts: list[str]) -> None:
        super().__init__(texts)
        self.texts = texts


def _read_by_msgspec(kind: type, table: Mapping[str, Any], faults: list[str]) -> Any:
    """Convert field by field, so that all faults are reported at once, then construct the class from them."""
    hints, names = _key_hints(kind), _field_names(kind)
    values: dict[str, Any] = {}
    found: list[str] = []
    for key, value in table.items():
        if key in hints:
            try:
                values[names[key]] = msgspec.convert(value, hints[key], dec_hook=_read_path)
            except msgspec.ValidationError as error:
                found.append(_explain_error(key, hints[key], str(error), table))
    if found:
        raise _Faults(found)
    return None if faults else kind(**values)


def _read_by_pydantic(kind: type, table: Mapping[str, Any]) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(dict(table))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    raise _Faults([_of_pydantic(problem["loc"], problem["msg"], table) for problem in problems])


def _of_pydantic(place: tuple[int | str, ...], message: str, table: Mapping[str, Any]) -> str:
    where = ".".join(str(step) for step in place)
    return f"{where}: {_scrub_values(message, table)}" if where else _scrub_values(message, table)


def _explain_error(key: str, hint: Any, message: str, table: Mapping[str, Any]) -> str:
    """What msgspec says of a value, with the whole key first, and without the value where it would show it."""
    place = ""
    if found := _PLACE.fullmatch(message):
        message, place = found.groups()
    if message.startswith(_ENUM):
        allowed = [] if place else [repr(value) for part in union_members(hint) for value in _allowed_choices(part)]
        message = f"one of {', '.join(allowed)} is needed" if allowed else "it is none of the values allowed here"
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
    if not isinstance(value, Mapping):
        return
    table = cast("Mapping[Any, Any]", value)
    if origin is dict and len(arguments) == 2:
        for key, item in table.items():
            yield from _unknown_keys(arguments[1], item, f"{prefix}.{key}" if prefix else str(key))
        return
    records = [part for part in union_members(hint) if isinstance(part, type) and _is_record(part)]
    if len(records) != 1:  # none, or several that only the decoder can distinguish
        return
    known = _key_hints(records[0])
    for key, item in table.items():
        whole = f"{prefix}.{key}" if prefix else str(key)
        if key in known:
            yield from _unknown_keys(known[key], item, whole)
        elif not _is_open(records[0]):
            yield f"{whole}: unknown key; {_nearest_key(str(key), list(known))}"


def _nearest_key(key: str, known: list[str]) -> str:
    return suggest(key, known, otherwise=f"known here: {', '.join(known)}" if known else "there is nothing to set")


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


def _key_hints(kind: type) -> dict[str, Any]:
    """The keys of a table → what they hold."""
    if _is_pydantic(kind):
        hints: dict[str, Any] = {}
        for name, field in cast("Any", kind).__pydantic_fields__.items():
            for key in {name, field.alias, field.validation_alias}:
                if isinstance(key, str):
                    hints[key] = field.annotation
        return hints
    if issubclass(kind, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    resolved = typing.get_type_hints(cast("Any", kind), include_extras=True)
    return {field.name: resolved[field.name] for field in dataclasses.fields(cast("Any", kind)) if field.init}


def _field_names(kind: type) -> dict[str, str]:
    """The keys of a table → the names that the class itself takes."""
    if issubclass(kind, msgspec.Struct):
        return {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    return {field.name: field.name for field in dataclasses.fields(cast("Any", kind))}


def _required_keys(kind: type) -> list[str]:
    if _is_pydantic(kind):
        return [name for name, field in cast("Any", kind).__pydantic_fields__.items() if field.is_required()]
    if issubclass(kind, msgspec.Struct):
        return [field.name for field in msgspec.structs.fields(kind) if field.required]
    missing = dataclasses.MISSING
    return [
        field.name
        for field in dataclasses.fields(cast("Any", kind))
        if field.init and field.default is missing and field.default_factory is missing
    ]


def _check_hint(plugin: Plugin, key: str, hint: Any) -> None:
    try:
        msgspec.json.Decoder(hint, dec_hook=_read_path)
    except (TypeError, ValueError, RecursionError) as error:
        raise _bad_settings(plugin, f"{key}: its annotation cannot be read: {_error_text(error)}") from None


def _scrub_values(text: str, table: Mapping[str, Any]) -> str:
    """A third-party message without the table's values that are long enough to be secrets."""
    for value in sorted(set(_leaf_texts(table)), key=len, reverse=True):
        if len(value) >= _SHORTEST_MASKED:
            text = text.replace(value, MASK).replace(repr(value)[1:-1], MASK)
    return " ".join(text.split())


def _leaf_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in cast("Mapping[Any, Any]", value).values():
            yield from _leaf_texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from _leaf_texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _error_text(error: BaseException) -> str:
    return str(error) or "(no text)"


def _name_of(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _bad_settings(plugin: Plugin, reason: str) -> PluginError:
    return PluginError(plugin=plugin.name, field="settings", reason=reason)
