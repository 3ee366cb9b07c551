"""`current_time`: the moment in words and as values, in the zone that was asked for."""

from __future__ import annotations

import re
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools.shelf import Shelf
from toolstead.extensions.time import WEEKDAYS, TimeSettings, _nearest_zones, plugin
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import PluginContext
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.tools.sources import Offer
from toolstead.types.result import Failure, ToolResult
from toolstead.types.tool import Provenance


async def ask(input: dict[str, Any], settings: TimeSettings | None = None) -> ToolResult:
    """Ask through the real dispatcher, which also holds the answer against the output schema."""
    context = PluginContext(name="time", settings=settings or TimeSettings())
    origin = Provenance(source="builtin", origin="toolstead.extensions.time", plugin_name="time")
    shelf = Shelf("time", source="builtin")
    shelf.put(*(Offer(tool=tool, provenance=origin, context=context) for tool in plugin.tools))
    registry = Registry([shelf])
    await registry.reload()
    return await Dispatcher(registry, events=EventLog(), cwd=Path("/")).call("current_time", input)


@pytest.mark.parametrize(
    ("zone", "offset"), [("Asia/Tokyo", timedelta(hours=9)), ("Asia/Kolkata", timedelta(hours=5, minutes=30))]
)
async def test_the_answer_is_the_moment_in_the_zone_that_was_named(zone: str, offset: timedelta) -> None:
    before = int(datetime.now(UTC).timestamp())
    result = await ask({"timezone": zone})
    after = int(datetime.now(UTC).timestamp())
    assert not result.is_error, result.text
    answer = result.structured
    moment = datetime.fromisoformat(answer["iso"])
    assert moment.utcoffset() == offset
    assert before <= answer["unix"] <= after
    assert int(moment.timestamp()) == answer["unix"]
    assert (answer["timezone"], answer["weekday"]) == (zone, WEEKDAYS[moment.weekday()])
    assert result.text == f"{answer['iso']} ({answer['weekday']}, {zone})"


async def test_without_a_name_the_settings_zone_answers_and_without_that_the_machines() -> None:
    assert (await ask({}, TimeSettings(timezone="Asia/Tokyo"))).structured["timezone"] == "Asia/Tokyo"
    assert (await ask({"timezone": ""}, TimeSettings(timezone="Asia/Tokyo"))).structured["timezone"] == "Asia/Tokyo"
    named = await ask({"timezone": "UTC"}, TimeSettings(timezone="Asia/Tokyo"))
    assert named.structured["timezone"] == "UTC"
    own = (await ask({})).structured
    here = datetime.fromtimestamp(own["unix"], UTC).astimezone()
    assert own["iso"] == here.isoformat(timespec="seconds")
    assert own["timezone"] == here.tzname()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Asia/Tokio", "Asia/Tokyo"),
        ("America/Berlin", "Europe/Berlin"),  # the right city tells more than letters that look alike
    ],
)
async def test_an_unknown_zone_is_an_error_that_names_the_nearest_ones(wrong: str, right: str) -> None:
    result = await ask({"timezone": wrong})
    assert result.failure is Failure.TOOL
    assert re.match(rf"unknown time zone {wrong!r}; did you mean {right}( or .*)?\?$", result.text), result.text


def test_a_name_in_other_letters_comes_before_the_city_elsewhere() -> None:
    known = {"America/Kentucky/Louisville", "America/Louisville", "Europe/Berlin"}
    assert _nearest_zones("america/louisville", known) == ["America/Louisville", "America/Kentucky/Louisville"]


@pytest.mark.parametrize(
    "nonsense", ["/etc/passwd", "../../etc/passwd", "Europe", "Europe/", "a\0b", "tzdata.zi", "\ud800", "qqqq", " "]
)
async def test_what_is_no_zone_at_all_is_an_error_that_the_model_can_read(nonsense: str) -> None:
    result = await ask({"timezone": nonsense})
    assert result.is_error
    assert result.failure in (Failure.TOOL, Failure.INVALID_ARGUMENTS)
    assert "crash" not in result.text


async def test_a_folder_of_zones_is_no_zone_where_they_come_from_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str) -> None:
        raise IsADirectoryError(name)  # what it raises there; with the system's files it is simply not found

    monkeypatch.setattr(zoneinfo, "ZoneInfo", opened)
    assert (await ask({"timezone": "Europe"})).failure is Failure.TOOL


async def test_a_very_long_name_never_reaches_the_disk() -> None:
    assert (await ask({"timezone": "x" * 65})).failure is Failure.INVALID_ARGUMENTS


def test_a_setting_that_names_no_zone_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(ValueError, match=r"timezone: unknown time zone 'Europe/Berln'; did you mean .*Europe/Berlin"):
        TimeSettings(timezone="Europe/Berln")


async def test_without_zone_files_utc_works_and_the_rest_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", nothing)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert (await ask({"timezone": "UTC"})).structured["timezone"] == "UTC"
    assert "no time zone files" in (await ask({"timezone": "Europe/Berlin"})).text


@pytest.mark.parametrize("name", ["time", "context", "plan", "vfs"])
def test_importing_an_extension_costs_no_pydantic_and_no_zone_files(name: str) -> None:
    program = f"import sys, toolstead.extensions.{name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not {"pydantic", "zoneinfo", "difflib"} & set(done.stdout.split())
