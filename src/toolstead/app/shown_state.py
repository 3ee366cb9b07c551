"""What the owner of a server sees of its settings and sessions, over HTTP.

`adapters/rest/owner_routes` answers with it. The settings are those of `toolstead config explain`, as this process
runs with them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolstead.adapters.rest.answers import SessionCounts
from toolstead.adapters.rest.console_answers import (
    EffectiveSetting,
    OverriddenValue,
    SessionList,
    SettingList,
    SettingOrigin,
    SettingProblem,
)
from toolstead.app.layers import DEFAULT, GIVEN, SET, Explained
from toolstead.app.masks import mask_value
from toolstead.app.settings import find_key
from toolstead.app.toml_text import KeyPath, toml_value
from toolstead.errors import SettingsError

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.wiring import Wiring

_VARIABLE = "environment "


async def explain_settings(parts: Wiring) -> SettingList:
    """Every setting in effect with its origin, and what the settings say now and this process does not do."""
    explained = parts.loaded.explain_values()
    return SettingList(
        settings=[_describe_setting(parts.places, one) for one in explained],
        problems=await asyncio.to_thread(_find_problems, parts, explained),
    )


async def list_sessions(parts: Wiring) -> SessionList:
    """The open sessions; none while the database was not needed yet, which this does not open."""
    current = parts.conversations.orchestrator
    return SessionList(
        sessions=[] if current is None else current.invoker.pool.list_sessions(),
        counts=SessionCounts(**parts.describe_state()["sessions"]),
    )


def _describe_setting(places: Places, one: Explained) -> EffectiveSetting:
    known = find_key(one.path)
    layers = [_find_layer(places, origin) for origin in one.origins]
    return EffectiveSetting(
        key=one.key,
        value=one.value,
        default=None if known is None else mask_value(one.path, known.default),
        origin=layers[-1][0],
        place=" + ".join(place for _, place in layers if place),
        overrode=tuple(_describe_overridden(places, value, origin) for value, origin in one.overrode),
        in_effect=one.in_effect,
        masked=one.masked,
    )


def _describe_overridden(places: Places, value: object, origin: str) -> OverriddenValue:
    layer, place = _find_layer(places, origin)
    return OverriddenValue(origin=layer, place=place, value=value)


def _find_layer(places: Places, origin: str) -> tuple[SettingOrigin, str]:
    """The layer that an origin names, and the place in it."""
    if origin == DEFAULT:
        return "default", ""
    if origin == SET:
        return "command line", SET
    if origin == GIVEN:
        return "python", GIVEN
    if origin.startswith(_VARIABLE):
        return "environment", origin.removeprefix(_VARIABLE)
    return ("user" if origin.startswith(str(places.user / "config.toml")) else "project"), origin


def _find_problems(parts: Wiring, explained: list[Explained]) -> list[SettingProblem]:
    """What the files and the environment say now that is wrong, or that counts only after a restart."""
    try:
        fresh = parts.load_settings(approved_config=parts.approved_config)
    except SettingsError as error:
        message = f"{error.reason}; until it is mended, the settings stay as they are shown"
        return [SettingProblem(message=message, key=error.key, place=error.origin)]
    # The real values, because a secret that changed is shown as the same mask.
    before, after = msgspec.to_builtins(parts.loaded.settings), msgspec.to_builtins(fresh.settings)
    gone = {one.path: one for one in explained}
    found = [
        _describe_change(one, f"it is {toml_value(one.value)} there now")
        for one in fresh.explain_values()
        if gone.pop(one.path, None) is None or _find_value(before, one.path) != _find_value(after, one.path)
    ]
    return [*found, *(_describe_change(one, "it is not set there any more") for one in gone.values())]


def _find_value(settings: Any, path: KeyPath) -> Any:
    for name in path:
        settings = cast("dict[str, Any]", settings).get(name) if isinstance(settings, dict) else None
    return settings


def _describe_change(one: Explained, what: str) -> SettingProblem:
    when = "after `toolstead tools reload`" if one.path[0] == "plugins" else "when the server starts again"
    return SettingProblem(message=f"{what}, and counts {when}", key=one.key, place=one.origin)
