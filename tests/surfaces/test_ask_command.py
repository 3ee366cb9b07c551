"""`toolstead ask`: run as a user runs it, by itself and beside a running server."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.agent_folder import write_agent
from tests.surfaces.talking_project import Project, make_project, without_address
from tests.surfaces.typed_terminal import CTRL_C, at_terminal

both_ways = pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return make_project(tmp_path, home)


@both_ways
@pytest.mark.promise("R7")
async def test_the_answer_is_on_stdout_and_everything_else_on_stderr(project: Project, server: bool) -> None:
    async with project.served(server=server):
        done = await asyncio.to_thread(project.command, "ask", "/delegate x")
        assert (done.returncode, done.stdout) == (0, "Hello /delegate x\n")
        assert ("\nby the server at http://127.0.0.1:" in done.stderr) is server
        thread = project.last_thread()
        said = f"main answers on scripted (runtime.scripted.script is set)\nthread {thread}\n"
        assert without_address(done.stderr) == said
        again = await asyncio.to_thread(project.command, "ask", "-", "--thread", thread, stdin="two\nlines\n")
        assert (again.returncode, again.stdout) == (0, "Hello two\nlines\n\n")
    assert project.runs() == [("/delegate x", "completed"), ("two\nlines\n", "completed")]
    conversations = list((project.folder.parent / "kept").glob("*.json"))
    assert len(conversations) == 1  # the second message went on with the first's conversation


async def test_a_server_that_is_killed_while_it_answers_leaves_the_commands_that_go_on(project: Project) -> None:
    async with project.started("serve", "--port", "0") as server:
        await server.stderr_with("/docs")
        async with at_terminal(project.folder, "ask", "hang") as terminal:
            await terminal.sees("I begin")
            server.process.kill()
            assert await terminal.ended() == 1
        thread = project.last_thread()
        shown = " ".join(terminal.shown.split())
        assert "toolstead: the server at http://127.0.0.1:" in shown
        assert f"toolstead threads show {thread}. To go on: toolstead ask --thread {thread} TEXT" in shown


@both_ways
async def test_words_need_no_quotes_and_what_is_piped_in_follows_them(project: Project, server: bool) -> None:
    async with project.served(server=server):
        words = await asyncio.to_thread(project.command, "ask", "are", "there", "-m", "small", "TODOs", "in  it")
        assert words.stdout == "Hello are there TODOs in  it\n"
        piped = await asyncio.to_thread(project.command, "ask", "sum up", stdin=" a\n\tb\n")
        assert piped.stdout == "Hello sum up\n\n a\n\tb\n\n"
        alone = await asyncio.to_thread(project.command, "ask", stdin="only this")
        assert alone.stdout == "Hello only this\n"
    assert [prompt for prompt, _ in project.runs()] == [
        "are there TODOs in  it",
        "sum up\n\n a\n\tb\n",
        "only this",
    ]


@both_ways
async def test_a_conversation_goes_on_by_the_beginning_of_its_id_or_as_the_last_one(
    project: Project, server: bool
) -> None:
    write_agent("helper")
    async with project.served(server=server):
        first = await asyncio.to_thread(project.json, "ask", "one", "--agent", "helper", "-m", "small", "--json")
        last = await asyncio.to_thread(project.command, "ask", "two")
        assert last.returncode == 0
        short = first["threadId"].removeprefix("thread_")[:20]
        again = await asyncio.to_thread(project.json, "ask", "three", "--thread", short, "--json")
        # What it was begun with goes on, and what is named in between is for that message alone.
        assert (again["threadId"], again["agent"], again["model"]) == (first["threadId"], "helper", "small")
        goes_on = await asyncio.to_thread(project.command, "ask", "-c", "four")
        assert goes_on.stderr.startswith(f"continues {first['threadId']}  one\n")
        unknown = await asyncio.to_thread(project.command, "ask", "--thread", first["threadId"][:-1] + "x", "hi")
        assert (unknown.returncode, unknown.stdout) == (2, "")
        assert f"did you mean '{first['threadId']}'?" in unknown.stderr
        several = await asyncio.to_thread(project.command, "ask", "--thread", "thread_", "hi")
        assert several.returncode == 2
        for prefix in ("thread_6", "6" * 3):
            many = await asyncio.to_thread(project.command, "ask", "--thread", prefix, "hi")
            assert (many.returncode, many.stdout) == (2, "")
        listed = await asyncio.to_thread(project.command, "ask", "--thread", "thread_6", "hi")
        assert "'thread_6' is the beginning of several threads; give more of one:\n  thread_6" in listed.stderr
        assert "  one\n" in listed.stderr
    assert [prompt for prompt, _ in project.runs()] == ["one", "two", "three", "four"]


@both_ways
async def test_tool_calls_and_costs_are_told_beside_the_answer(project: Project, server: bool) -> None:
    async with project.served(server=server):
        done = await asyncio.to_thread(project.command, "ask", "where are we?")
        assert done.returncode == 0
        assert json.loads(done.stdout.removeprefix("It says "))["projectPath"] == str(project.folder)
        assert "· workspace-info {}\n" in done.stderr
        done = await asyncio.to_thread(project.command, "ask", "missing")
        assert done.stdout.startswith("Well, unknown tool 'no-such-tool'")
        done = await asyncio.to_thread(project.command, "ask", "cost?")
        assert "1,200 tokens in, 34 out, $0.0125; thread thread_" in done.stderr
        assert all(len(line) <= 80 for line in done.stderr.splitlines())


@both_ways
async def test_a_failure_and_a_timeout_exit_with_1_and_say_why(project: Project, server: bool) -> None:
    async with project.served(server=server):
        failed = await asyncio.to_thread(project.command, "ask", "fail")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert "toolstead: failed: the model is tired\n" in failed.stderr
        late = await asyncio.to_thread(project.command, "ask", "hang", "--timeout", "0.2")
        assert (late.returncode, late.stdout) == (1, ""), "half an answer is none"
        assert "I begin\n" in late.stderr
        assert "toolstead: timeout: not finished after 0.2 seconds, so it was ended\n" in late.stderr
        as_json = await asyncio.to_thread(project.command, "ask", "fail", "--json")
        run = json.loads(as_json.stdout)
        assert (as_json.returncode, as_json.stderr) == (1, "")
        assert (run["status"], run["error"]) == ("failed", {"code": "runtime", "message": "the model is tired"})
    assert [status for _, status in project.runs()] == ["failed", "timeout", "failed"]


@both_ways
async def test_json_is_the_whole_run(project: Project, server: bool) -> None:
    write_agent("helper")
    async with project.served(server=server):
        run = await asyncio.to_thread(project.json, "ask", "hi", "--json", "--model", "small", "--agent", "helper")
    assert {name: run[name] for name in ("status", "result", "agent", "model", "runtime")} == {
        "status": "completed",
        "result": "Hello hi",
        "agent": "helper",
        "model": "small",
        "runtime": "scripted",
    }
    assert run["startedAt"] <= run["endedAt"]


@both_ways
async def test_interrupting_it_cancels_the_run_and_exits_with_130(project: Project, server: bool) -> None:
    async with project.served(server=server):
        async with project.started("ask", "hang") as asking:
            await project.sees_run("hang", "running")
            asking.process.send_signal(signal.SIGINT)
            assert await asking.ended() == 130
            assert "Traceback" not in asking.stderr
        assert project.runs() == [("hang", "cancelled")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask"], "there is nothing to ask; give a text, or pipe one in"),
        (["ask", "-c", "hi"], "there is no conversation of this project yet; `toolstead ask` begins one"),
        (["ask", "-c", "--thread", "x", "hi"], "give one of them"),
        (["ask", "--agent", "mian", "hi"], "did you mean 'main'?"),
        (["ask", "  "], "there is nothing to ask"),
        (["ask", "hi", "--runtime", "nope"], "the runtimes are kernel, claude, codex, scripted\n"),
        (["ask", "hi", "--runtime", "cluade"], "the runtime 'cluade' is unknown; did you mean 'claude'?"),
        (["ask", "hi", "--set", "runtime.scripted.script="], "no model is set up yet; nothing was asked."),
        (["ask", "hi", "--set", "runtime.scripted.script=none.yaml"], "none.yaml"),
        (["ask", "hi", "--url", "http://127.0.0.1:9"], "http://127.0.0.1:9 cannot be reached: no server listens there"),
        (["ask", "hi", "--url", "127.0.0.1"], "an address begins with http:// or https://"),
        (["ask", "hi", "--timeout", "soon"], "is not a valid float"),
        (["ask", "hi", "--timeout", "-1"], "--timeout"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_would_be_right(
    project: Project, arguments: list[str], said: str
) -> None:
    done = project.command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


async def test_what_a_server_refuses_is_told_in_its_own_words(project: Project) -> None:
    async with project.served(server=True):
        done = await asyncio.to_thread(project.command, "ask", "hi", "--runtime", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert "answered 422: The runtime 'nope' is unknown; the runtimes are" in done.stderr


async def test_a_path_after_set_is_one_of_the_current_folder_and_a_pipe_gets_the_answer_byte_for_byte(
    project: Project,
) -> None:
    below = project.folder / "below"
    below.mkdir()
    (below / "demo.yaml").write_text('- say: "\\e[31mred\\e[0m"\n', encoding="utf-8")
    done = Project(below, project.home).command("ask", "hi", "--set", "runtime.scripted.script=demo.yaml")
    assert (done.returncode, done.stdout) == (0, "\x1b[31mred\x1b[0m\n")


async def test_an_interrupted_answer_and_a_failed_one_lead_to_their_conversation(project: Project) -> None:
    done = project.command("ask", "fail")
    assert done.stderr.splitlines()[-1] == f"thread {project.last_thread()}"
    async with at_terminal(project.folder, "ask", "hang") as terminal:
        await terminal.sees("I begin")
        terminal.types(CTRL_C)
        assert await terminal.ended() == 130
    assert project.command("threads", "show").stdout.endswith("\nyou interrupted this answer\n")
