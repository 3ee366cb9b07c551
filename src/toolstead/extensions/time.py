"""The `time` plugin: `current_time`, the current date and time in a time zone.

Models do not know what day it is. Zone files are read when a zone is named, not before: the machine's
own zone needs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from toolstead.errors import ToolError
from toolstead.nearest_names import find_nearest
from toolstead.plugins.contract import Plugin, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Written out, because `strftime` uses the machine's locale."""

LONGEST_NAME = 64
MOST_NEAREST = 3


class TimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[plugins.time]`.

    Attributes:
        timezone: The zone of answers that are asked for none: an IANA name such as `Europe/Berlin`; empty is the
            machine's own.
    """

    timezone: str = ""

    def __post_init__(self) -> None:
        """Refuse an unknown zone now, not at the first call."""
        if self.timezone and _find_zone(self.timezone) is None:
            raise ValueError(f"timezone: {_unknown_zone(self.timezone)}")


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "timezone": {
            "type": "string",
            "maxLength": LONGEST_NAME,
            "description": "IANA name of the time zone, such as Europe/Berlin or UTC; absent: the user's own.",
        },
    },
    "additionalProperties": False,
}

_OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "iso": {"type": "string", "description": "ISO 8601 with the offset from UTC."},
        "timezone": {"type": "string", "description": "The zone's name."},
        "weekday": {"type": "string", "enum": list(WEEKDAYS)},
        "unix": {"type": "integer", "description": "Seconds since the epoch."},
    },
    "required": ["iso", "timezone", "weekday", "unix"],
    "additionalProperties": False,
}


async def _current_time(ctx: PluginContext, input: dict[str, Any], _: ToolMeta) -> ToolResult:
    name: str = input.get("timezone") or ctx.settings.timezone
    if not name:
        return _answer_time(datetime.now(UTC).astimezone(), "")
    zone = _find_zone(name)
    if zone is None:
        raise ToolError(await asyncio.to_thread(_unknown_zone, name))  # it looks at some 600 files
    return _answer_time(datetime.now(zone), name)


def _answer_time(now: datetime, name: str) -> ToolResult:
    """The moment, in words and as values; the machine's own zone is known by its short name only."""
    name = name or now.tzname() or "local"
    iso, weekday = now.isoformat(timespec="seconds"), WEEKDAYS[now.weekday()]
    return ToolResult(
        content=(Text(f"{iso} ({weekday}, {name})"),),
        structured={"iso": iso, "timezone": name, "weekday": weekday, "unix": int(now.timestamp())},
    )


def _find_zone(name: str) -> tzinfo | None:
    """The zone of a name, or None for a name that is none."""
    if name == "UTC":  # also where there are no zone files
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a path, a folder, a file that is no zone, a null byte
        return None


def _unknown_zone(name: str) -> str:
    """Why there is no such zone, and which ones may be meant."""
    from zoneinfo import available_timezones

    known = available_timezones()
    reason = f"unknown time zone {name[:LONGEST_NAME]!r}"
    if not known:
        return (
            f"{reason}: this machine has no time zone files (the Python package tzdata brings them); UTC always works"
        )
    nearest = _nearest_zones(name[:LONGEST_NAME], known)
    meant = f"did you mean {' or '.join(nearest)}?" if nearest else "IANA names look like Europe/Berlin"
    return f"{reason}; {meant}"


def _nearest_zones(name: str, known: set[str]) -> list[str]:
    """Names that look like it, best first; a city alone finds its zone."""
    spelled = name.strip().replace(" ", "_").lower()
    whole = {zone.lower(): zone for zone in sorted(known)}
    cities = {zone.rpartition("/")[2].lower(): zone for zone in reversed(whole.values())}  # the first has the city
    city = spelled.rpartition("/")[2]
    found = [whole.get(spelled), cities.get(city)]
    found += [whole[near] for near in find_nearest(spelled, whole, most=MOST_NEAREST, cutoff=0.7)]
    found += [cities[near] for near in find_nearest(city, cities, most=MOST_NEAREST, cutoff=0.8)]
    return list(dict.fromkeys(zone for zone in found if zone is not None))[:MOST_NEAREST]


plugin = Plugin(
    name="time",
    version="1.0.0",
    settings=TimeSettings,
    tools=(
        Tool(
            name="current_time",
            title="Current time",
            description="The current date, time and weekday, in the user's time zone or in the one you name.",
            schema=_SCHEMA,
            output_schema=_OUTPUT_SCHEMA,
            handler=_current_time,
            annotations=Annotations(read_only=True, destructive=False, idempotent=True, open_world=False),
        ),
    ),
)
