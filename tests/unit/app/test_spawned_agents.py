"""Spawned agents in a stead: what they see and may do, over reloads, in another process, and once forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime
from toolstead import PluginContext, Tool, ToolMeta, Toolstead, UnknownToolError, tool
from toolstead.app import spawned_agents
from toolstead.app.agents import SteadAgents
from toolstead.errors import InvalidAgentError, RefusedError, UnknownAgentError
from toolstead.invoker.runtime import Answer, SessionSpec, Turn
from toolstead.orchestrator.orchestrator import watched_run
from toolstead.orchestrator.request import RunRequest

LEAD = """\
tools: [note, where, spawn, 'Re*', {name: ask, description: Asks., prompt: p}]
disallowed_tools: [where]
agents: [writer, lead, nobody]
max_turns: 9
limits: {max_fanout: 3, run_timeout: 50, cost_budget: 0.5}"""
THINK = "{name: think, description: Thinks., prompt: think, tools: ['*']}"


@tool
async def note() -> str:
    """Read the note."""
    return "the note"


@tool
async def where() -> str:
    """Say where you are."""
    return "here"


@tool
async def secret() -> str:
    """Read the secret."""
    return "the secret"


async def _spawn(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return "started"


SPAWN = Tool(name="spawn", description="Starts an agent.", handler=_spawn, spawns=True)


def markdown(frontmatter: str = "", *, name: str = "helper") -> str:
    return f"---\nname: {name}\ndescription: Helps.\n{frontmatter}\n---\nHelp {name}.\n"


class Scene:
    """A stead whose runtime guesses the names of tools, and what it knows of agents."""

    def __init__(self, stead: Toolstead, agents: SteadAgents, runtime: BenchRuntime) -> None:
        self.stead, self.agents, self.runtime = stead, agents, runtime
        self.registry = stead._parts.registry

    def view(self, name: str) -> set[str]:
        return set(self.registry.find_view(name).names)

    async def spec(self, name: str) -> SessionSpec:
        configs = (await self.stead.conversations()).agents
        config = configs.resolve_agent(name, is_child=True)
        return configs.build_spec(config, cwd=Path("/project"), may_spawn=True)

    def limit(self, **limits: Any) -> None:
        """Change the limits of the settings."""
        parts = self.stead._parts
        settings = parts.loaded.settings
        changed = msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, **limits))
        parts.loaded = msgspec.structs.replace(parts.loaded, settings=changed)


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Scene]:
    async def guess(turn: Turn) -> Answer:
        told: list[str] = []
        for name in turn.prompt.split():
            try:
                told.append((await turn.call_tool(name, {})).text)
            except UnknownToolError as error:
                told.append(str(error).partition(";")[0])
        return Answer(text="|".join(told) or "nothing")

    runtime = BenchRuntime(act=guess, owns_process=False)
    folder.mkdir(exist_ok=True)
    async with Toolstead(folder, runtimes=[runtime], settings=settings, watch=False) as stead:
        stead.registry.register(note, where, secret, SPAWN)
        yield Scene(stead, await stead.agents(), runtime)


async def test_a_spawned_agent_sees_what_its_parent_and_its_own_lists_both_show(tmp_path: Path) -> None:
    write_agent("lead", LEAD)
    async with opened(tmp_path) as scene:
        register, find_agent = scene.agents.register_spawned, scene.agents.find_agent
        views = {
            "": {"note", "spawn"},  # neither `secret` nor `where`, nor its parent's own `ask`
            "tools: ['*']": {"note", "spawn"},
            "tools: [note, secret, where, git-status]": {"note"},
            "tools: []": set[str](),
            "disallowed_tools: ['s*']": {"note"},
            "agents: []": {"note"},
            f"agents: []\ntools: [note, {THINK}]": {"note", "think"},
            f"tools: [{THINK}]\ndisallowed_tools: [think]": {"note", "spawn"},
        }
        for number, (frontmatter, expected) in enumerate(views.items()):
            agent = register(f"t{number}", "lead", markdown(frontmatter))
            assert scene.view(agent.name) == expected, frontmatter
            assert set((await scene.spec(agent.name)).tools) == expected, frontmatter
            assert find_agent(agent.name) == agent

        top = register("top", "lead", markdown("disallowed_tools: [note]", name="top"))
        low = register("low", top.name, markdown(f"tools: ['*', {THINK}]", name="low"))
        assert (top.name, low.name) == ("lead/top@top", "lead/low@low")
        assert scene.view(low.name) == {"spawn", "think"}
        assert scene.view(f"{low.name}/think") == set()
        spec = await scene.spec(low.name)
        assert "- think: Thinks." in spec.instructions
        assert spec.permitted_tools(("Read", "Bash")) == ("Read",)  # the lists hold for the runtime's own tools too
        silent = await scene.spec(register("silent", "lead", markdown("disallowed_tools: [Read]")).name)
        assert silent.permitted_tools(("Read", "Bash")) == ()
        reasons = {one.name: one.reason for one in scene.agents.explain_tools(low)}
        assert reasons["note"] == "blocked by 'note' in `disallowed_tools` of the agent lead/top@top"
        assert reasons["secret"] == "not named by `tools` of the agent lead"


async def test_a_spawned_agent_runs_as_a_child_alone_and_calls_nothing_that_it_does_not_see(tmp_path: Path) -> None:
    write_agent("lead", LEAD)
    async with opened(tmp_path) as scene:
        agents, orchestrator = scene.agents, await scene.stead.conversations()
        schema = "result_schema: {type: object}"
        agent = agents.register_spawned("t", "lead", markdown(f"tools: [note, secret, {THINK}]\n{schema}"))
        with pytest.raises(UnknownAgentError):
            await scene.stead.invoke("note", agent=agent.name)

        async def run_child(turn: Turn) -> Answer:
            scene.runtime.act = guess
            request = RunRequest(prompt="note secret where ask think", agent=agent.name).as_child_of(turn.caller)
            run = await watched_run(orchestrator, scene.stead._parts.events, request, None)
            return Answer(text=str(run.result))

        guess, scene.runtime.act = scene.runtime.act, run_child
        run = await bounded(scene.stead.invoke("begin", agent="lead"))
        unknown = [f"unknown tool {name!r}" for name in ("secret", "where", "ask")]
        assert str(run.result).split("|") == ["the note", *unknown, "unknown tool 'think'"]
        spec = next(one.spec for one in scene.runtime.sessions if one.spec.agent == agent.name)
        assert spec.instructions.startswith("Help helper.")
        assert (spec.max_turns, spec.result_schema) == (9, "")  # its schema is for the task, as that of a file
        child = next(one.spec for one in scene.runtime.sessions if one.spec.agent == f"{agent.name}/think")
        assert set(child.tools) == {"note"}


async def test_what_its_markdown_leaves_open_is_its_parents_and_follows_the_settings(tmp_path: Path) -> None:
    write_agent("lead", LEAD)
    async with opened(tmp_path) as scene:
        configs = (await scene.stead.conversations()).agents
        agent = scene.agents.register_spawned("t", "lead", markdown("limits: {max_depth: 1}\nmodel: sonnet"))
        assert (agent.scope, agent.origin.endswith("lead.md"), agent.model, agent.runtime) == (
            *("user", True, "sonnet", ""),
        )
        config = configs.resolve_agent(agent.name, is_child=True)
        assert (config.agent, config.timeout, config.turn.cost, config.turn.tokens) == (agent.name, 50, 0.5, 500_000)
        assert (config.tree.max_depth, config.tree.max_fanout, config.tree.max_descendants) == (1, 3, 64)
        scene.limit(token_budget=7, max_depth=0)
        config = configs.resolve_agent(agent.name, is_child=True)
        assert (config.turn.tokens, config.tree.max_depth) == (7, 0)


async def test_the_same_markdown_is_the_same_agent_in_another_process(tmp_path: Path) -> None:
    write_agent("lead", LEAD)
    write_agent("writer")
    top = markdown("agents: [writer]\nlimits: {max_depth: 2}", name="top")
    low = markdown(f"tools: [note, {THINK}]", name="low").replace("name: low\n", "")
    async with opened(tmp_path / "a") as one, opened(tmp_path / "b") as other:
        found: list[object] = []
        for scene in (one, other):
            agents = scene.agents
            with pytest.raises(UnknownAgentError, match="lead/top@1"):
                agents.register_spawned("2", "lead/top@1", low)  # its parent first
            names = [
                agents.register_spawned("1", "lead", top).name,
                agents.register_spawned("2", "lead/top@1", low).name,
            ]
            assert names == ["lead/top@1", "lead/unnamed@2"]
            rule = scene.registry.find_rule(names[1])
            assert agents.register_spawned("2", "lead/top@1", low) == agents.find_agent(names[1])
            assert scene.registry.find_rule(names[1]) is rule
            specs = [await scene.spec(name) for name in (*names, f"{names[1]}/think")]
            found.append((specs, [agents.find_agent(name) for name in names], [*map(agents.may_delegate_to, names)]))
        assert found[0] == found[1]


async def test_what_was_accepted_is_narrowed_in_another_process_where_less_is_allowed_now(tmp_path: Path) -> None:
    write_agent("lead", LEAD)
    write_agent("writer")
    text = markdown("agents: [writer]\nlimits: {run_timeout: 40}")
    async with opened(tmp_path / "a") as scene:
        assert scene.agents.register_spawned("t", "lead", text).limits.run_timeout == 40
    write_agent("helper")
    write_agent("lead", "agents: [helper]\nlimits: {run_timeout: 30}")
    async with opened(tmp_path / "b") as scene:
        with pytest.raises(InvalidAgentError) as refused:
            scene.agents.register_spawned("t", "lead", text)
        assert [problem.partition(":")[0] for problem in refused.value.problems] == [
            "line 2, column 7",
            "line 4, column 10",
            "line 5, column 23",
        ]
        assert scene.agents.find_agent("lead/helper@t") is None
        agent = scene.agents.register_spawned("t", "lead", text, was_accepted=True)
        assert (agent.name, agent.limits.run_timeout, agent.agents) == ("lead/helper@t", 30, ())
        assert scene.agents.may_delegate_to(agent.name) == []
        with pytest.raises(InvalidAgentError, match="line 4, column 1: gates"):
            scene.agents.register_spawned("u", "lead", markdown("gates: []"), was_accepted=True)


async def test_views_survive_a_reload_and_follow_the_file_above_them(tmp_path: Path) -> None:
    path = write_agent("lead", LEAD)
    async with opened(tmp_path) as scene:
        agents = scene.agents
        text = markdown(f"tools: ['*', {THINK}]", name="top")
        name = agents.register_spawned("1", "lead", text).name
        low = agents.register_spawned("2", name, markdown(name="low")).name
        before = scene.registry.find_rule(name)
        await agents.reload()
        assert scene.registry.find_rule(name) is before
        assert (scene.view(name), scene.view(low)) == ({"note", "spawn", "think"}, {"note", "spawn"})

        agents.forget_spawned(name)  # those below it stay, and still follow the file
        write_agent("lead", "tools: [secret, note]\ndisallowed_tools: [note]")
        await agents.reload()
        assert (scene.view(name), scene.view(low)) == (set(), {"secret"})
        path.unlink()
        await agents.reload()
        assert scene.view(low) == {"secret"}  # a run that goes on keeps its view
        assert agents.find_agent(low) is None
        with pytest.raises(UnknownAgentError):
            await scene.spec(low)
        assert (agents.may_spawn_markdown(low), agents.may_delegate_to(low)) == (False, [])


async def test_a_forgotten_agent_is_unknown_and_sees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spawned_agents, "MOST_SPAWNED", 2)
    async with opened(tmp_path) as scene:
        agents, text = scene.agents, markdown(f"tools: ['*', {THINK}]")
        names = [agents.register_spawned(str(number), "main", text).name for number in range(3)]
        for reloaded in (False, True):  # the oldest was forgotten; with the default view it would see `secret`
            if reloaded:
                await agents.reload()
            seen = [("secret" in scene.view(name), "note" in scene.view(f"{name}/think")) for name in names]
            assert seen == [(False, False), (True, True), (True, True)]
        assert "main/helper@0 is forgotten" in caplog.text
        for _ in range(2):
            agents.forget_spawned(names[1])
            assert (agents.find_agent(names[1]), agents.find_agent(f"{names[1]}/think")) == (None, None)
            assert scene.view(names[1]) == scene.view(f"{names[1]}/think") == set()
        assert agents.register_spawned("1", "main", text).name == names[1]
        assert "secret" in scene.view(names[1])
        agents.register_spawned("1", "main", markdown("tools: [note]"))  # a task has one agent
        assert (scene.view(names[1]), scene.view(f"{names[1]}/think")) == ({"note"}, set())
        other = agents.register_spawned("1", "main", markdown(name="other"))
        assert (agents.find_agent(names[1]), other.name) == (None, "main/other@1")


async def test_a_custom_tool_that_cannot_be_made_is_refused_at_its_line(tmp_path: Path) -> None:
    async with opened(tmp_path) as scene:
        hidden = "t\u200b"  # such a name is refused for every tool's owner
        with pytest.raises(InvalidAgentError, match=r"line 5, column 1: tool 'think': .*ZERO WIDTH SPACE"):
            scene.agents.register_spawned(hidden, "main", markdown(f"tools:\n  - {THINK}"))
        assert scene.agents.find_agent(f"main/helper@{hidden}") is None
        assert scene.view(f"main/helper@{hidden}") == set()


async def test_whom_an_agent_may_delegate_to_and_whether_it_may_give_markdown(tmp_path: Path) -> None:
    write_agent("lead", LEAD)
    write_agent("writer")
    write_agent("alone", "agents: []")
    async with opened(tmp_path, multi_agent={"agents": ["writer", "lead", "main"]}) as scene:
        agents = scene.agents
        expected: dict[str, tuple[list[str], bool]] = {
            "lead": (["writer"], True),  # neither itself nor one that is not there
            "main": (["writer", "lead"], True),
            "alone": ([], False),
            "lead/ask": ([], False),
            "nobody": ([], False),
            agents.register_spawned("1", "main", markdown()).name: (["writer", "lead"], True),
            agents.register_spawned("2", "main", markdown("agents: [lead]")).name: (["lead"], True),
            agents.register_spawned("3", "main", markdown("agents: []")).name: ([], False),
        }
        below = agents.register_spawned("4", "main/helper@2", markdown(name="low"))
        expected[below.name] = (["lead"], True)
        assert {name: (agents.may_delegate_to(name), agents.may_spawn_markdown(name)) for name in expected} == expected
        with pytest.raises(
            InvalidAgentError, match=r"line 4, column 10: agents\.0: its parent may not delegate to `main`"
        ):
            agents.register_spawned("5", "main/helper@1", markdown("agents: [main]"))
        for parent, why in {"alone": "its `agents` is []", "lead/ask": "one call", "main/helper@3": "agents"}.items():
            with pytest.raises(RefusedError, match=f"the agent {parent} may start no agents: .*{why[:6]}"):
                agents.register_spawned("6", parent, markdown())
        # A list of the settings that is shorter by now holds for those below it too.
        parts = scene.stead._parts
        settings = msgspec.structs.replace(
            parts.loaded.settings,
            multi_agent=msgspec.structs.replace(parts.loaded.settings.multi_agent, agents=("writer",)),
        )
        parts.loaded = msgspec.structs.replace(parts.loaded, settings=settings)
        assert (agents.may_delegate_to(below.name), agents.may_delegate_to("main/helper@1")) == ([], ["writer"])
