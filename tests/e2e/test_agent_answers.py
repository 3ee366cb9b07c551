"""What a runtime is given of an agent's file besides our tools: its own tools by name, and the schema of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.e2e.claude_stage import CLAUDE
from tests.e2e.codex_stage import CODEX
from tests.e2e.model_stage import KERNELS, Player, Stage, playing
from toolstead.app.places import find_places
from toolstead.app.trust.approved import ProjectTrust
from toolstead.testing import Captured

HELLO = "- say: Hello\n"
ASKS = """
- when: ^begin
  call: [{tool: summarize, input: {text: hello}}]
- say: "It says {{result}}"
- when: Summarize
  say: '{"bullets": ["one"]}'
"""
CUSTOM = (
    "tools: [git-status, {name: summarize, description: Sums up., prompt: 'Summarize {{text}}', "
    "parameters: {text: {type: string}}, result_schema: "
    "{type: object, properties: {bullets: {type: array, items: {type: string}}}}}]"
)
PlayAs = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def play_as(tmp_path: Path) -> PlayAs:
    """Opens a stage for a player."""

    @asynccontextmanager
    async def open_stage(player: Player, script: str, **more: Any) -> AsyncIterator[Stage]:
        async with playing(player, script, tmp_path, **more) as stage:
            yield stage

    return open_stage


def home(stage: Stage) -> Path:
    return stage.folder / "home"


async def offered_own(stage: Stage, agent: str) -> set[str]:
    """The runtime's own tools that an agent is offered."""
    before = len(stage.requests)
    run = await stage.ask("hello", agent=agent)
    assert run.status == "completed", run.error
    return stage.view.own_in(stage.requests[before])


@pytest.mark.requires("claude")
@pytest.mark.promise("K7")
async def test_a_file_of_claude_code_gives_exactly_the_tools_that_it_names(
    tmp_path: Path, play_as: PlayAs, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project" / ".claude" / "agents"
    async with play_as(CLAUDE, HELLO) as stage:
        folder.mkdir(parents=True)
        (folder / "reader.md").write_text("---\nname: reader\ndescription: Reads.\ntools: Read, Grep\n---\nYou read.\n")
        monkeypatch.setenv("TOOLSTEAD_HOME", str(home(stage)))
        trust = ProjectTrust(find_places(explicit=stage.project))
        trust.approvals.approve_snapshot(stage.project, trust.take_snapshot())
        await stage.stead.registry.reload_plugins()
        assert await offered_own(stage, "reader") == {"Read", "Grep"}
        assert stage.offered(stage.requests[-1]) == {}
        assert "You read." in stage.view.instructions(stage.requests[-1])
        assert await offered_own(stage, "main") == set()
        assert "git-status" in stage.offered(stage.requests[-1])


@pytest.mark.requires("claude")
async def test_an_agent_has_of_claudes_own_tools_what_the_settings_permit_and_its_file_leaves(play_as: PlayAs) -> None:
    async with play_as(CLAUDE, HELLO + ASKS, own=["Bash", "Read", "Task"]) as stage:
        write_agent("careful", "disallowed_tools: [Bash]", home=home(stage))
        write_agent("ours", "tools: ['git-*']", home=home(stage))
        write_agent("asking", CUSTOM.replace("git-status", "'*'"), home=home(stage))
        everything = await offered_own(stage, "main")
        assert {"Bash", "Read"} <= everything
        assert await offered_own(stage, "careful") == everything - {"Bash"}
        assert await offered_own(stage, "ours") == set()
        assert await offered_own(stage, "asking") == everything


@pytest.mark.requires("claude")
async def test_a_child_that_may_start_no_agents_is_not_given_claudes_tool_for_that(play_as: PlayAs) -> None:
    async with play_as(CLAUDE, ASKS, own=["Read", "Task"]) as stage:
        write_agent("asking", CUSTOM.replace("git-status", "'*'"), home=home(stage))
        run = await stage.ask("begin", agent="asking")
        assert stage.view.plain(run.result) == 'It says {"bullets":["one"]}', run.error
        parent, child, _ = stage.requests
        assert len(stage.view.own_in(parent)) == 2
        assert stage.view.own_in(child) == {"Read"}


@pytest.mark.requires("codex")
async def test_an_agent_has_codexs_shell_only_where_the_settings_permit_it_and_its_file_leaves_it(
    play_as: PlayAs,
) -> None:
    async with play_as(CODEX, HELLO, own=["shell"]) as stage:
        write_agent("careful", "disallowed_tools: [shell]", home=home(stage))
        write_agent("ours", "tools: ['git-*']", home=home(stage))
        permitted = await offered_own(stage, "main")
        assert "exec_command" in permitted
        for agent in ("careful", "ours"):
            assert await offered_own(stage, agent) == stage.view.own, agent


def schema_in(request: Captured) -> Any:
    """The schema of the answer in a request, as each API takes it; None when there is none."""
    body = request.body
    match request.api:
        case "anthropic":
            return ((body.get("output_config") or {}).get("format") or {}).get("schema")
        case "openai":
            return ((body.get("text") or {}).get("format") or {}).get("schema")
        case "openai-chat":
            return ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        case _:
            config = body.get("generationConfig") or {}
            return config.get("responseJsonSchema") or config.get("response_json_schema")


async def asked_child(stage: Stage, thread_id: str) -> list[Captured]:
    """Ask for a call of the tool that is a prompt: the requests of its child."""
    before = len(stage.requests)
    run = await stage.ask("begin", agent="asking", thread_id=thread_id)
    assert run.status == "completed", run.error
    assert run.result == 'It says {"bullets":["one"]}'
    return [one for one in stage.requests[before:] if "summarize" not in stage.offered(one)]


@pytest.mark.promise("K5")
@pytest.mark.parametrize("name", sorted(KERNELS))
async def test_the_schema_of_an_answer_reaches_the_api_and_one_that_it_refuses_is_only_read(
    play_as: PlayAs, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = ASKS + "  fault: {kind: schema}\n"
    async with play_as(KERNELS[name], refusing) as stage:
        write_agent("asking", CUSTOM, home=home(stage))
        first, second = await asked_child(stage, "one")  # refused, and asked again without it
        sent = schema_in(first)
        assert sent["properties"]["bullets"]["items"]["type"] == "string"
        assert schema_in(second) is None
        assert "does not enforce the schema of an answer, so it only reads it" in caplog.text
        (third,) = await asked_child(stage, "two")
        assert schema_in(third) is None, "it is remembered"


@pytest.mark.parametrize("name", sorted(KERNELS))
async def test_a_request_that_is_refused_for_another_reason_does_not_cost_the_next_one_its_schema(
    play_as: PlayAs, name: str
) -> None:
    script = """
- when: ^fail
  call: [{tool: summarize, input: {text: badly}}]
- say: "It says {{result}}"
- when: Summarize badly
  fail: out of order
"""
    async with play_as(KERNELS[name], script + ASKS) as stage:
        write_agent("asking", CUSTOM, home=home(stage))
        run = await stage.ask("fail", agent="asking")
        assert "out of order" in str(run.result)
        refused = [one for one in stage.requests if "summarize" not in stage.offered(one)]
        assert [schema_in(one) is None for one in refused] == [False, True]
        (again,) = await asked_child(stage, "two")
        assert schema_in(again) is not None
