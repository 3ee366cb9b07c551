"""Plugins over HTTP: listed for everybody, changed by people."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from tests.surfaces.fake_plugins import FakePlugins, plugin
from tests.surfaces.rest_server import SAY, Live, Reply, running
from toolstead.errors import PluginError, StateError, StorageError

PRIVATE = "the-private-token"
HEADERS = {"Authorization": f"Bearer {PRIVATE}"}


async def change(live: Live, body: Any, name: str = "shouty") -> Reply:
    return await live.ask("PATCH", f"/api/plugins/{name}", body, HEADERS)


async def fits(live: Live, shape: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{shape}", "components": (await live.document())["components"]}
    assert not [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(value)]


async def test_plugins_are_listed_with_what_they_bring_and_what_is_wrong_with_them() -> None:
    plugins = FakePlugins("one", "two")
    why = {"enabled": True, "state": "failed", "error": "start: ValueError: böse", "tools": [], "hooks": []}
    plugins.plugins["broken"] = plugin("broken", **why)
    async with running(SAY, plugins=plugins) as live:
        reply = await live.get("/api/plugins")
        assert (reply.status, reply.json) == (200, {"plugins": plugins.show_plugins()})
        await fits(live, "PluginList", reply.json)


async def test_no_plugins_are_an_empty_list_and_without_a_control_there_is_no_route() -> None:
    plugins = FakePlugins()
    plugins.plugins.clear()
    async with running(SAY, plugins=plugins) as live:
        assert (await live.get("/api/plugins")).json == {"plugins": []}
    async with running(SAY) as live:
        assert (await live.get("/api/plugins")).status == 404


async def test_a_plugin_is_switched_set_and_reset() -> None:
    plugins = FakePlugins()
    async with running(SAY, plugins=plugins, private_token=PRIVATE) as live:
        off = await change(live, {"enabled": False})
        assert (off.status, off.json["enabled"], off.json["state"]) == (200, False, "disabled")
        await fits(live, "Plugin", off.json)
        loud = await change(live, {"settings": {"volume": 11}})
        assert (loud.json["settings"], loud.json["enabled"]) == ({"volume": 11}, False)
        both = await change(live, {"enabled": True, "settings": {"volume": None}})
        assert (both.json["settings"], both.json["enabled"]) == ({"volume": 1}, True)
        assert (await change(live, {"settings": {}})).status == 200
        await change(live, {"enabled": False})
        back = await live.ask("POST", "/api/plugins/shouty/reset", headers=HEADERS)
        assert (back.status, back.json) == (200, plugin("shouty"))
    asked = [
        ("shouty", False, None),
        ("shouty", None, {"volume": 11}),
        ("shouty", True, {"volume": None}),
        ("shouty", None, {}),
        ("shouty", False, None),
        ("shouty",),
    ]
    assert plugins.asked == asked


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (None, 422, "`enabled` (true or false), `settings` (an object)"),
        ({}, 422, "`enabled` (true or false), `settings` (an object)"),
        ({"enable": True}, 422, "did you mean 'enabled'?"),
        ({"enabled": True, "zzz": 1}, 422, "'zzz'"),
        ({"enabled": "yes"}, 422, "/enabled: expected `bool`, got `str`"),
        ({"enabled": None}, 422, "/enabled: expected `bool`, got `null`"),
        ({"settings": None}, 422, "/settings: expected `object`, got `null`"),
        ({"settings": [1]}, 422, "/settings: expected `object`, got `array`"),
        ([], 422, "expected `object`, got `array`"),
        (b"{", 400, ""),
        ({"settings": {"wolume": 2}}, 422, "wolume: no such setting; there is 'volume'"),
    ],
)
async def test_a_change_that_does_not_fit_is_refused_with_what_would_be_right(
    body: Any, status: int, said: str
) -> None:
    plugins = FakePlugins()
    async with running(SAY, plugins=plugins, private_token=PRIVATE) as live:
        reply = await change(live, body)
        assert reply.status == status
        assert said in reply.problem["detail"]
        assert plugins.show_plugins() == [plugin("shouty")]


async def test_an_unknown_plugin_is_404_with_the_nearest_name() -> None:
    async with running(SAY, plugins=FakePlugins("shouty", "weather"), private_token=PRIVATE) as live:
        for reply in (
            await change(live, {"enabled": True}, "shoutty"),
            await live.ask("POST", "/api/plugins/shoutty/reset", headers=HEADERS),
        ):
            assert (reply.status, reply.problem["type"]) == (404, "/docs#unknown-plugin")
            assert "did you mean 'shouty'?" in reply.problem["detail"]
            assert reply.problem["nearest"] == ["shouty"]
        far = await change(live, {"enabled": True}, "%00%F0%9F%99%82" + "x" * 300)
        assert (far.status, far.problem["nearest"]) == (404, [])
        assert "GET /api/plugins lists them" in far.problem["detail"]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (StorageError("the database is locked"), 503, "storage"),
        (StateError("state.json cannot be written"), 503, "storage"),
        (PluginError(plugin="shouty", field="start", reason="it is busy"), 422, "bad-plugin"),
    ],
)
async def test_what_goes_wrong_behind_the_door_is_told(error: Exception, status: int, kind: str) -> None:
    plugins = FakePlugins()
    plugins.fails = error
    async with running(SAY, plugins=plugins, private_token=PRIVATE) as live:
        for reply in (
            await change(live, {"enabled": True}),
            await live.ask("POST", "/api/plugins/shouty/reset", headers=HEADERS),
        ):
            assert (reply.status, reply.problem["type"]) == (status, f"/docs#{kind}")
            assert reply.problem["detail"].lower().strip(".") in str(error).lower()
            assert ("retry-after" in reply.headers) is (status == 503)
