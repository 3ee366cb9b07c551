"""`toolstead tasks`: run as a user runs it, by itself and beside a running server."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.surfaces.talking_project import Project, make_project, without_address
from tests.waiting import PATIENCE, until
from toolstead import Toolstead
from toolstead.app.client import InProcessClient

ODD = "調査してください、すべてのファイルを。\n\x1b]0;title\x07 and \u202eback, which goes on and on and on"
SCRIPT = r"""
- when: ^build
  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: "first, with care and in many words: look"}}]
  say: It is over
- when: ^queue
  call:
    - tool: delegate_agent
      input:
        {mode: detached, queue: true, batch: [{agent_id: helper, prompt: one}, {agent_id: helper, prompt: another}]}
  say: Handed on
- when: ^odd
  call: [{tool: delegate_agent, input: {agent_id: scout, prompt: ODD}}]
  say: Done
- when: ^report
  call: [{tool: delegate_agent, input: {agent_id: writer, prompt: Write report.md}}]
  say: Reported
- when: ^first
  call:
    - {tool: delegation__checkin, input: {message: I begin}}
    - {tool: delegate_agent, input: {agent_id: scout, prompt: second}}
  say: First done
- when: ^second
  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: third}}]
  say: Second done
- when: ^(third|one|another)$
  say: Hm
  hang: 600
- say: "Hello {{prompt}}"
  usage: {inputTokens: 1200, outputTokens: 34, cost: 0.0125}
""".replace("ODD", json.dumps(ODD))
ID = re.compile(r"task_\w+")

both_ways = pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    project = make_project(tmp_path, home)
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    with (project.home / "config.toml").open("a", encoding="utf-8") as config:
        config.write('[multi_agent]\nagents = ["helper", "scout", "writer"]\nmax_concurrent_delegates = 2\n')
    write_agent("helper", "agents: [scout]", home=project.home)
    write_agent("scout", "agents: [helper]", home=project.home)
    write_agent("writer", "gates: [{files: [report.md]}]", home=project.home)
    return project


async def listed(project: Project, count: int) -> list[Any]:
    """The tasks once there are so many, the oldest first."""

    async def enough() -> list[Any]:
        found = (await asyncio.to_thread(project.json, "tasks", "list", "--json"))["tasks"]
        return found[::-1] if len(found) == count else []

    return await until(enough)


@both_ways
async def test_a_tree_is_shown_and_cancelled_whichever_process_works_on_it(project: Project, server: bool) -> None:
    run = asyncio.to_thread
    async with project.served(server=server), project.started("ask", "build") as asking:
        tasks = await listed(project, 3)
        outer, middle, inner = (task["id"] for task in tasks)
        lines = (await run(project.command, "tasks", "list")).stdout.splitlines()
        assert [line.split()[:3] for line in lines] == [
            ["ID", "STATE", "AGENT"],
            [inner, "running", "helper"],
            [middle, "running", "scout"],
            [outer, "running", "helper"],
        ]
        assert lines[3].endswith("  first, with care and in many words: look"), "what goes into a pipe is not cut"
        wide = len(outer) + 4
        for arguments in ((), (outer,)):
            tree = await run(project.command, "tasks", "tree", *arguments)
            assert tree.stdout.splitlines() == [
                f"{outer:{wide}}  running  helper  attempt 1/5  0 tokens  first, with care and in many words: look",
                f"{f'  {middle}':{wide}}  running  scout   attempt 1/5  0 tokens  second",
                f"{f'    {inner}':{wide}}  running  helper  attempt 1/5  0 tokens  third",
            ]
        nested = (await run(project.json, "tasks", "tree", middle, "--json"))["trees"]
        assert [(node["id"], [child["id"] for child in node["children"]]) for node in nested] == [(middle, [inner])]
        shown = (await run(project.command, "tasks", "show", outer)).stdout
        assert "\nPrompt\n  first, with care and in many words: look\n" in shown
        assert re.search(r"^  tokens +0 +\d[\d,]+ +\d[\d,]+ +500,000$", shown, re.MULTILINE)
        refused = await run(project.command, "tasks", "retry", inner)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "has not ended yet; cancel it first" in refused.stderr
        cancelled = await run(project.command, "tasks", "cancel", outer)
        assert (cancelled.returncode, cancelled.stdout) == (0, "")
        assert without_address(cancelled.stderr) == f"{outer} is cancelled, and 2 tasks below it\n"
        assert await asking.ended() == 0  # its agent goes on, and says that it is over
        assert not {"queued", "running"} & {status for _, status in project.runs()}
        assert (await run(project.command, "tasks", "list", "--open")).stdout == ""
        again = await run(project.command, "tasks", "cancel", outer)
        assert without_address(again.stderr) == f"{outer} had ended already: cancelled\n"
        ended = (await run(project.command, "tasks", "show", outer.removeprefix("task_")[:-1])).stdout
        assert ended.startswith(f"{outer}  cancelled\n")
        assert "\nError\n  cancelled: a person cancelled it\n" in ended


async def test_cancelling_ends_the_running_invocation_of_another_process(project: Project) -> None:
    async with Toolstead(project.folder, watch=False) as stead:
        store = (await stead.conversations()).store
        asking = asyncio.create_task(stead.invoke("build"))

        async def innermost() -> str | None:
            return next((run.status for run in await store.list_runs() if run.prompt == "third"), None)

        async def hangs() -> bool:
            return await innermost() == "running"

        await until(hangs)
        outer, *_ = await listed(project, 3)
        assert (await asyncio.to_thread(project.command, "tasks", "cancel", outer["id"])).returncode == 0
        assert await innermost() == "cancelled"  # the command has waited for that
        assert (await asyncio.wait_for(asking, PATIENCE)).result == "It is over"


@both_ways
async def test_whoever_watches_a_tree_sees_it_grow_and_end(project: Project, server: bool) -> None:
    run = asyncio.to_thread
    async with project.served(server=server), project.started("tasks", "watch", "--json") as watching:
        await watching.stderr_with("following all tasks")
        async with project.started("ask", "build"):
            events = [json.loads(await watching.line()) for _ in range(4)]
            assert [event["type"] for event in events].count("task.created") == 3
            outer = events[0]["taskId"]
            async with project.started("tasks", "watch", outer) as tree:
                first = (await tree.line()).decode()
                assert first == f"{outer}  running, helper: first, with care and in many words: look\n"
                assert (await run(project.command, "tasks", "cancel", outer)).returncode == 0
                assert await tree.ended() == 0
                assert tree.process.stdout is not None
                rest = (await tree.process.stdout.read()).decode().splitlines()
                assert [line.split()[1] for line in rest] == ["running,", "running,"] + ["cancelled,"] * 3
        ends = [json.loads(await watching.line()) for _ in range(3)]
        assert {event["data"]["outcome"] for event in ends} == {"cancelled"}
        watching.process.send_signal(signal.SIGINT)
        assert await watching.ended() == 130


@both_ways
async def test_an_ended_task_is_started_again(project: Project, server: bool) -> None:
    run = asyncio.to_thread
    async with project.served(server=server):
        assert (await run(project.command, "ask", "odd")).returncode == 0
        (old,) = await listed(project, 1)
        again = await run(project.command, "tasks", "retry", old["id"])
        assert again.returncode == 0, again.stderr
        (new,) = again.stdout.split()
        said = without_address(again.stderr).splitlines()
        assert said[0] == f"{new} repeats {old['id']}"
        if server:
            assert len(said) == 1
        else:
            assert said[1] == "no server runs for this project: this command works on it until it ends"
            assert said[-1] == f"{new}  completed, 1,234 tokens"

        async def done() -> Any:
            found = await run(project.json, "tasks", "show", new, "--json")
            return found if found["outcome"] is not None else None

        task = await until(done)
        assert (task["outcome"], task["retryOf"], task["prompt"]) == ("completed", old["id"], ODD)
        assert (await run(project.command, "tasks", "show", new, "--result")).stdout == f"Hello {ODD}\n"
        for arguments in (["show"], ["tree"], ["watch"], ["cancel"], ["retry"]):
            gone = await run(project.command, "tasks", *arguments, "nope")
            assert (gone.returncode, gone.stdout) == (2, "")
            assert "no task 'nope'" in gone.stderr
            assert "Traceback" not in gone.stderr


def test_each_attempt_is_shown_with_its_verdict_and_a_retry_without_a_result_exits_with_1(project: Project) -> None:
    assert project.command("ask", "report").returncode == 0
    (task,) = project.json("tasks", "list", "--json")["tasks"]
    shown = project.command("tasks", "show", task["id"]).stdout
    attempts = shown[shown.index("\nAttempts\n") : shown.index("\nResult\n")]
    for number in (1, 2):
        assert f"\n  {number}  rejected: The gate `files: report.md` did not pass" in attempts
    assert attempts.count("\n     report.md: it is not there\n") == 2  # below the text of its attempt
    assert project.command("tasks", "tree", task["id"]).stdout.split()[1:5] == ["rejected", "writer", "attempt", "2/5"]
    again = project.command("tasks", "retry", task["id"])
    assert (again.returncode, again.stderr.count("rejected")) == (1, 3)
    (project.folder / "report.md").touch()
    assert project.command("tasks", "retry", task["id"]).returncode == 0


async def test_a_command_without_a_server_begins_none_of_the_work_that_others_left(project: Project) -> None:
    run = asyncio.to_thread
    limited = ("--set", "multi_agent.max_concurrent_delegates=1")
    async with project.started("serve", "--port", "0", *limited) as server:
        await server.stderr_with("/docs")
        assert (await run(project.command, "ask", "queue")).returncode == 0
        first, second = await listed(project, 2)
        await until(lambda: ("one", "running") in project.runs())
        rows = (await run(project.command, "tasks", "list")).stdout
        assert re.findall(r"  (queued|running) ", rows) == ["queued", "running"]
    before = project.runs()  # the server was killed
    for arguments in (("list",), ("tree",), ("show", first["id"])):
        assert (await run(project.command, "tasks", *arguments)).returncode == 0
    async with Toolstead(project.folder, overrides=limited[1:], watch=False, takes_over=False) as stead:  # a command
        store = (await stead.conversations()).store
        assert (await InProcessClient(stead).tasks.cancel_task(first["id"]))["outcome"] == "cancelled"
        for _ in range(100):  # work would have begun by then
            runs = await store.list_runs()
        assert [run.prompt for run in reversed(runs)] == [prompt for prompt, _ in before]
        assert (await store.read_task(first["id"])).woken_by is None
        left = await store.read_task(second["id"])
        assert (left.queued_at, left.owner, left.epoch) == (None, None, 0)  # it has its slot now
    async with project.served(server=True):  # which takes up what is left
        await until(lambda: ("another", "running") in project.runs())


def test_what_steers_a_terminal_is_escaped_and_wide_letters_are_counted(project: Project) -> None:
    assert project.command("ask", "odd").returncode == 0
    (task,) = project.json("tasks", "list", "--json")["tasks"]
    _, line = project.on_terminal("tasks", "list").splitlines()
    assert line.endswith("…")
    assert len(line) < 80 <= len(line) + len(re.findall(r"[\u3000-\u9fff]", line)) + 1
    shown = project.on_terminal("tasks", "show", task["id"])
    assert "\\u{1b}]0;title\\u{7} and \\u{202e}back" in shown
    for text in (line, shown, project.on_terminal("tasks", "tree", task["id"])):
        assert text.replace("\n", "").isprintable()
    assert ODD.partition("\n")[2] in project.command("tasks", "show", task["id"]).stdout


@pytest.mark.promise("T10")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("delegation__delegate", ["prompt=x"]),
        ("delegation__checkin", ["message=x"]),
        ("delegate_agent", ["agent_id=helper", "prompt=x"]),
        ("spawn_agent", ["agent=helper", "prompt=x"]),
        ("signal_parent", ["message=x"]),
    ],
)
def test_a_tool_that_delegates_is_not_called_from_the_command_line(
    project: Project, name: str, arguments: list[str]
) -> None:
    done = project.command("tools", "call", name, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "talk to an agent instead" in done.stderr
