"""Tools that are prompts, through a stead: who sees them, what their children see and where they work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime
from toolstead import PluginContext, Tool, ToolMeta, Toolstead, UnknownToolError, tool
from toolstead.adapters.mcp.in_process import in_process_client
from toolstead.errors import NotFoundError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn
from toolstead.orchestrator.request import RunRequest
from toolstead.types.run import Run

THINK = '{name: think, description: Thinks., prompt: "think {{about}}", parameters: {about: {type: string}}}'
Act = Callable[[Turn], Awaitable[Answer]]


@tool
async def note() -> str:
    """Read the note."""
    return "the note"


@tool
async def where(meta: ToolMeta) -> str:
    """Say where you are."""
    return str(meta.cwd)


async def spawn(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return "started"


SPAWN = Tool(name="spawn", description="Starts an agent.", handler=spawn, spawns=True)
DELEGATE = Tool(name="delegate_agent", description="Delegates.", handler=spawn, spawns=True)


async def call(turn: Turn, name: str = "think", **input: Any) -> str:
    try:
        return (await turn.call_tool(name, input)).text
    except UnknownToolError as error:
        return str(error)


class Scene:
    """A stead with one runtime, which does what a test says for each prompt."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.acts: dict[str, Act] = {}
        self.runtime = BenchRuntime(act=self._act, owns_process=False)
        folder.mkdir(parents=True, exist_ok=True)
        self.stead = Toolstead(folder, runtimes=[self.runtime], settings=settings, watch=False)

    async def _act(self, turn: Turn) -> Answer:
        act = self.acts.get(turn.prompt.partition(" ")[0])
        return Answer(text=f"answer to {turn.prompt}") if act is None else await act(turn)

    def spec_of(self, agent: str) -> SessionSpec:
        """What the last session of an agent was opened with."""
        return next(one.spec for one in reversed(self.runtime.sessions) if one.spec.agent == agent)

    async def ask(self, prompt: str, **more: Any) -> Run:
        return await bounded(self.stead.invoke(prompt, agent="thinker", **more))

    async def children(self) -> list[Run]:
        store = (await self.stead.conversations()).store
        return [run for run in reversed(await store.list_runs()) if run.parent_run_id]


@asynccontextmanager
async def opened(folder: Path, frontmatter: str = f"tools: ['*', {THINK}]", **settings: Any) -> AsyncIterator[Scene]:
    write_agent("thinker", frontmatter)
    write_agent("other")
    scene = Scene(folder / "project", **settings)

    async def ask_child(turn: Turn) -> Answer:
        return Answer(text=await call(turn, about="it"))

    scene.acts["begin"] = ask_child
    async with scene.stead as stead:
        stead.registry.register(note, where, SPAWN)
        yield scene


async def test_a_custom_tool_is_unknown_to_everybody_but_its_agent(tmp_path: Path) -> None:
    async with opened(tmp_path) as scene:
        stead = scene.stead
        assert (await scene.ask("begin")).result == "answer to think it"
        run = await bounded(stead.invoke("begin", agent="other"))
        assert "unknown tool 'think'" in str(run.result)
        assert "think" not in scene.spec_of("other").tools
        with pytest.raises(UnknownToolError):
            await stead.call("think", {"about": "x"})
        assert not stead.registry.has_tool("think")
        assert not stead.registry.holds("think")
        server = stead.registry.to_mcp_server_config()["instance"]
        async with in_process_client(server, "handshake") as client:
            assert "think" not in [one.name for one in (await client.list_tools()).tools]
        assert len(await scene.children()) == 1


async def test_what_the_settings_a_person_or_the_file_forbid_holds_for_custom_tools(tmp_path: Path) -> None:
    forbidden: dict[str, tuple[dict[str, Any], str]] = {
        "blocked by 'thi*' in tools.blocked": ({"tools": {"blocked": ["thi*"]}}, ""),
        "not named by tools.allowed": ({"tools": {"allowed": ["note"]}}, ""),
        "blocked by 'think' in `disallowed_tools` of the agent thinker": ({}, "\ndisallowed_tools: [think]"),
    }
    for number, (reason, (settings, more)) in enumerate(forbidden.items()):
        async with opened(tmp_path / str(number), f"tools: ['*', {THINK}]{more}", **settings) as scene:
            assert "unknown tool 'think'" in str((await scene.ask("begin")).result), reason
            assert "think" not in scene.spec_of("thinker").instructions
            agents = await scene.stead.agents()
            reasons = {one.name: one for one in agents.explain_tools(agents.read_agent("thinker"))}
            assert (reasons["think"].is_offered, reasons["think"].reason) == (False, reason)
    async with opened(tmp_path / "switch") as scene:
        registry = scene.stead._parts.registry
        assert (await scene.ask("begin", thread_id="t")).result == "answer to think it"
        registry.apply_switches(frozenset({"think"}))
        assert "unknown tool 'think'" in str((await scene.ask("begin", thread_id="t")).result)
        registry.apply_switches(frozenset())
        assert (await scene.ask("begin", thread_id="t")).result == "answer to think it"


async def test_a_tool_that_takes_the_name_later_is_the_one_that_is_offered_and_described(tmp_path: Path) -> None:
    @tool(name="think")
    async def everybodys(about: str) -> str:
        """Think for everybody."""
        return f"everybody thinks about {about}"

    async with opened(tmp_path) as scene:
        assert (await scene.ask("begin", thread_id="t")).result == "answer to think it"
        assert "- think: Thinks." in scene.spec_of("thinker").instructions
        scene.stead.registry.register(everybodys)
        assert (await scene.ask("begin", thread_id="t")).result == "everybody thinks about it"
        assert "Thinks." not in scene.spec_of("thinker").instructions
        agents = await scene.stead.agents()
        assert [one.message for one in agents.find_findings() if "rename it" in one.message]
        scene.stead.registry.unregister("think")
        assert (await scene.ask("begin", thread_id="t")).result == "answer to think it"


async def test_a_child_sees_what_its_agent_may_see_without_what_starts_agents(tmp_path: Path) -> None:
    narrowed = THINK.replace("name: think", "name: narrow, tools: [note, 'git-*', spawn, Bash]").replace(
        "think {{", "narrow {{"
    )
    shared = "note, where, spawn, git-status, workspace-info, 'Re*'"
    frontmatter = f"tools: [{shared}, {THINK}, {narrowed}]\ndisallowed_tools: [where]"

    async with opened(tmp_path, frontmatter) as scene:

        async def guess(turn: Turn) -> Answer:
            names = ("note", "where", "spawn", "think", "narrow", "git-diff-summary", "vfs_list")
            return Answer(text="|".join([await call(turn, name) for name in names]))

        async def begin(turn: Turn) -> Answer:
            return Answer(text="\n".join([await call(turn, name, about="it") for name in ("think", "narrow")]))

        scene.acts = {"begin": begin, "think": guess, "narrow": guess}
        run = await scene.ask("begin")
        assert set(scene.spec_of("thinker").tools) == {
            "note",
            "spawn",
            "git-status",
            "workspace-info",
            "think",
            "narrow",
        }
        assert set(scene.spec_of("thinker/think").tools) == {"note", "git-status", "workspace-info"}
        assert set(scene.spec_of("thinker/narrow").tools) == {"note", "git-status"}
        for line in str(run.result).splitlines():
            seen, *unknown = line.split("|")
            assert seen == "the note"
            assert [text.partition(";")[0] for text in unknown] == [
                f"unknown tool {name!r}"
                for name in ("where", "spawn", "think", "narrow", "git-diff-summary", "vfs_list")
            ]
        # Of a runtime's own tools, a child has those that both lists name.
        configured = ("Read", "Bash", "git-status")
        assert scene.spec_of("thinker/think").permitted_tools(configured) == ("Read", "git-status")
        assert scene.spec_of("thinker/narrow").permitted_tools(configured) == ("git-status",)


async def test_a_run_whose_file_is_deleted_or_loses_its_tool_keeps_its_view_to_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path, f"tools: [note, {THINK}]") as scene:
        agents = await scene.stead.agents()

        async def lose_tool(turn: Turn) -> Answer:
            write_agent("thinker", "tools: [note]")
            assert (await agents.reload()).changed == ("thinker",)
            return Answer(text="|".join([await call(turn, name) for name in ("note", "where", "spawn")]))

        async def lose_file(turn: Turn) -> Answer:
            below = await call(turn, about="it")
            path.unlink()
            assert (await agents.reload()).removed == ("thinker",)
            own = [await call(turn, name) for name in ("note", "where", "spawn")]
            return Answer(text="\n".join([below, "|".join(own)]))

        path = write_agent("thinker", f"tools: [note, {THINK}]")
        scene.acts = {"begin": lose_file, "think": lose_tool}
        run = await scene.ask("begin")
        for line in str(run.result).splitlines():
            assert [text.partition(";")[0] for text in line.split("|")] == [
                "the note",
                "unknown tool 'where'",
                "unknown tool 'spawn'",
            ]
        write_agent("thinker")  # one without rules: it sees everything
        await agents.reload()
        scene.acts = {}
        await scene.ask("hello")
        assert {"note", "where", "spawn"} <= set(scene.spec_of("thinker").tools)


@pytest.mark.promise("K2")
async def test_a_child_works_in_its_parents_folder_and_shares_its_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as scene:
        stead = scene.stead
        (stead.places.project / "sub").mkdir()

        async def child(turn: Turn) -> Answer:
            await call(turn, "vfs_write", path="found.md", content="by the child")
            return Answer(text=await call(turn, "where"))

        async def parent(turn: Turn) -> Answer:
            place = await call(turn, about="it")
            return Answer(text=f"{place}|{await call(turn, 'vfs_read', path='found.md')}")

        scene.acts = {"begin": parent, "think": child}
        orchestrator = await stead.conversations()
        for cwd in ("sub", None):
            request = RunRequest(prompt="begin", agent="thinker", cwd=cwd)
            run = await bounded(orchestrator.wait((await orchestrator.submit(request)).run_id))
            place, _, text = str(run.result).partition("|")
            expected = stead.places.project / (cwd or "")
            assert Path(place) == expected
            assert "by the child" in text
            assert scene.spec_of("thinker/think").cwd == expected


async def test_cancelling_the_parent_cancels_the_child_and_deleting_its_thread_deletes_the_childs(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as scene:
        begun = asyncio.Event()

        async def hang(_: Turn) -> Answer:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        scene.acts["think"] = hang
        orchestrator = await scene.stead.conversations()
        for end in ("cancel", "delete"):
            begun.clear()
            accepted = await orchestrator.submit(RunRequest(prompt="begin", agent="thinker", thread_id=end))
            await bounded(begun.wait())
            child = (await scene.children())[-1]
            assert (child.status, child.parent_run_id) == ("running", accepted.run_id)
            thread = await orchestrator.store.read_thread(child.thread_id)
            assert thread.parent_thread_id == end
            if end == "cancel":
                assert (await bounded(orchestrator.cancel(accepted.run_id))).status == "cancelled"
                assert (await bounded(orchestrator.wait(child.id))).status == "cancelled"
            await bounded(orchestrator.delete_thread(end))
            for gone in (end, child.thread_id):
                with pytest.raises(NotFoundError):
                    await orchestrator.store.read_thread(gone)
            with pytest.raises(NotFoundError):
                await orchestrator.store.read_run(child.id)


async def test_the_agents_to_delegate_to_are_described_when_there_is_a_tool_to_delegate_with(tmp_path: Path) -> None:
    write_agent("writer")
    async with opened(tmp_path, multi_agent={"agents": ["other", "nobody", "main"]}) as scene:
        stead = scene.stead

        async def described(agent: str) -> list[str]:
            assert (await bounded(stead.invoke("hello", agent=agent))).status == "completed"
            text = scene.spec_of(agent).instructions
            return [line[2:].partition(":")[0] for line in text.splitlines() if line.startswith("- ")]

        assert await described("main") == ["other"]  # not itself, and nobody who is not there
        assert scene.spec_of("main").instructions.startswith("You work for the user in the folder")
        write_agent("main", "agents: [writer, thinker]")
        write_agent("thinker", f"agents: []\ntools: ['*', {THINK}]")
        write_agent("other", "disallowed_tools: [delegate_agent]")
        await stead.registry.reload_plugins()
        assert await described("main") == ["thinker", "writer"]
        assert await described("thinker") == ["think"]
        assert await described("other") == []
        assert await described("writer") == ["main", "other"]


async def test_a_file_that_cannot_become_a_tool_keeps_nothing_else_from_being_loaded(tmp_path: Path) -> None:
    async with opened(tmp_path) as scene:
        wild = "tools: ['[', '[!', '[z-a]', '***', '?[]*', {name: think, description: ' ', prompt: ' x '}]"
        write_agent("odd", wild)
        write_agent(
            "deep",
            "tools: [{name: deep, description: d, prompt: p, result_schema: " + "{items: " * 30 + "{}" + "}" * 31 + "]",
        )
        reloaded = await scene.stead.registry.reload_plugins()
        assert reloaded.success, reloaded.errors
        agents = await scene.stead.agents()
        for name in agents.catalogue.agents:
            assert (await bounded(scene.stead.invoke("hello", agent=name))).status == "completed", name
