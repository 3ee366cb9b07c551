"""What only the owner of a server sees and decides over HTTP: settings, sessions, trust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.flows.tool_files import content, shell, write
from tests.surfaces.owner_client import ask_as_owner
from tests.surfaces.rest_stead import SteadClient, ended, serving

GENERAL = "the-general-token"
PRIVATE_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/api/settings", None),
    ("GET", "/api/sessions", None),
    ("GET", "/api/trust", None),
    ("POST", "/api/trust", {"decision": "revoke"}),
    ("POST", "/api/tool-files/check", {"text": "{}"}),
    ("GET", "/api/tool-files/mine", None),
    ("PUT", "/api/tool-files/mine", {"text": content(shell("theirs", "echo theirs"))}),
    ("DELETE", "/api/tool-files/mine", None),
]


async def fits(client: SteadClient, shape: str, value: Any) -> None:
    components = (await ask_as_owner(client, "GET", "/openapi.json")).json["components"]
    schema = {"$ref": f"#/components/schemas/{shape}", "components": components}
    assert not [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(value)]


async def test_the_general_token_opens_nothing_that_is_the_owners_and_nothing_changes(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"token": GENERAL}) as client:
        file = client.stead.places.user / "tools" / "mine.json"
        file.parent.mkdir(parents=True)
        write(file, shell("mine", "echo mine"))
        await client.stead.registry.reload_plugins()
        before = file.read_bytes()
        for method, path, body in PRIVATE_ROUTES:
            reply = await client.ask(method, path, body, {"Authorization": f"Bearer {GENERAL}"})
            assert (reply.status, reply.problem["type"]) == (403, "/docs#private"), (method, path)
            assert (await client.ask(method, path, body)).status == 401
        assert file.read_bytes() == before
        listed = await client.get("/api/tool-files", authorization=f"Bearer {GENERAL}")
        assert listed.json == {"files": [{"name": "mine", "path": str(file), "tools": ["mine"], "problems": []}]}
        assert (await ask_as_owner(client, "GET", "/api/tool-files/mine")).status == 200


async def test_each_setting_says_where_it_comes_from_and_what_it_overrode(tmp_path: Path) -> None:
    settings = {"tools": {"timeout": 30}, "server": {"token": GENERAL}, "plugins": {"mail": {"password": "hunter22"}}}
    async with serving(tmp_path, **settings) as client:
        config = client.stead.places.user / "config.toml"
        reply = await ask_as_owner(client, "GET", "/api/settings")
        assert reply.status == 200
        await fits(client, "SettingList", reply.json)
        found = {one["key"]: one for one in reply.json["settings"]}
        usual = found["tools.timeout"]["default"]
        assert found["tools.timeout"] == {
            "key": "tools.timeout",
            "value": 30,
            "default": usual,
            "origin": "python",
            "place": "Toolstead(settings=…)",
            "overrode": [{"origin": "default", "value": usual}],
            "inEffect": True,
            "masked": False,
        }
        assert found["tools.max_output"]["origin"] == "default"
        assert (found["server.token"]["value"], found["plugins.mail.password"]["masked"]) == ("********", True)
        assert GENERAL not in reply.body.decode()
        assert "hunter22" not in reply.body.decode()
        assert reply.json["problems"] == []

        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("[limits]\nrun_timeout = 77.5\n")
        (changed,) = (await ask_as_owner(client, "GET", "/api/settings")).json["problems"]
        assert (changed["key"], changed["place"]) == ("limits.run_timeout", f"{config}:2")
        assert changed["message"] == "it is 77.5 there now, and counts when the server starts again"
        config.write_text("[limits]\nrun_timeuot = 77\n")
        (wrong,) = (await ask_as_owner(client, "GET", "/api/settings")).json["problems"]
        assert (wrong["key"], wrong["place"]) == ("limits.run_timeuot", f"{config}:2")
        assert "the settings stay as they are shown" in wrong["message"]


async def test_the_settings_of_each_layer_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSTEAD_TOOLS__TIMEOUT", "41")
    monkeypatch.setenv("TOOLSTEAD_HOME", str(tmp_path / "own"))
    config = tmp_path / "own" / "config.toml"
    config.parent.mkdir()
    config.write_text('[tools]\ntimeout = 40\nblocked = ["git-*"]\n')
    async with serving(tmp_path, tools={"blocked": ["mail-*"]}) as client:
        found = {one["key"]: one for one in (await ask_as_owner(client, "GET", "/api/settings")).json["settings"]}
        timeout, blocked = found["tools.timeout"], found["tools.blocked"]
        assert (timeout["origin"], timeout["place"]) == ("environment", "TOOLSTEAD_TOOLS__TIMEOUT")
        assert timeout["overrode"][0] == {"origin": "user", "place": f"{config}:2", "value": 40}
        assert (blocked["value"], blocked["origin"]) == (["git-*", "mail-*"], "python")
        assert blocked["place"] == f"{config}:3 + Toolstead(settings=…)"


async def test_sessions_are_listed_with_whom_they_are_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        assert (await ask_as_owner(client, "GET", "/api/sessions")).json["sessions"] == []
        started = (await client.ask("POST", "/api/runs", {"prompt": "Hello", "threadId": "notes"})).json
        await ended(client, started["runId"])
        hanging = (await client.ask("POST", "/api/runs", {"prompt": "hang", "threadId": "busy"})).json
        orchestrator = await client.conversations()
        stream = orchestrator.log.open_stream(["message.delta"])
        with stream:
            async for _ in stream:
                break
        reply = await ask_as_owner(client, "GET", "/api/sessions")
        await fits(client, "SessionList", reply.json)
        found = {one["key"]: one for one in reply.json["sessions"]}
        assert {key: one["state"] for key, one in found.items()} == {"notes": "idle", "busy": "live"}
        notes = found["notes"]
        assert (notes["threadId"], notes["agent"], notes["runtime"]) == ("notes", "main", "scripted")
        assert (notes["model"], notes["ownsProcess"]) == ("", False)
        assert notes["startedAt"] > 0
        assert notes["idleSeconds"] >= 0
        assert found["busy"]["idleSeconds"] == 0
        assert reply.json["counts"] == (await client.get("/api/health")).json["sessions"]
        await client.ask("POST", f"/api/runs/{hanging['runId']}/cancel")


def bring(client: SteadClient, command: str) -> Path:
    folder = client.project / ".toolstead" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return write(folder / "water.json", shell("water", command))


async def approve(client: SteadClient, digest: str) -> Any:
    return await ask_as_owner(client, "POST", "/api/trust", {"decision": "approve", "digest": digest})


async def test_a_project_is_approved_as_it_was_shown_and_revoked(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        nothing = (await ask_as_owner(client, "GET", "/api/trust")).json
        assert (nothing["state"], nothing["files"], nothing["digest"]) == ("nothing", [], "")
        refused = await approve(client, "0" * 64)
        assert (refused.status, refused.problem["type"]) == (409, "/docs#trust-changed")

        file = bring(client, "echo watered")
        waiting = await ask_as_owner(client, "GET", "/api/trust")
        await fits(client, "TrustReview", waiting.json)
        assert waiting.json["state"] == "waiting"
        assert waiting.json["files"] == [{"path": ".toolstead/tools/water.json", "size": file.stat().st_size}]
        assert any("echo watered" in line for line in waiting.json["shown"])
        assert (await client.call("water")).status == 404

        trusted = await approve(client, waiting.json["digest"])
        assert (trusted.status, trusted.json["state"]) == (200, "trusted")
        assert (await client.call("water")).json["content"][0]["text"] == "watered\n", "it counts at once"

        bring(client, "echo drowned")
        changed = (await ask_as_owner(client, "GET", "/api/trust")).json
        assert changed["state"] == "changed"
        assert any(line.startswith("-") and "watered" in line for line in changed["shown"])
        assert any(line.startswith("+") and "drowned" in line for line in changed["shown"])

        revoked = await ask_as_owner(client, "POST", "/api/trust", {"decision": "revoke"})
        assert (revoked.status, revoked.json["state"]) == (200, "waiting")
        assert (await client.call("water")).status == 404
        again = await ask_as_owner(client, "POST", "/api/trust", {"decision": "revoke"})
        assert (again.status, again.json["state"]) == (200, "waiting")


async def test_what_is_replaced_after_it_was_shown_is_not_approved(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        bring(client, "echo harmless")
        shown = (await ask_as_owner(client, "GET", "/api/trust")).json
        bring(client, "rm -r everything")
        reply = await approve(client, shown["digest"])
        assert (reply.status, reply.problem["type"]) == (409, "/docs#trust-changed")
        now = (await ask_as_owner(client, "GET", "/api/trust")).json
        assert (now["state"], now["digest"]) == ("waiting", reply.problem["digest"])
        assert now["digest"] != shown["digest"]
        assert (await client.call("water")).status == 404
        missing = await ask_as_owner(client, "POST", "/api/trust", {"decision": "approve"})
        assert (missing.status, missing.problem["type"]) == (422, "/docs#bad-body")


async def test_what_cannot_be_approved_is_listed_and_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        bring(client, "echo fine")
        (client.project / ".toolstead" / "config.toml").write_text("[tools]\ntimeuot = 3\n")
        shown = (await ask_as_owner(client, "GET", "/api/trust")).json
        assert shown["state"] == "refused"
        assert any("timeuot" in reason for reason in shown["refused"])
        reply = await approve(client, shown["digest"])
        assert (reply.status, reply.problem["type"]) == (422, "/docs#trust-refused")
        assert reply.problem["refused"] == shown["refused"]
        assert (await client.call("water")).status == 404


async def test_a_plugin_that_runs_shows_the_schema_of_its_settings(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        plugins = {one["name"]: one for one in (await client.get("/api/plugins")).json["plugins"]}
        schema = plugins["time"]["settingsSchema"]
        assert schema["properties"]["timezone"] == {"type": "string", "default": ""}
        assert schema["additionalProperties"] is False
        assert "settingsSchema" not in plugins["agents"], "it has no settings"
        for plugin in plugins.values():
            if "settingsSchema" in plugin:
                validator = jsonschema_rs.validator_for(plugin["settingsSchema"])
                assert validator.is_valid(plugin["settings"]), json.dumps(plugin)
