"""`toolstead chat`: from a pipe, and with a person at a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
from pathlib import Path

import pytest

from tests.surfaces.talking_project import Project, make_project
from tests.surfaces.typed_terminal import CTRL_C, CTRL_D, at_terminal

both_ways = pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])
PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return make_project(tmp_path, home)


@both_ways
@pytest.mark.promise("P11")
async def test_each_line_of_a_pipe_is_a_message_and_only_answers_are_on_stdout(project: Project, server: bool) -> None:
    lines = ["one", "two \\", "  lines", "", "/help me", " /help", "/nonsense", "/model small x", "last"]
    async with project.served(server=server):
        done = await asyncio.to_thread(project.command, "chat", stdin="\n".join(lines))
    messages = ["one", "two \n  lines", "/help me", " /help", "/nonsense", "/model small x", "last"]
    assert done.stdout == "".join(f"Hello {message}\n" for message in messages)
    assert (done.returncode, "\x1b" in done.stderr, "Type a message" in done.stderr) == (0, False, False)
    assert [prompt for prompt, _ in project.runs()] == messages
    assert len(project.json("threads", "list", "--json")["threads"]) == 1


async def test_a_message_that_fails_does_not_end_a_pipe_and_shows_in_the_exit_status(project: Project) -> None:
    done = project.command("chat", stdin="fail\n/agent nobody\n/threads nothing\n/model tiny\nhi\n")
    assert (done.returncode, done.stdout) == (1, "Hello hi\n")
    assert "toolstead: failed: the model is tired" in done.stderr
    assert "no agent 'nobody'; there are: main" in done.stderr
    assert "no thread 'nothing'" in done.stderr
    assert "model: tiny from now on" in done.stderr


@both_ways
async def test_commands_are_obeyed_and_a_conversation_goes_on_later(project: Project, server: bool) -> None:
    async with project.served(server=server):
        done = await asyncio.to_thread(
            project.command, "chat", stdin="/tools\n/agent\n/help\nfirst\n/new\nsecond\n/quit\nno"
        )
        for said in ("git-status  ", "main   ", "/threads [ID]", "a new conversation begins"):
            assert said in done.stderr
        threads = project.json("threads", "list", "--json")["threads"]
        assert [thread["title"] for thread in threads] == ["second", "first"]
        again = await asyncio.to_thread(
            project.command, "chat", "-c", stdin=f"third\n/threads {threads[1]['id'][7:]}\nfourth\n"
        )
        assert again.returncode == 0
    messages = {
        thread["title"]: [one["content"] for one in project.json("threads", "show", thread["id"], "--json")["messages"]]
        for thread in threads
    }
    assert messages == {
        "first": ["first", "Hello first", "fourth", "Hello fourth"],
        "second": ["second", "Hello second", "third", "Hello third"],
    }


@both_ways
@pytest.mark.requires("models")
async def test_a_model_that_cannot_be_asked_is_refused_at_once_and_the_old_one_stays(
    project: Project, server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.home / "config.toml").write_text('[runtime]\nmodel = "ollama:small"\n', encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    async with project.served(server=server):
        typed = "/model\n/model vllm\n/model nosuch:x\n/model\n/agent\n/model ollama:tiny\n/model\n"
        done = await asyncio.to_thread(project.command, "chat", stdin=typed)
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("AGENT ", "main "))]
    assert lines[0] == lines[3] == "model: ollama:small (runtime.model is set)"
    assert lines[1].startswith("toolstead: model 'vllm' is a provider; name one of its models too")
    assert lines[2].startswith("toolstead: model 'nosuch:x': there is no provider 'nosuch'")
    assert lines[4:] == [
        "agent: main (runtime.agent)",
        "model: ollama:tiny from now on",
        "model: ollama:tiny (named here)",
    ]
    if not server:  # its keys are its own
        done = project.command("chat", stdin="/model openai:x\n/model\n")
        assert "toolstead: openai:x needs a key of OpenAI; nothing was asked. Do this:\n" in done.stderr
        assert done.stderr.endswith("model: ollama:small (runtime.model is set)\n")


async def test_a_chat_that_nothing_can_answer_says_why_and_ends_with_2_in_a_pipe(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.home / "config.toml").unlink()
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    done = project.command("chat", stdin="", OLLAMA_HOST="127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "toolstead: no model is set up yet; nothing was asked" in done.stderr


@both_ways
async def test_ctrl_c_ends_the_answer_and_not_the_conversation(project: Project, server: bool) -> None:
    async with project.served(server=server), at_terminal(project.folder, "chat") as terminal:
        await terminal.sees("> ")
        terminal.types("hang\r")
        await terminal.sees("I begin")
        terminal.types(CTRL_C)
        await terminal.sees("interrupted")
        await terminal.sees("> ")
        terminal.types("half" + CTRL_C)
        await terminal.sees("> ")
        terminal.types(CTRL_C)
        await terminal.sees("Ctrl-C again or Ctrl-D leaves")
        await terminal.sees("> ")
        terminal.types("back\rtyped meanwhile\r")
        await terminal.sees("Hello back")
        await terminal.sees("Hello typed meanwhile")
        await terminal.sees("> ")
        terminal.types(CTRL_C)
        await terminal.sees("Ctrl-C again")
        await terminal.sees("> ")
        terminal.types(CTRL_C)
        assert await terminal.ended() == 130
    assert [status for _, status in project.runs()][:1] == ["cancelled"]
    assert [prompt for prompt, _ in project.runs()][-2:] == ["back", "typed meanwhile"]
    assert "half" not in {prompt for prompt, _ in project.runs()}
    assert len(project.json("threads", "list", "--json")["threads"]) == 1


async def test_lines_that_are_pasted_are_one_message_and_the_arrow_keys_bring_it_back_later(project: Project) -> None:
    async with at_terminal(project.folder, "chat") as terminal:
        await terminal.sees("> ")
        terminal.types(PASTE.format("first\nsecond") + "\r")
        await terminal.sees("Hello first")
        await terminal.sees("> ")
        terminal.types(CTRL_D)
        assert await terminal.ended() == 0
    history = project.home / "data" / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert [json.loads(line) for line in history.read_text().splitlines()] == ["first\nsecond"]
    async with at_terminal(project.folder, "chat", "-c") as terminal:
        await terminal.sees("continues thread_")
        await terminal.sees("> ")
        terminal.types("\x1b[A\r")
        await terminal.sees("Hello first")
        await terminal.sees("> ")
        terminal.types(CTRL_D)
        assert await terminal.ended() == 0
    assert [prompt for prompt, _ in project.runs()] == ["first\nsecond", "first\nsecond"]


async def test_lines_that_are_pasted_during_an_answer_are_one_message(project: Project) -> None:
    script = "- {when: slow, say: I begin, hang: 2}\n- say: Hello {{prompt}}\n"
    (project.folder.parent / "script.yaml").write_text(script, encoding="utf-8")
    async with at_terminal(project.folder, "chat") as terminal:
        await terminal.sees("> ")
        terminal.types("slow\r")
        await terminal.sees("I begin")
        terminal.types(PASTE.format("one\rtwo\rthree"))
        await terminal.sees("> ")
        await terminal.sees("three")
        terminal.types("\r")
        await terminal.sees("Hello one")
        await terminal.sees("> ")
        terminal.types(CTRL_D)
        assert await terminal.ended() == 0
    assert project.runs() == [("slow", "completed"), ("one\ntwo\nthree", "completed")]


async def test_a_plain_terminal_gets_no_escapes(project: Project) -> None:
    async with at_terminal(project.folder, "chat", TERM="dumb") as terminal:
        await terminal.sees("> ")
        terminal.types("hang\r")
        await terminal.sees("I begin")
        terminal.types(CTRL_C)
        await terminal.sees("interrupted")
        await terminal.sees("> ")
        terminal.types(CTRL_C)
        await terminal.sees("Ctrl-C again or Ctrl-D leaves")
        await terminal.sees("> ")
        terminal.types("**you**\r")
        await terminal.sees("Hello **you**")
        await terminal.sees("> ")
        terminal.types(CTRL_D)
        assert await terminal.ended() == 0
        assert "\x1b" not in terminal.written


@pytest.mark.parametrize("when", ["at the prompt", "in a turn"])
async def test_sigterm_ends_it_and_leaves_the_terminal_as_it_was(project: Project, when: str) -> None:
    async with at_terminal(project.folder, "chat") as terminal:
        before = terminal.settings
        await terminal.sees("> ")
        if when == "in a turn":
            terminal.types("hang\r")
            await terminal.sees("I begin")
        terminal.process.send_signal(signal.SIGTERM)
        assert await terminal.ended() == 128 + signal.SIGTERM
        assert terminal.settings == before
        assert "Traceback" not in terminal.written
        assert terminal.written.rfind("\x1b[?2004h") < terminal.written.rfind("\x1b[?2004l")
    if when == "in a turn":
        assert project.runs() == [("hang", "cancelled")]
