"""The user's tool files over HTTP: checked, written, read and deleted, with the private token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.flows.tool_files import content, shell, tool, write
from tests.surfaces.owner_client import ask_as_owner
from tests.surfaces.rest_server import Reply
from tests.surfaces.rest_stead import SteadClient, serving
from tests.surfaces.test_rest_owner import fits
from toolstead.tools.sources.json_files import LARGEST_FILE

GREET = content(shell("greet", "echo Hello {{who}}", "who"))


def folder_of(client: SteadClient) -> Path:
    return client.stead.places.user / "tools"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


async def put(client: SteadClient, text: str, name: str = "greet", headers: Any = None, **more: Any) -> Reply:
    return await ask_as_owner(client, "PUT", f"/api/tool-files/{name}", {"text": text, **more}, headers)


async def check(client: SteadClient, text: str, **more: Any) -> Any:
    reply = await ask_as_owner(client, "POST", "/api/tool-files/check", {"text": text, **more})
    assert reply.status == 200, reply.body
    await fits(client, "ToolFileCheck", reply.json)
    return reply.json


async def test_a_tool_is_written_called_changed_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        written = await put(client, GREET, digest="")
        assert (written.status, written.json["tools"], written.json["hidden"]) == (200, ["greet"], {})
        await fits(client, "ToolFileWritten", written.json)
        assert (folder_of(client) / "greet.json").read_text() == GREET
        assert (await client.call("greet", {"who": "Ada"})).json["content"][0]["text"] == "Hello Ada\n"

        read = await ask_as_owner(client, "GET", "/api/tool-files/greet")
        assert read.json["text"] == GREET
        assert read.headers["etag"] == f'"{read.json["digest"]}"' == written.headers["etag"]
        louder = GREET.replace("Hello", "HELLO")
        changed = await put(client, louder, headers={"If-Match": read.headers["etag"]})
        assert changed.status == 200
        assert (await client.call("greet", {"who": "Ada"})).json["content"][0]["text"] == "HELLO Ada\n"

        gone = await ask_as_owner(
            client, "DELETE", "/api/tool-files/greet", None, {"If-Match": changed.headers["etag"]}
        )
        assert (gone.status, gone.body) == (204, b"")
        assert (await client.call("greet", {"who": "Ada"})).status == 404
        assert names_in(folder_of(client)) == [".toolstead-schema.json"]
        missing = await ask_as_owner(client, "DELETE", "/api/tool-files/greet")
        assert (missing.status, missing.problem["type"]) == (404, "/docs#unknown-tool-file")


async def test_a_file_that_changed_since_it_was_read_is_neither_written_over_nor_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        read = (await put(client, GREET)).json["digest"]
        file = folder_of(client) / "greet.json"
        edited = GREET.replace("Hello", "Good day")
        file.write_text(edited)
        for reply in (
            await put(client, GREET, digest=read),
            await put(client, GREET, headers={"If-Match": f'"{read}"'}),
            await put(client, GREET, headers={"If-None-Match": "*"}),
            await ask_as_owner(client, "DELETE", "/api/tool-files/greet", None, {"If-Match": f'"{read}"'}),
        ):
            assert (reply.status, reply.problem["type"]) == (409, "/docs#tool-file-conflict")
            assert file.read_text() == edited
        now = reply.problem["digest"]
        assert now == (await ask_as_owner(client, "GET", "/api/tool-files/greet")).json["digest"]
        file.unlink()
        vanished = await put(client, GREET, digest=now)
        assert (vanished.status, vanished.problem["digest"]) == (409, "")
        assert not file.exists()
        for headers in ({"If-Match": "W/x"}, {"If-None-Match": '"x"'}):
            assert (await put(client, GREET, headers=headers)).problem["type"] == "/docs#bad-query"
        both = await put(client, GREET, digest="", headers={"If-Match": f'"{now}"'})
        assert (both.status, both.problem["type"]) == (422, "/docs#bad-query")
        assert (await put(client, GREET)).status == 200, "without a digest anything is replaced"


async def test_a_text_with_a_problem_is_not_written_and_says_where_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await put(client, GREET)
        bad = content(shell("greet", "sh -c {{who}}", "who"), shell("fine", "echo fine"))
        reply = await put(client, bad)
        assert (reply.status, reply.problem["type"]) == (422, "/docs#bad-tool-file")
        (problem,) = reply.problem["problems"]
        assert (problem["toolName"], problem["line"]) == ("greet", bad[: bad.index("sh -c")].count("\n") + 1)
        assert problem["message"] in reply.problem["detail"]
        for text in ("", "{", "[]", "\ud800", "x" * (LARGEST_FILE + 1)):
            body = json.dumps({"text": text}).encode()
            refused = await ask_as_owner(
                client, "PUT", "/api/tool-files/greet", body, {"content-type": "application/json"}
            )
            assert refused.status in (400, 422), text[:10]
        assert (folder_of(client) / "greet.json").read_text() == GREET
        assert names_in(folder_of(client)) == [".toolstead-schema.json", "greet.json"]


async def test_a_name_that_another_holder_has_is_refused_with_the_holder(tmp_path: Path) -> None:
    async with serving(tmp_path, tools={"blocked": ["hidden"]}) as client:
        await put(client, content(shell("greet", "echo 1"), shell("hidden", "echo 2")))
        for name, holder in (
            ("git-status", "builtin"),
            ("greet", str(folder_of(client) / "greet.json")),
            ("hidden", str(folder_of(client) / "greet.json")),
            ("time__current_time", "toolstead.extensions.time"),
        ):
            text = content(shell("free", "echo 0"), shell(name, "echo 3"))
            reply = await put(client, text, "other")
            assert reply.status == 422
            (problem,) = reply.problem["problems"]
            assert problem["toolName"] == name
            assert "the name is already held by" in problem["message"]
            assert holder in problem["message"]
            assert problem["line"] == text[: text.index(f'"{name}"')].count("\n") + 1
            taken = await check(client, text, name="other")
            assert [one["toolName"] for one in taken["problems"]] == [name]
            assert [one["name"] for one in taken["tools"]] == ["free"]
        assert names_in(folder_of(client)) == [".toolstead-schema.json", "greet.json"]
        own = content(shell("greet", "echo 4"), shell("hidden", "echo 5"))
        for more in ({"name": "greet"}, {}):
            assert (await check(client, own, **more))["problems"] == []
        reply = await put(client, own)
        assert (reply.status, reply.json["tools"]) == (200, ["greet", "hidden"])
        assert "tools.blocked" in reply.json["hidden"]["hidden"]


@pytest.mark.parametrize(
    "name", ["..", ".hidden", "a%2Fb", "..%2F..%2Fescaped", "a.b", "a%20b", "%00", "x" * 65, "%E2%80%AEx"]
)
async def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        home = client.stead.places.user.parent
        before = sorted(home.rglob("*.json"))
        for method, body in (("PUT", {"text": GREET}), ("GET", None), ("DELETE", None)):
            reply = await ask_as_owner(client, method, f"/api/tool-files/{name}", body)
            assert reply.status in (404, 422), (method, reply.body)
            assert reply.problem["type"] in ("/docs#bad-tool-file", "/docs#not-found")
        assert sorted(home.rglob("*.json")) == before


async def test_no_link_is_followed_for_reading_writing_or_deleting(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        folder = folder_of(client)
        folder.mkdir(parents=True)
        elsewhere = write(tmp_path / "elsewhere.json", shell("linked", "echo linked"))
        before = elsewhere.read_bytes()
        (folder / "linked.json").symlink_to(elsewhere)
        (folder / "dangling.json").symlink_to(tmp_path / "new.json")
        for name in ("linked", "dangling"):
            for method, body in (("GET", None), ("PUT", {"text": GREET}), ("DELETE", None)):
                reply = await ask_as_owner(client, method, f"/api/tool-files/{name}", body)
                assert (reply.status, reply.problem["type"]) == (422, "/docs#bad-tool-file"), (method, name)
                assert "is a link" in reply.problem["detail"]
        assert elsewhere.read_bytes() == before
        assert (folder / "linked.json").is_symlink()
        assert not (tmp_path / "new.json").exists()


async def test_who_may_read_a_file_stays_as_it_is_when_its_text_changes(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await put(client, GREET)
        file = folder_of(client) / "greet.json"
        file.chmod(0o600)
        await put(client, GREET.replace("Hello", "Psst"))
        assert file.stat().st_mode & 0o777 == 0o600


async def test_a_file_that_became_bad_is_listed_with_its_problem_and_can_be_read_and_mended(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await put(client, GREET)
        file = folder_of(client) / "greet.json"
        file.write_text("{ not JSON")
        await client.ask("POST", "/api/tools/reload")
        reply = await client.get("/api/tool-files")
        await fits(client, "ToolFileList", reply.json)
        (listed,) = reply.json["files"]
        assert (listed["name"], listed["tools"]) == ("greet", ["greet"]), "its last good tool stays"
        assert listed["problems"][0]["line"] == 1
        assert (await ask_as_owner(client, "GET", "/api/tool-files/greet")).json["text"] == "{ not JSON"
        assert (await put(client, GREET)).status == 200
        assert (await client.get("/api/tool-files")).json["files"][0]["problems"] == []
        file.write_bytes(b"\xff\xfe")
        unread = await ask_as_owner(client, "GET", "/api/tool-files/greet")
        assert (unread.status, "not UTF-8" in unread.problem["detail"]) == (422, True)


async def test_a_preview_is_what_the_call_would_run_and_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING_KEY", "a-secret-of-mine")
    mark = tmp_path / "ran"
    touching = shell("touch-it", f"touch {mark} && printf %s {{{{text}}}} | cat", "text", stdin="{{text}}!")
    touching["handler"]["env"] = {"KEY": "${GREETING_KEY}"}
    posting = tool(
        "post-it",
        {"type": "http", "url": "https://api.example/{{id}}", "headers": {"Authorization": "Bearer ${GREETING_KEY}"}},
        {"id": {"type": "string"}, "text": {"type": "string", "default": "usual"}},
    )
    posting["inputSchema"]["required"] = ["id"]
    reading = tool("read-it", {"type": "file-read", "basePath": str(tmp_path)}, {"path": {"type": "string"}})
    text = content(touching, posting, reading)
    async with serving(tmp_path) as client:
        shown = await check(client, text, tool="touch-it", input={"text": "a; rm -rf 'x'"})
        assert shown["problems"] == []
        first, second, third = shown["tools"]
        assert [one["kind"] for one in shown["tools"]] == ["shell", "http", "file-read"]
        assert first["inputSchema"] == touching["inputSchema"]
        assert first["preview"]["argv"] == [["touch", str(mark)], ["printf", "%s", "a; rm -rf 'x'"], ["cat"]]
        assert first["preview"]["stdin"] == "a; rm -rf 'x'!"
        assert "preview" not in second
        assert "preview" not in third
        assert not mark.exists()

        (_, second, _) = (await check(client, text, tool="post-it", input={"id": "a/b"}))["tools"]
        assert second["preview"] == {
            "method": "POST",
            "url": "https://api.example/a%2Fb",
            "headers": {"Authorization": "Bearer ********"},
            "body": {"text": "usual"},
        }
        (*_, third) = (await check(client, text, tool="read-it", input={"path": "notes/a.txt"}))["tools"]
        assert third["preview"]["path"] == os.path.realpath(tmp_path / "notes/a.txt")
        (*_, third) = (await check(client, text, tool="read-it", input={"path": "../../etc/passwd"}))["tools"]
        assert "outside" in third["previewError"]
        (first, second, _) = (await check(client, text, input={"text": 5}))["tools"]
        assert "/text" in first["previewError"]
        assert "preview" not in first
        assert "id" in second["previewError"]
        unknown = await check(client, text, tool="nobody", input={})
        assert "it holds no tool 'nobody'" in unknown["problems"][0]["message"]
        assert "a-secret-of-mine" not in json.dumps(shown)
        assert names_in(folder_of(client)) == []


async def test_a_preview_refuses_a_host_that_the_call_would_refuse(tmp_path: Path) -> None:
    sending = tool(
        "send",
        {
            "type": "http",
            "url": "{{base}}/x",
            "headers": {"Authorization": "Bearer ${GREETING_KEY}"},
            "allowedHosts": ["api.example"],
        },
        {"base": {"type": "string"}},
    )
    async with serving(tmp_path) as client:
        for base, is_refused in (("https://api.example", False), ("https://evil.example", True)):
            (shown,) = (await check(client, content(sending), input={"base": base}))["tools"]
            assert ("previewError" in shown, "preview" in shown) == (is_refused, not is_refused)
            assert not is_refused or "only to the hosts in its" in shown["previewError"]
        assert any("GREETING_KEY" in advice for advice in shown["advice"])
