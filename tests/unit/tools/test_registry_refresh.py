"""A refresh: a source looks again at a part of what it reads, and the rest stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.unit.tools.shelf import Shelf, held_by, hidden, holder, names, offer, problems, tool
from toolstead.tools.definition import RegisteredTool, define_tool
from toolstead.tools.generation import Visibility
from toolstead.tools.registry import Registry
from toolstead.tools.sources import Offers, SourceChanges
from toolstead.types.tool import Changes, Problem

HERE = "tests.unit.tools.shelf"


class Files(Shelf):
    """A source of one tool for each file, which can look again at some files only."""

    def __init__(self, name: str, **files: str) -> None:
        super().__init__(name)
        self.files = files
        self.handed: dict[str, RegisteredTool] = {}
        self.unwell: Exception | None = None

    async def load(self) -> Offers:
        await super().load()
        self.handed = {path: self.made(path) for path in self.files}
        return Offers(tools=list(self.handed.values()), problems=self.problems)

    async def refresh(self, paths: Collection[Path] | None = None) -> SourceChanges:
        await super().load()
        if self.unwell is not None:
            raise self.unwell
        names = [*self.handed, *self.files] if paths is None else [str(path) for path in paths]
        names = list(dict.fromkeys(names))
        gone = [self.handed.pop(name) for name in names if name in self.handed]
        fresh = {name: self.made(name) for name in names if name in self.files}
        self.handed |= fresh
        return SourceChanges(gone=gone, fresh=list(fresh.values()), problems=self.problems)

    def made(self, path: str) -> RegisteredTool:
        name, _, text = self.files[path].partition(":")
        offered = offer(name, path, description=text or "A tool.")
        return define_tool(offered.tool, offered.provenance, offered.context)


def paths(*given: str) -> list[Path]:
    return [Path(one) for one in given]


async def test_a_part_that_is_looked_at_again_changes_and_the_rest_stays_in_its_place() -> None:
    files = Files("files", a="a", b="b", c="c")
    registry = Registry([files])
    await registry.reload()
    registry.register(tool("mine"))
    kept = registry.current.tools["b"]
    files.files = {"a": "a:Changed.", "b": "b:Not looked at.", "d": "d"}
    swap = await registry.refresh(files, paths("a", "c", "d"))
    assert swap.changes == Changes(added=("d",), removed=("c",), changed=("a",))
    assert names(registry) == ["a", "b", "mine", "d"]
    assert registry.current.tools["b"] is kept
    registry.apply_switches(frozenset({"b"}))
    registry.apply_switches(frozenset())
    assert names(registry) == ["a", "b", "mine", "d"]
    assert (await registry.reload()).changes == Changes(changed=("b",))
    assert names(registry) == ["a", "b", "mine", "d"]


async def test_a_part_that_is_hidden_stays_hidden() -> None:
    files = Files("files", a="a", b="b")
    registry = Registry([files], visibility=Visibility(blocked=["b", "c"]))
    await registry.reload()
    files.files = {"a": "a", "b": "b:Changed.", "c": "c"}
    assert not (await registry.refresh(files, paths("b", "c"))).changes
    assert (names(registry), list(hidden(registry))) == (["a"], ["b", "c"])
    del files.files["b"]
    await registry.refresh(files, paths("b"))
    assert (list(hidden(registry)), list(registry.current.held)) == (["c"], ["a", "c"])


@pytest.mark.promise("R4")
async def test_a_name_that_a_part_claims_too_is_set_aside_logged_and_given_when_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = Files("files", a="a")
    registry = Registry([files, Shelf("s.json", "b")])
    await registry.reload()
    files.files["claims"] = "b"
    caplog.clear()
    await registry.refresh(files, paths("claims"))
    assert holder(registry, "b") == "s.json"
    assert problems(registry) == [("claims", "b", held_by("plugin s (s.json)"))]
    assert [record.getMessage() for record in caplog.records] == [f"claims: tool 'b': {held_by('plugin s (s.json)')}"]
    await registry.reload()
    assert len(caplog.records) == 1
    files.files["claims"] = "c"
    await registry.refresh(files, paths("claims"))
    assert (problems(registry), names(registry)) == ([], ["a", "b", "c"])


async def test_two_files_may_swap_their_names_at_once() -> None:
    files = Files("files", one="a", two="b")
    registry = Registry([files])
    await registry.reload()
    files.files = {"one": "b", "two": "a"}
    await registry.refresh(files, paths("one", "two"))
    assert [holder(registry, name) for name in ("a", "b")] == ["two", "one"]
    assert (names(registry), problems(registry)) == (["a", "b"], [])


async def test_a_source_that_fails_at_a_part_is_read_whole(caplog: pytest.LogCaptureFixture) -> None:
    files = Files("files", a="a")
    registry = Registry([files])
    await registry.reload()
    files.unwell, files.files["b"] = RuntimeError("lost its place"), "b"
    assert (await registry.refresh(files, paths("b"))).changes == Changes(added=("b",))
    assert "source files could not be updated in part" in caplog.text
    files.error = OSError("the disk is gone")
    await registry.refresh(files, paths("b"))
    assert (names(registry), problems(registry)) == (
        ["a", "b"],
        [("files", None, "could not be read: the disk is gone")],
    )


async def test_what_is_registered_while_a_part_is_looked_at_is_not_lost() -> None:
    files = Files("files", a="a")
    registry = Registry([files])
    await registry.reload()
    files.open.clear()
    files.reading.clear()
    files.files["b"] = "b"
    looking = asyncio.create_task(registry.refresh(files, paths("b")))
    reload = asyncio.create_task(registry.reload())
    await asyncio.wait_for(files.reading.wait(), 5)
    registry.register(tool("b"), tool("mine"))
    assert files.reads == 2
    files.open.set()
    await asyncio.wait_for(asyncio.gather(looking, reload), 5)
    assert (names(registry), holder(registry, "b"), files.reads) == (["a", "b", "mine"], HERE, 3)


async def test_looking_at_a_part_costs_what_changed_not_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files("files", **{f"f{n}": f"t{n}" for n in range(500)})
    registry = Registry([files])
    await registry.reload()
    asked: list[str] = []
    hides = Visibility.reason_hidden

    def counted(self: Visibility, name: str) -> str | None:
        asked.append(name)
        return hides(self, name)

    monkeypatch.setattr(Visibility, "reason_hidden", counted)
    files.files["f7"] = "t7:Changed."
    assert (await registry.refresh(files, paths("f7"))).changes == Changes(changed=("t7",))
    assert asked == ["t7"]


async def test_two_new_files_of_one_name_are_settled_like_any_two() -> None:
    files = Files("files")
    registry = Registry([files])
    await registry.reload()
    files.files = {"one": "x", "two": "x"}
    assert (await registry.refresh(files, paths("one", "two"))).changes == Changes(added=("x",))
    assert holder(registry, "x") == "one"
    assert problems(registry) == [("two", "x", held_by("plugin one (one)"))]


async def test_what_a_part_sets_aside_is_reported_until_it_is_mended() -> None:
    files = Files("files", a="a")
    registry = Registry([files])
    await registry.reload()
    files.problems = [Problem(source="b", message="no JSON at all")]
    await registry.refresh(files, paths("b"))
    assert problems(registry) == [("b", None, "no JSON at all")]
    files.problems = []
    await registry.refresh(files, paths("b"))
    assert problems(registry) == []


async def test_a_source_takes_away_only_what_is_its_own() -> None:
    files = Files("files", a="a")
    registry = Registry([files, Shelf("s.json", "b")])
    await registry.reload()
    other = Files("other", b="b")
    files.handed["b"] = other.made("b")
    assert not (await registry.refresh(files, paths("b"))).changes
    assert (names(registry), holder(registry, "b")) == (["a", "b"], "s.json")


async def test_a_refresh_without_a_hint_finds_what_changed() -> None:
    files = Files("files", a="a", b="b")
    registry = Registry([files])
    await registry.reload()
    files.files = {"b": "b:other", "c": "c"}
    swap = await registry.refresh(files)
    assert swap.changes == Changes(added=("c",), removed=("a",), changed=("b",))


async def test_a_source_comes_and_goes_with_all_its_tools_in_one_generation() -> None:
    first, second = Shelf("first", "a"), Shelf("second", "b", "c")
    registry = Registry([first])
    await registry.reload()
    swaps: list[Changes] = []
    registry.subscribe(lambda swap: swaps.append(swap.changes))
    assert (await registry.add_source(second)).changes == Changes(added=("b", "c"))
    assert (await registry.remove_source(second)).changes == Changes(removed=("b", "c"))
    assert swaps == [Changes(added=("b", "c")), Changes(removed=("b", "c"))]
    assert names(registry) == ["a"]


async def test_the_name_of_a_source_that_goes_falls_to_the_one_that_waits_for_it() -> None:
    first = Shelf("first", "a")
    registry = Registry([first])
    await registry.reload()
    await registry.add_source(Shelf("second", "a", "b"))
    assert holder(registry, "a") == "first"
    assert problems(registry) == [("second", "a", held_by("plugin first (first)"))]
    swap = await registry.remove_source(first)
    assert (holder(registry, "a"), problems(registry)) == ("second", [])
    assert swap.changes.removed == ()


async def test_a_source_that_was_removed_is_not_read_by_the_next_reload_nor_taken_in_by_a_late_refresh() -> None:
    files = Files("files", a="a")
    registry = Registry([files])
    await registry.reload()
    await registry.remove_source(files)
    await registry.reload()
    assert files.reads == 1
    files.files = {"b": "b"}
    assert not (await registry.refresh(files)).changes
    assert names(registry) == []


async def test_a_source_that_cannot_be_read_when_it_comes_is_a_problem_and_may_be_read_later() -> None:
    registry, files = Registry(), Files("files", a="a")
    files.error = OSError("no")
    await registry.add_source(files)
    assert problems(registry) == [("files", None, "could not be read: no")]
    files.error = None
    assert (await registry.reload()).changes == Changes(added=("a",))
