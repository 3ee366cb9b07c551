"""Shared files: what every store promises, on SQLite and on Postgres alike, and what agents see through the tools."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent_folder import write_agent
from tests.contracts.conftest import Place
from tests.contracts.samples import thread
from tests.unit.invoker.bench import BenchRuntime
from tests.waiting import PATIENCE
from toolstead import Toolstead
from toolstead.errors import FileConflictError, InvalidFileError, NotFoundError
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.store import Store
from toolstead.types.vfs import FileChange, FileLimits, FileVersion

LIMITS = FileLimits()
WRITES = 500
"""Of each of the two agents."""


def change(path: str, content: str | None, thread_id: str = "t", **fields: Any) -> FileChange:
    values = {"author": "main", "created_at": 12.25} | fields
    return FileChange(path=path, content=content, thread_id=thread_id, **values)


async def write(store: Store, path: str, content: str | None, thread_id: str = "t", **fields: Any) -> FileVersion:
    return await store.write_file(change(path, content, thread_id, **fields), LIMITS)


async def paths(store: Store, thread_id: str, prefix: str = "") -> list[str]:
    return [one.path for one in await store.list_files(thread_id, prefix)]


async def test_every_version_is_kept_whole(store: Store) -> None:
    first = await write(store, "a.md", "one ✓", author="alice", run_id="r1")
    gone = await write(store, "a.md", None, author="bob")
    second = await write(store, "a.md", "two\n", created_at=13.5)
    expected = FileVersion(path="a.md", version=1, author="alice", created_at=12.25, size=7, thread_id="t", run_id="r1")
    assert first == expected
    assert gone == replace(expected, version=2, author="bob", size=0, deleted=True, run_id=None)
    assert await store.list_file_versions("t", "a.md") == [second, gone, first]
    assert await store.list_file_versions("t", "a.md", limit=1, before=2) == [first]
    found = [await store.read_file("t", "a.md", version=number) for number in (None, 1, 2, 3, 4, 2**70)]
    texts = [None if one is None else (one.version, one.content, one.deleted) for one in found]
    assert texts == [(3, "two\n", False), (1, "one ✓", False), (2, "", True), (3, "two\n", False), None, None]


async def test_files_are_listed_by_path_without_deleted_ones(store: Store) -> None:
    for path in ("b", "a/Z", "a/ä", "a_b", "A", "gone"):
        await write(store, path, path)
    await write(store, "b", "again")
    await write(store, "gone", None)
    assert await paths(store, "t") == ["A", "a/Z", "a/ä", "a_b", "b"]
    assert await paths(store, "t", "a/") == ["a/Z", "a/ä"]
    assert await paths(store, "t", "a_") == ["a_b"]
    assert [one.version for one in await store.list_files("t", "b")] == [2]


async def test_all_threads_of_a_tree_have_the_same_files_and_no_other_thread_has(store: Store) -> None:
    for own, parent in (("root", None), ("child", "root"), ("grandchild", "child"), ("other", None)):
        await store.create_thread(thread(own, parent_thread_id=parent))
    await write(store, "x", "by root", "root")
    await write(store, "x", "by grandchild", "grandchild")
    await write(store, "x", "elsewhere", "other")
    await write(store, "x", "no row", "default")
    for name, text in {
        "root": "by grandchild",
        "child": "by grandchild",
        "other": "elsewhere",
        "default": "no row",
    }.items():
        found = await store.read_file(name, "x")
        assert found is not None
        assert found.content == text
    assert [one.thread_id for one in await store.list_file_versions("child", "x")] == ["grandchild", "root"]
    await store.delete_thread("child")  # what it was in the middle of is a root now
    assert await paths(store, "grandchild") == []
    assert await paths(store, "root") == ["x"]
    await store.delete_thread("root")
    assert await paths(store, "root") == []
    assert await store.list_file_versions("root", "x") == []
    assert await paths(store, "other") == ["x"]
    await store.create_thread(thread("root"))
    assert (await write(store, "x", "anew", "root")).version == 1


async def test_parents_in_a_circle_are_followed_no_further_than_there_can_be_threads(store: Store) -> None:
    await store.create_thread(thread("a", parent_thread_id="b"))
    await store.create_thread(thread("b", parent_thread_id="a"))
    async with asyncio.timeout(PATIENCE):
        await write(store, "x", "text", "a")
        assert await paths(store, "a") == ["x"]


async def test_a_lost_update_is_refused_with_both_texts(store: Store) -> None:
    with pytest.raises(FileConflictError, match="there never was such a file; expectedVersion 0 creates it"):
        await write(store, "a", "x", expected_version=1)
    await write(store, "a", "one", expected_version=0)
    await write(store, "a", "two", expected_version=1, author="bob")
    cases: dict[int, tuple[str | None, str]] = {
        0: ("", "two"),
        1: ("one", "two"),
        7: (None, "two"),
        2**70: (None, "two"),
    }
    for expected, texts in cases.items():
        with pytest.raises(FileConflictError, match="newest version is 2, written by bob") as refused:
            await write(store, "a", "x", expected_version=expected)
        assert (refused.value.version, refused.value.author, refused.value.texts) == (2, "bob", texts)
    await write(store, "a", None, expected_version=2)
    with pytest.raises(FileConflictError, match="newest version is 3, deleted by main"):
        await write(store, "a", "x", expected_version=2)
    assert (await write(store, "a", "again", expected_version=0)).version == 4
    await write(store, "a", None)
    assert (await write(store, "a", "and again", expected_version=5)).version == 6


async def test_a_part_is_replaced_only_where_it_is_there_once(store: Store) -> None:
    await write(store, "a", "one\ntwo\none two\n" + "aaa\n")
    assert (await write(store, "a", "2", replaces="\ntwo\n")).size == 16
    for old, message in {
        "o": r"it is 3 times in 'a' \(version 2\), beginning on lines 1, 1, 1",
        "aa": "it is 2 times in 'a'",
        "ONE": "it is not in 'a'",
    }.items():
        with pytest.raises(InvalidFileError, match=f"^old: {message}"):
            await write(store, "a", "x", replaces=old)
    await write(store, "many", "x" * 500)
    with pytest.raises(InvalidFileError, match=r"it is more than 100 times in 'many'.* lines 1, 1, 1, 1, 1, …"):
        await write(store, "many", "y", replaces="x")
    found = await store.read_file("t", "a")
    assert found is not None
    assert found.content == "one2one two\naaa\n"


async def test_what_is_not_there_can_neither_be_deleted_nor_edited(store: Store) -> None:
    await write(store, "gone", "x")
    await write(store, "gone", None)
    for path in ("gone", "never"):
        for attempt in (change(path, None), change(path, "x", replaces="y")):
            with pytest.raises(NotFoundError, match=f"no file '{path}'"):
                await store.write_file(attempt, LIMITS)
    assert len(await store.list_file_versions("t", "gone")) == 2


async def test_each_limit_is_kept_with_history_and_for_each_tree_alone(store: Store) -> None:
    limits = {
        "max_file": FileLimits(max_file=4),
        "max_total": FileLimits(max_total=12),
        "max_files": FileLimits(max_files=2),
        "max_versions": FileLimits(max_versions=3),
    }
    for path, content in (("a", "aaaa"), ("a", None), ("b", "éé")):
        await write(store, path, content)
    refused = {"max_file": ("a", "éé1"), "max_total": ("a", "12345"), "max_files": ("c", ""), "max_versions": ("a", "")}
    for name, (path, content) in refused.items():
        with pytest.raises(InvalidFileError, match=f"^{name}: ") as error:
            await store.write_file(change(path, content), limits[name])
        assert error.value.field == name
        await store.write_file(change(path, content, f"other {name}"), limits["max_total"])
    assert [len(await store.list_file_versions("t", path)) for path in "abc"] == [2, 1, 0]
    await store.write_file(change("b", "1234"), limits["max_total"])  # exactly as much as there may be
    with pytest.raises(InvalidFileError, match="would have 13 bytes, older versions included, and 12 are allowed"):
        await store.write_file(change("b", "1"), limits["max_total"])


async def overwrite(turn: Turn, together: asyncio.Barrier) -> None:
    """Write without looking."""
    for number in range(WRITES):
        await together.wait()
        result = await turn.call_tool("vfs_write", {"path": "log", "content": f"{turn.prompt} {number}"})
        assert not result.is_error, result.text


async def append(turn: Turn, together: asyncio.Barrier) -> None:
    """Add a line to what is there, again after each refusal."""
    text, version = "", 0
    for number in range(WRITES):
        line = f"{turn.prompt} {number}\n"
        await together.wait()
        while True:
            given = {"path": "log", "content": text + line, "expectedVersion": version}
            result = await turn.call_tool("vfs_write", given)
            if not result.is_error:
                text, version = text + line, version + 1
                break
            assert "was not written" in result.text, result.text
            read = await turn.call_tool("vfs_read", {"path": "log"})
            text = read.content[0].text + "\n"
            found = re.search(r"version (\d+) by", read.content[1].text)
            assert found is not None
            version = int(found[1])


@pytest.mark.promise("K2")
@pytest.mark.parametrize("work", [overwrite, append], ids=["overwriting", "merging"])
async def test_two_agents_write_one_file_a_thousand_times_at_once_and_nothing_is_lost(
    place: Place, tmp_path: Path, work: Callable[[Turn, asyncio.Barrier], Awaitable[None]]
) -> None:
    """The two are in a thread and its child, and each in a stead of its own, as two processes would be."""

    together = asyncio.Barrier(2)

    async def act(turn: Turn) -> Answer:
        await work(turn, together)
        return Answer(text="done")

    write_agent("helper")
    environ = {**os.environ, "TOOLSTEAD_DATABASE_URL": place.address}
    store = await place.open()
    await store.create_thread(thread("parent"))
    await store.create_thread(thread("child", parent_thread_id="parent"))
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                Toolstead(tmp_path, environ=environ, runtimes=[BenchRuntime(act=act)], watch=False)
            )
            for _ in range(2)
        ]
        main, helper = await asyncio.gather(
            both[0].invoke("main", thread_id="parent", agent="main"),
            both[1].invoke("helper", thread_id="child", agent="helper"),
        )
    assert [main.result, helper.result] == ["done", "done"], [main.error, helper.error]
    history = (await store.list_file_versions("parent", "log", limit=5_000))[::-1]
    assert [one.version for one in history] == list(range(1, 2 * WRITES + 1))
    assert sum(one.author != other.author for one, other in itertools.pairwise(history)) >= WRITES
    owners = {"main": ("parent", main.id), "helper": ("child", helper.id)}
    assert all((one.thread_id, one.run_id) == owners[one.author] for one in history)
    texts = [await store.read_file("child", "log", version=one.version) for one in history]
    lines = [text.content.splitlines() for text in texts if text is not None]
    assert [last[-1].split()[0] for last in lines] == [one.author for one in history]
    for agent in owners:
        own = [last[-1] for last in lines if last[-1].startswith(agent)]
        assert own == [f"{agent} {number}" for number in range(WRITES)]
    if work is append:
        assert all(later[:-1] == earlier for earlier, later in itertools.pairwise(lines))
