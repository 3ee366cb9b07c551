"""Shared files over HTTP: list, read, write, delete, history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.surfaces.rest_server import Reply
from tests.surfaces.rest_stead import SteadClient, serving
from toolstead.types.thread import Thread


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[SteadClient]:
    async with serving(tmp_path, plugins={"vfs": {"max_files": 3}}) as client:
        yield client


def file(path: str = "notes/a.md", **query: Any) -> str:
    return f"/api/vfs/file?{urlencode({'path': path, **query})}"


async def put(client: SteadClient, content: Any, path: str = "notes/a.md", **query: Any) -> Reply:
    return await client.ask("PUT", file(path, **query), {"content": content})


@pytest.mark.promise("K2")
async def test_a_file_is_written_read_listed_and_deleted_and_its_history_stays(client: SteadClient) -> None:
    assert (await client.get("/api/vfs")).json == {"files": []}
    first = await put(client, "<script>é\n")
    assert (first.status, first.headers["etag"]) == (200, '"1"')
    created = first.json.pop("createdAt")
    expected = {"path": "notes/a.md", "version": 1, "author": "user", "size": 11, "threadId": "default"}
    assert first.json == {**expected, "createdAt": created}
    read = await client.get(file())
    assert read.json == {**first.json, "content": "<script>é\n"}
    assert (read.headers["content-type"], read.headers["etag"]) == ("application/json", '"1"')
    second = (await put(client, "two")).json
    await put(client, "b", "b")
    assert (await client.get("/api/vfs?prefix=notes/")).json == {"files": [second]}
    deleted = await client.ask("DELETE", file())
    assert (deleted.status, deleted.json["version"], deleted.json["deleted"]) == (200, 3, True)
    assert [one["path"] for one in (await client.get("/api/vfs")).json["files"]] == ["b"]
    assert (await client.get(file())).problem["type"] == "/docs#unknown-file"
    assert (await client.get(file(version=1))).json["content"] == "<script>é\n"
    assert (await client.get(file(version=3))).json["deleted"] is True
    history = f"/api/vfs/log?{urlencode({'path': 'notes/a.md'})}"
    assert (await client.get(history)).json == {"versions": [deleted.json, second, first.json]}
    assert (await client.get(f"{history}&limit=2")).json == {"versions": [deleted.json, second], "next": 2}
    assert (await client.get(f"{history}&limit=2&before=2")).json == {"versions": [first.json]}


async def test_a_lost_update_is_a_409_with_the_newer_version_and_what_changed(client: SteadClient) -> None:
    async def write(content: str, header: str | None = None, **body: Any) -> Reply:
        headers = {} if header is None else {"If-Match": header}
        return await client.ask("PUT", file(), {"content": content, **body}, headers)

    assert (await write("one\n", '"0"')).json["version"] == 1
    called = await client.call("vfs_edit", {"path": "notes/a.md", "old": "one", "new": "two"})
    assert not called.json["isError"]
    for refused in (
        await write("x", '"1"'),
        await write("x", expectedVersion=1),
        await write("x", "1", expectedVersion=1),
        await client.ask("DELETE", file(), headers={"If-Match": '"1"'}),
    ):
        problem = refused.problem
        assert (refused.status, problem["type"]) == (409, "/docs#file-conflict")
        assert (problem["version"], problem["author"], problem["deleted"]) == (2, "client", False)
        assert problem["diff"].splitlines()[-2:] == ["-one", "+two"]
        assert "its newest version is 2, written by client" in problem["detail"]
    assert (await write("three\n", '"2"')).headers["etag"] == '"3"'
    assert (await write("four\n", expectedVersion=3)).json["version"] == 4
    assert (await client.ask("DELETE", file(), headers={"If-Match": '"4"'})).json["version"] == 5


async def test_what_does_not_fit_is_refused_with_the_reason(client: SteadClient) -> None:
    assert (await client.get("/api/vfs/file")).problem["detail"].startswith("path: it is missing")
    for path, reason in {"../a": "a part `..`", "/a": "is absolute", "a//b": "empty part", "a\u202e": "order"}.items():
        for method in ("GET", "PUT", "DELETE"):
            reply = await client.ask(method, file(path), {"content": ""} if method == "PUT" else None)
            assert (reply.status, reply.problem["type"], reply.problem["field"]) == (422, "/docs#bad-file", "path")
            assert reason in reply.problem["detail"]
    assert "it has U+0000 at character 2" in (await put(client, "a\0b")).problem["detail"]
    assert (await put(client, "x" * ((1 << 20) + 1))).problem["field"] == "content"
    assert (await put(client, "")).status == 200
    assert (await put(client, "", "é" * 512)).status == 200
    for path in ("é" * 513, "x" * 600):
        assert (await client.get(file(path))).problem["type"] == "/docs#bad-query"
    await put(client, "", "third")
    assert (await put(client, "", "fourth")).problem["field"] == "max_files"
    for query in ("version=0", "version=x", "version=1&version=2", "verion=1", "version=9999999999"):
        assert (await client.get(f"{file('third')}&{query}")).problem["type"] == "/docs#bad-query"
    for header in ("*", 'W/"1"', '"1", "2"', "x", ""):
        reply = await client.ask("DELETE", file("third"), headers={"If-Match": header})
        assert (reply.status, reply.problem["type"]) == (422, "/docs#bad-query"), header
    both = await client.ask("PUT", file(), {"content": "", "expectedVersion": 1}, {"If-Match": '"2"'})
    assert "name two versions" in both.problem["detail"]
    for body in ({}, {"content": 1}, {"content": "", "version": 1}, {"content": "", "expectedVersion": -1}):
        assert (await client.ask("PUT", file(), body)).problem["type"] == "/docs#bad-body"
    for place in (file("nope"), file("third", version=2), "/api/vfs/log?path=nope"):
        assert (await client.get(place)).problem["type"] == "/docs#unknown-file"


async def test_a_tree_shares_its_files_over_http_and_loses_them_with_its_root(client: SteadClient) -> None:
    store = (await client.conversations()).store
    for own, parent in (("root", None), ("child", "root"), ("other", None)):
        await store.create_thread(Thread(id=own, created_at=0.0, parent_thread_id=parent))
    await put(client, "shared", thread="child")
    for thread, count in (("root", 1), ("child", 1), ("other", 0)):
        assert len((await client.get(f"/api/vfs?thread={quote(thread)}")).json["files"]) == count
    assert (await client.get(file(thread="root"))).json["threadId"] == "child"
    assert (await client.ask("DELETE", "/api/threads/root")).status == 204
    assert (await client.get(file(thread="child"))).status == 404
