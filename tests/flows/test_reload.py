"""Tool files that change while the stead is open: nothing is lost, and the events tell the story."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.flows.tool_files import ask, content, opened, served, shell, stale, told, tool, write
from tests.programs.clients import EVERY_WAY, Door, Ear, Era, connected, names_of, names_with, text_of
from tests.programs.running import TOOLSTEAD, running
from tests.waiting import until
from toolstead import Toolstead
from toolstead.app import watching
from toolstead.app.server_file import ServerFile
from toolstead.orchestrator.feed import EventReader

HALF = '{"name": "mine", "tools": ['


@pytest.fixture
async def stead(tmp_path: Path) -> AsyncGenerator[Toolstead]:
    """An open stead that watches `tools`, with one file in it."""
    (tmp_path / "tools").mkdir()
    write(tmp_path / "tools" / "a.json", shell("first", "echo one"), shell("second", "echo two"))
    async with opened(tmp_path) as stead:
        yield stead


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tools" / "a.json"


@pytest.fixture
async def events(stead: Toolstead) -> AsyncGenerator[EventReader]:
    with stead.events(["tools.changed"]) as events:
        yield events


def names(stead: Toolstead) -> list[str]:
    return [
        info.name
        for info in stead.registry.list_tools()
        if info.provenance.source == "plugin" and info.provenance.plugin_name not in ("time", "delegation")
    ]


# a file's life


@pytest.mark.promise("R5", "R6", "B4")
async def test_a_file_that_became_nonsense_keeps_its_last_good_tools_marked_stale_until_it_is_mended(
    stead: Toolstead, file: Path, events: EventReader
) -> None:
    file.write_text(content(shell("first", "echo one"), shell("second", "echo two")).replace('"tools"', "tools"))
    worse = await told(events)
    assert (worse["added"], worse["removed"], worse["changed"]) == ([], [], ["first", "second"])
    assert [(error["source"], error["line"], error["column"]) for error in worse["errors"]] == [(str(file), 3, 3)]
    assert stale(stead) == ["first", "second"]
    assert [(await stead.call(name)).text for name in names(stead)] == ["one\n", "two\n"]

    write(file, shell("first", "echo one"), shell("second", "echo three"))
    better = await told(events)
    assert (better["changed"], better["errors"]) == (["first", "second"], [])
    assert stale(stead) == []
    assert [(await stead.call(name)).text for name in names(stead)] == ["one\n", "three\n"]


@pytest.mark.promise("R6")
async def test_one_bad_tool_keeps_the_whole_file_as_it_was(stead: Toolstead, file: Path, events: EventReader) -> None:
    write(file, shell("first", "echo new"), {"name": "second"}, shell("third", "echo three"))
    data = await told(events)
    assert {error["toolName"] for error in data["errors"]} == {"second"}
    assert names(stead) == stale(stead) == ["first", "second"]
    assert (await stead.call("first")).text == "one\n"


@pytest.mark.promise("R5")
async def test_files_and_tools_come_and_go(stead: Toolstead, file: Path, events: EventReader) -> None:
    late = write(file.with_name("b.json"), shell("late", "echo late"))
    assert (await told(events))["added"] == ["late"]
    assert (await stead.call("late")).text == "late\n"
    write(file, shell("second", "echo two"))
    assert (await told(events))["removed"] == ["first"]
    late.unlink()
    assert (await told(events))["removed"] == ["late"]
    assert names(stead) == ["second"]


@pytest.mark.promise("B4")
async def test_an_edit_names_what_changed_and_no_other_tool_of_the_file(
    stead: Toolstead, file: Path, events: EventReader
) -> None:
    reading = tool("read", {"type": "file-read", "basePath": "."}, {"path": {"type": "string"}})
    asking = tool("ask", {"type": "http", "url": "https://example.org/{{x}}"}, {"x": {"type": "string"}})
    write(file, shell("first", "echo one"), shell("second", "echo two"), reading, asking)
    assert (await told(events))["added"] == ["read", "ask"]
    write(file, shell("first", "echo one"), shell("second", "echo 2"), reading, asking)
    data = await told(events)
    assert (data["added"], data["removed"], data["changed"]) == ([], [], ["second"])
    reading["handler"]["maxSize"] = 5
    asking["handler"]["method"] = "GET"
    write(file, shell("first", "echo one"), shell("second", "echo 2"), reading, asking)
    assert (await told(events))["changed"] == ["read", "ask"]
    file.write_text(file.read_text() + "\n")  # says the same
    write(file.with_name("b.json"), shell("marker", "true"))
    assert (await told(events))["added"] == ["marker"]
    assert events.missed == 0


@pytest.mark.promise("B4")
async def test_a_change_of_a_schema_is_told_with_what_breaks_callers(
    stead: Toolstead, file: Path, events: EventReader
) -> None:
    def search(properties: dict[str, Any], required: list[str]) -> Any:
        schema = {"type": "object", "properties": properties, "required": required}
        return tool("search", {"type": "shell", "command": "echo"}, inputSchema=schema)

    text, number = {"type": "string"}, {"type": "integer"}
    write(file, search({"pattern": text, "limit": number}, ["pattern"]))
    await told(events)
    write(file, search({"pattern": text, "limit": text, "folder": text}, ["pattern", "folder"]))
    expected = {
        "search": [
            {"pointer": "/properties/limit/type", "change": 'type: "integer" became "string"', "breaking": True},
            {"pointer": "/properties/folder", "change": "was added", "breaking": True},
        ]
    }
    data = await told(events)
    assert (data["changed"], data["schemaChanges"]) == (["search"], expected)


@pytest.mark.promise("R5", "B4")
async def test_a_reload_over_rest_says_what_changed_and_what_was_set_aside(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    async with opened(tmp_path, watch=False) as stead, served(stead) as address:
        write(tools / "a.json", shell("a", "echo {{x}}", "x"))
        write(tools / "b.json", shell("b", "true"))
        answer = await ask("POST", f"{address}/api/tools/reload", {})
        assert (answer["success"], answer["toolCount"], answer["added"]) == (True, 19, ["a", "b"])
        write(tools / "a.json", shell("a", "echo {{x}} {{y}}", "x", "y"))
        (tools / "b.json").unlink()
        (tools / "c.json").write_text("{}")
        answer = await ask("POST", f"{address}/api/tools/reload", {})
        assert (answer["success"], answer["added"], answer["removed"], answer["changed"]) == (False, [], ["b"], ["a"])
        assert answer["schemaChanges"] == {
            "a": [{"pointer": "/properties/y", "change": "was added", "breaking": True}],
        }
        assert [error["source"] for error in answer["errors"]] == [str(tools / "c.json")] * 2
        write(tools / "a.json")
        (tools / "a.json").write_text("nonsense")
        await ask("POST", f"{address}/api/tools/reload", {})
        listed = await ask("GET", f"{address}/api/tools/a")
        assert listed["stale"] is True


# how editors save


@pytest.mark.promise("R5")
async def test_a_half_written_file_that_is_finished_soon_never_shows_an_error(
    stead: Toolstead, file: Path, events: EventReader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watching, "SECOND_LOOK", 2.0)
    caplog.set_level(logging.DEBUG, "toolstead.app.watching")
    whole = content(shell("first", "echo written"), shell("second", "echo two"))
    with file.open("w") as half:
        half.write(whole[:100])
        half.flush()
        await until(lambda: "not finished, looking again" in caplog.text)
        assert stale(stead) == []
        half.write(whole[100:])
    data = await told(events)
    assert (data["changed"], data["errors"]) == (["first"], [])
    assert (await stead.call("first")).text == "written\n"


@pytest.mark.promise("R5", "R6")
async def test_a_half_written_file_that_stays_so_is_an_error_in_the_end(
    stead: Toolstead, file: Path, events: EventReader
) -> None:
    file.write_text(HALF)
    data = await told(events)
    assert [error["message"] for error in data["errors"]] == [
        "not valid JSON: the file ends in the middle; close what is open with `]` and `}`"
    ]
    assert stale(stead) == ["first", "second"]


def plainly(file: Path, text: str) -> None:
    """Truncated and written in place."""
    file.write_text(text)


def like_vim(file: Path, text: str) -> None:
    """A probe, a swap file, the old file moved away, a new one written, the old one removed."""
    probe, swap, backup = file.with_name("4913"), file.with_name(f".{file.name}.swp"), file.with_name(f"{file.name}~")
    swap.write_bytes(b"b0VIM 9.0" + bytes(4_000))
    probe.touch()
    probe.unlink()
    file.rename(backup)
    file.write_text(text)
    backup.unlink()
    swap.unlink()


def like_emacs(file: Path, text: str) -> None:
    """A lock that leads nowhere, an automatic copy, a backup beside it, the file written in place."""
    lock, copy = file.with_name(f".#{file.name}"), file.with_name(f"#{file.name}#")
    lock.symlink_to("me@host.1234:5678")
    copy.write_text(text[: len(text) // 2])
    file.with_name(f"{file.name}~").write_text(file.read_text())
    file.write_text(text)
    copy.unlink()
    lock.unlink()


def by_renaming(file: Path, text: str) -> None:
    """Written aside, then renamed over."""
    aside = file.with_name(f".{file.name}.tmp")
    aside.write_text(text)
    aside.replace(file)


def with_a_copy(file: Path, text: str) -> None:
    """As one large editor of many languages does: `___jb_tmp___`, then two renames."""
    aside, old = file.with_name(f"{file.name}___jb_tmp___"), file.with_name(f"{file.name}___jb_old___")
    aside.write_text(text)
    file.rename(old)
    aside.rename(file)
    old.unlink()


@pytest.mark.promise("R5")
@pytest.mark.parametrize("save", [plainly, like_vim, like_emacs, by_renaming, with_a_copy])
async def test_however_an_editor_saves_it_is_one_change_and_no_error(
    save: Callable[[Path, str], None], stead: Toolstead, file: Path, events: EventReader
) -> None:
    save(file, content(shell("first", "echo saved"), shell("second", "echo two")))
    data = await told(events)
    assert (data["added"], data["removed"], data["changed"], data["errors"]) == ([], [], ["first"], [])
    assert (await stead.call("first")).text == "saved\n"
    write(file.with_name("marker.json"), shell("marker", "true"))
    assert (await told(events))["added"] == ["marker"]


# names


@pytest.mark.promise("R6")
async def test_the_holder_of_a_name_keeps_it_through_edits_until_its_file_is_gone(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    holder = write(tools / "m.json", shell("same", "echo m"))
    async with opened(tmp_path) as stead:
        with stead.events(["tools.changed"]) as events:
            write(tools / "a.json", shell("other", "true"), shell("same", "echo a"))
            data = await told(events)
            assert (data["added"], data["changed"]) == (["other"], [])
            (error,) = data["errors"]
            assert (error["source"], error["toolName"], error["line"]) == (str(tools / "a.json"), "same", 18)
            assert f"already held by plugin mine ({holder})" in error["message"]
            write(holder, shell("same", "echo m2"), name="renamed")
            await told(events)
            assert (await stead.call("same")).text == "m2\n"
            holder.write_text("nonsense")
            await told(events, lambda data: len(data["errors"]) == 2)
            assert (await stead.call("same")).text == "m2\n"
            assert stale(stead) == ["same"]
            holder.unlink()
            data = await told(events)
            assert (data["changed"], data["errors"]) == (["same"], [])
            assert (await stead.call("same")).text == "a\n"


# while calls run


@pytest.mark.promise("R6")
async def test_fifty_calls_in_flight_end_well_whatever_happens_to_their_file(
    stead: Toolstead, file: Path, events: EventReader, tmp_path: Path
) -> None:
    slow = shell("slow", "cat '{{gate}}' && echo {{number}}", "gate", "number")
    write(file, slow, shell("first", "echo one"))
    await told(events)
    gates = [tmp_path / f"gate-{number}" for number in range(50)]
    for gate in gates:
        os.mkfifo(gate)
    with stead.events(["tool_use"]) as uses:
        calls = [
            asyncio.create_task(stead.call("slow", {"gate": str(gate), "number": str(number)}))  # pyright: ignore[reportArgumentType] - a coroutine
            for number, gate in enumerate(gates)
        ]
        for _ in calls:
            await told(uses)
    file.write_text(HALF)
    await told(events, lambda data: data["errors"])
    assert (await stead.call("first")).text == "one\n"
    write(file, shell("slow", "echo another"), shell("first", "echo new"))
    await told(events)
    assert (await stead.call("slow")).text == "another\n"
    file.unlink()
    assert set((await told(events))["removed"]) == {"slow", "first"}
    assert not any(call.done() for call in calls)
    for gate in gates:  # whoever opens it waits for the other side
        await asyncio.to_thread(lambda gate=gate: gate.open("w").close())
    results = await asyncio.wait_for(asyncio.gather(*calls), 60)
    assert [(result.text, result.is_error) for result in results] == [(f"{number}\n", False) for number in range(50)]


@pytest.mark.promise("R5", "R6")
async def test_many_changes_while_many_calls_run_lose_nothing(
    stead: Toolstead, file: Path, events: EventReader
) -> None:
    ended = asyncio.Event()

    async def call() -> set[str]:
        seen: set[str] = set()
        while not ended.is_set():
            result = await stead.call("second")
            assert not result.is_error, result.text
            seen.add(result.text)
        return seen

    callers = [asyncio.create_task(call()) for _ in range(4)]
    for number in range(10):
        other = file.with_name(f"n{number}.json")
        write(other, shell(f"n{number}", f"echo {number}"))
        await told(events, lambda data: data["added"])
        file.write_text(HALF if number % 2 else content(shell("first", "true"), shell("second", "echo two")))
    ended.set()
    assert await asyncio.wait_for(asyncio.gather(*callers), 60) == [{"two\n"}] * 4
    assert set(names(stead)) == {"first", "second", *(f"n{number}" for number in range(10))}


# clients


@asynccontextmanager
async def server(door: Door, folder: Path) -> AsyncIterator[Any]:
    """`toolstead mcp` or `toolstead serve` in a process of its own: what a client connects to."""
    environ = {"TOOLSTEAD_TOOLS_DIR": str(folder / "tools")}
    if door == "stdio":
        command, *arguments = [*TOOLSTEAD, "mcp"]
        with (folder / "stderr.txt").open("w") as errors:
            parameters = StdioServerParameters(
                command=command, args=arguments, cwd=folder, env={**os.environ, **environ}
            )
            yield stdio_client(parameters, errlog=errors)
        return
    async with running([*TOOLSTEAD, "serve", "--port", "0"], errors=folder / "stderr.txt", cwd=folder, env=environ):
        data = Path(os.environ["TOOLSTEAD_HOME"], "data")
        found = await until(lambda: ServerFile(data).find_server(folder.resolve()))
        yield f"{found.url}/mcp"


@pytest.mark.promise("R5")
@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_a_connected_client_hears_of_a_file_and_finds_its_tool(door: Door, era: Era, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    write(tools / "a.json", shell("early", "echo early"))
    ear = Ear()
    async with server(door, tmp_path) as target, connected(target, era, message_handler=ear.message) as client:
        assert "early" in await names_of(client)
        async with ear.open(client, era):
            write(tools / "b.json", shell("late", "echo {{x}}", "x"))
            assert "early" in await names_with(client, ear, lambda names: "late" in names)
            assert text_of(await client.call_tool("late", {"x": "heard"})) == "heard\n"
            (tools / "a.json").write_text("nonsense")
            assert text_of(await client.call_tool("early", {})) == "early\n"
            (tools / "b.json").unlink()
            await names_with(client, ear, lambda names: "late" not in names)
