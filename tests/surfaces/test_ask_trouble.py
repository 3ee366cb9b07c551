"""What a person at a terminal sees of a model API in trouble, from the first failure on; and what a pipe gets of it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.surfaces.failing_api import TEXT, Trouble, failing_api
from tests.surfaces.talking_project import Project, make_project
from tests.surfaces.typed_terminal import CTRL_C, TypedTerminal, at_terminal

pytestmark = pytest.mark.requires("models")
MODEL = "anthropic:claude-sonnet-5-5"


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none-0123456789")
    monkeypatch.setenv("TOOLSTEAD_RUNTIME__DEFAULT", "kernel")
    return make_project(tmp_path, home)


async def sees_who_is_asked(terminal: TypedTerminal) -> None:
    await terminal.sees(f"main answers on kernel, {MODEL}")
    await terminal.sees(f"waiting for {MODEL}")


async def test_an_api_that_never_answers_is_waited_for_in_sight_until_the_time_is_over(project: Project) -> None:
    async with failing_api("silent") as (api, address):
        async with at_terminal(
            project.folder, "ask", "--timeout", "4", "where are they", ANTHROPIC_BASE_URL=address
        ) as terminal:
            await sees_who_is_asked(terminal)
            await terminal.sees(f"waiting for {MODEL}, 2 s")
            assert await terminal.ended() == 1
        assert terminal.shown.splitlines()[1:] == [
            "toolstead: timeout: not finished after 4 seconds, so it was ended",
            f"thread {project.last_thread()}",
        ]
        assert api.requests <= 1


async def test_ctrl_c_ends_the_wait_for_an_api_that_never_answers(project: Project) -> None:
    async with (
        failing_api("silent") as (_, address),
        at_terminal(project.folder, "ask", "where are they", ANTHROPIC_BASE_URL=address) as terminal,
    ):
        await sees_who_is_asked(terminal)
        terminal.types(CTRL_C)
        assert await terminal.ended() == 130
    assert project.runs() == [("where are they", "cancelled")]


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("overloaded", "Anthropic is busy (529): Overloaded"),
        ("broken", "the answer of Anthropic broke off: the connection was closed before its end"),
    ],
)
async def test_the_first_failure_is_shown_at_once_with_the_next_try(
    project: Project, trouble: Trouble, reason: str
) -> None:
    async with failing_api(trouble) as (api, address):
        async with at_terminal(project.folder, "ask", "where are they", ANTHROPIC_BASE_URL=address) as terminal:
            await sees_who_is_asked(terminal)
            await terminal.sees(f"· {reason[:60]}")
            assert api.requests == 1
            await terminal.sees("· again; try 3 of 6, next in ")
            await terminal.sees("trying again in ")
            assert await terminal.ended() == 1
        assert api.requests == 6
    shown = " ".join(terminal.shown.split())
    assert f"· {reason}; try 2 of 6, next in 0." in shown
    assert [int(number) for number in re.findall(r"; try (\d) of 6", shown)] == [2, 3, 4, 5, 6]
    assert re.search(rf"toolstead: failed: {re.escape(reason)}; 6 tries in \d+ s thread ", shown)
    assert shown.count("The TODOs are in ·") == (5 if trouble == "broken" else 0)
    assert project.runs() == [("where are they", "failed")]


async def test_a_pipe_gets_nothing_of_an_answer_that_broke_off_and_whole_lines_of_the_rest(project: Project) -> None:
    async with failing_api("broken") as (_, address):
        done = await asyncio.to_thread(project.command, "ask", "where", ANTHROPIC_BASE_URL=address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    lines = [line.split(";")[0] for line in done.stderr.splitlines()]
    assert (len(lines), lines[-3]) == (9, TEXT), "what came of the last try is not lost"
    assert lines[1] == "· the answer of Anthropic broke off: the connection was closed before its end"
    assert lines[2:6] == ["· again"] * 4


async def test_a_closed_port_of_this_machine_is_named_and_tried_twice(project: Project) -> None:
    address = "http://127.0.0.1:9"
    async with at_terminal(project.folder, "ask", "where are they", ANTHROPIC_BASE_URL=address) as terminal:
        await terminal.sees("· Anthropic cannot be reached at http://127.0.0.1:9: connection refused (is it")
        assert await terminal.ended() == 1
    assert "; try 2 of 2, next in " in terminal.shown
    assert "2 tries in " in terminal.shown
