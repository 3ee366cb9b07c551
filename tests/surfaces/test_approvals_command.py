"""A person answers approvals at a terminal and with `toolstead approvals`: real programs, with a server and without."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs.terminal import Terminal, open_terminal
from tests.surfaces.test_approvals import Person, Place, text
from tests.waiting import PATIENCE

pytestmark = pytest.mark.promise("B10")

ALLOW = "Allow? [y/N/e] "
SEND = ("tools", "call", "careful__send")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
async def person(place: Place) -> AsyncIterator[Person]:
    async with place.serve() as person:
        yield person


def toolstead(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a script runs it."""
    return subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


def wait_for_call(place: Place) -> dict[str, Any]:
    """The one call that waits, as `toolstead approvals` lists it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := json.loads(toolstead(place, "approvals", "--json").stdout)["approvals"]):
        assert time.monotonic() < deadline
    (one,) = found
    return one


@contextmanager
def calling(place: Place, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A call in a process without a terminal, which waits for a person."""
    command = [sys.executable, "-m", "toolstead", *SEND, *arguments]
    process = subprocess.Popen(
        command,
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# where the call was made


def test_the_person_at_the_terminal_is_shown_the_call_and_allows_it(place: Place) -> None:
    with open_terminal(place.project, *SEND, "to=ada\u202e", "sign=a\nb") as terminal:
        shown = terminal.answer(ALLOW, "y\n")
        status, output, afterwards = terminal.end()
    assert afterwards.endswith("  allowed\n")
    assert "careful asks you to approve a call: it goes to ada\\u{202e}\n  careful__send {" in shown
    assert '"to": "ada\\u{202e}"' in shown
    assert '"sign": "a\\nb"' in shown
    assert "no answer in 10 minutes is a no" in shown
    assert (status, bool(place.sent)) == (0, True)
    assert "sent to ada" in output


@pytest.mark.parametrize("typed", ["\n", "no\n", "\x04"], ids=["Enter", "no", "Ctrl-D"])
def test_enter_no_and_ctrl_d_are_a_no(place: Place, typed: str) -> None:
    with open_terminal(place.project, *SEND, "to=ada") as terminal:
        terminal.answer(ALLOW, typed)
        status, output, shown = terminal.end()
    assert (status, output, place.sent) == (1, "", [])
    assert "careful__send was refused: a person denied it" in shown


def test_ctrl_c_at_the_question_is_a_no_and_the_command_goes_on(place: Place) -> None:
    with open_terminal(place.project, *SEND, "to=ada") as terminal:
        terminal.until(ALLOW)
        terminal.process.send_signal(signal.SIGINT)
        status, _, shown = terminal.end()
    assert (status, place.sent) == (1, [])
    assert "careful__send was refused: a person denied it" in shown


def test_the_reason_of_a_no_is_passed_on(place: Place) -> None:
    with open_terminal(place.project, *SEND, "to=ada") as terminal:
        terminal.answer(ALLOW, "maybe\n")
        assert "`n BECAUSE` says why" in terminal.answer(ALLOW, "n not on a Sunday\n")
        assert "careful__send was refused: not on a Sunday" in terminal.end()[2]


def test_what_was_typed_before_the_question_answers_nothing(place: Place) -> None:
    with open_terminal(place.project, *SEND, "to=ada") as terminal:
        terminal.type("y\n")
        terminal.answer(ALLOW, "n\n")
        assert (terminal.end()[0], place.sent) == (1, [])


@pytest.mark.parametrize("with_editor", [True, False], ids=["in an editor", "on a line"])
def test_edited_arguments_are_shown_and_checked_before_they_run(place: Place, with_editor: bool) -> None:
    editor = place.folder / "editor"
    texts = ("{broken", '{"too": "bob"}', '{"to": "bob", "sign": "mine"}')
    if with_editor:
        for number, content in enumerate(texts):
            (place.folder / f"text-{number}").write_text(content)
        editor.write_text(
            f"#!/bin/sh\ncd {place.folder}\nfor one in text-0 text-1 text-2\n"
            'do test -e $one && cat $one > "$1" && exec rm $one\ndone\n'
        )
        editor.chmod(0o755)

    def edit(terminal: Terminal, number: int) -> None:
        terminal.answer(ALLOW, "e\n")
        if not with_editor:
            terminal.answer("The arguments as JSON", f"{texts[number]}\n")

    with open_terminal(
        place.project, *SEND, "to=ada", EDITOR=str(editor) if with_editor else "", VISUAL=""
    ) as terminal:
        edit(terminal, 0)
        assert "not taken: not valid JSON" in terminal.until(ALLOW)
        edit(terminal, 1)
        assert '"too" is not allowed here' in terminal.until(ALLOW), "before it is allowed"
        edit(terminal, 2)
        assert 'careful__send {"to": "bob", "sign": "mine"}' in terminal.answer(ALLOW, "y\n")
        status, output, _ = terminal.end()
    assert status == 0
    assert output.endswith("sent to bob, mine\n")


def test_a_decision_made_elsewhere_ends_the_question_and_is_reported(place: Place) -> None:
    with open_terminal(place.project, *SEND, "to=ada") as terminal:
        terminal.until(ALLOW)
        waiting = wait_for_call(place)
        denied = toolstead(place, "approvals", "deny", waiting["id"], "--reason", "asked Ada")
        assert (denied.returncode, denied.stdout) == (0, "")
        status, _, shown = terminal.end()
    assert status == 1
    assert f"{ALLOW}\ndenied: asked Ada\n" in shown
    late = toolstead(place, "approvals", "allow", waiting["id"])
    assert (late.returncode, "is decided already: deny (asked Ada)" in late.stderr) == (1, True)


def test_the_question_ends_with_its_time(place: Place) -> None:
    with open_terminal(place.project, *SEND, "to=ada", "within=1") as terminal:
        status, _, shown = terminal.end()
    assert (status, place.sent) == (1, [])
    assert "careful__send was refused: no answer within 1 second" in shown


# from another terminal


def test_without_a_terminal_a_call_says_that_it_waits_and_another_process_answers(place: Place) -> None:
    with calling(place, "to=ada") as process:
        waiting = wait_for_call(place)
        listed = toolstead(place, "approvals")
        assert "minutes left; careful asks: it goes to ada\n  careful__send {" in listed.stdout
        short = listed.stdout.split()[0]
        assert waiting["id"].startswith(short)
        for bad in ('{"too": "x"}', "[]"):
            refused = toolstead(place, "approvals", "allow", short, "--input", bad)
            assert (refused.returncode, refused.stdout, place.sent) == (2, "", []), refused.stderr
        unknown = toolstead(place, "approvals", "allow", "ffff")
        assert (unknown.returncode, "begins with 'ffff'" in unknown.stderr) == (2, True)
        edited = '{"to": "bob", "sign": "mine"}'
        allowed = toolstead(place, "approvals", "allow", short.removeprefix("approval_"), "--input", edited, "--json")
        assert json.loads(allowed.stdout)["decidedInput"] == {"to": "bob", "sign": "mine"}
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output.endswith("sent to bob, mine\n")) == (0, True)
    assert "careful__send waits 10 minutes for a person" in errors
    assert f"toolstead approvals allow {waiting['id']}" in errors
    none = toolstead(place, "approvals")
    assert none.stdout == ""
    assert re.fullmatch(r"no call waits for a person \(looked at: no server .*; .*/toolstead\.db\)\n", none.stderr)


async def test_a_server_names_the_command_that_answers_and_the_command_asks_the_server(
    person: Person, place: Place
) -> None:
    sending = person.sending("ada")
    shown = await person.waiting()
    errors = await person.program.stderr_with(f"toolstead approvals allow {shown['id']}")
    assert "a call of careful__send waits for a person" in errors
    assert '{"to"' not in errors
    assert "careful asks: it goes to ada" in errors
    listed = await asyncio.to_thread(toolstead, place, "approvals", "--url", person.url)
    assert "careful__send" in listed.stdout
    assert (await asyncio.to_thread(toolstead, place, "approvals", "allow", shown["id"])).returncode == 0
    assert text(await sending) == f"{person.pid} sent to ada, yours"


async def test_watching_asks_about_each_call_and_leaving_decides_nothing(person: Person, place: Place) -> None:
    first = person.sending("ada")
    await person.waiting()
    with open_terminal(place.project, "approvals", "watch") as terminal:
        await asyncio.to_thread(terminal.answer, ALLOW, "y\n")
        assert text(await first) == f"{person.pid} sent to ada, yours"
        second = person.sending("bob")
        shown = await asyncio.to_thread(terminal.until, ALLOW)
        assert "it goes to bob" in shown
        terminal.process.send_signal(signal.SIGINT)
        status, _, _ = await asyncio.to_thread(terminal.end)
    assert status == 130
    waiting = await person.waiting()
    assert waiting["input"]["to"] == "bob"
    await person.decide(waiting["id"], "deny")
    assert "was refused" in text(await second)


async def test_a_token_that_may_not_decide_is_refused_with_what_would_be_right(place: Place) -> None:
    token = "the-token-of-the-settings"
    async with place.serve(TOOLSTEAD_TOKEN=token) as person:
        foreign = person.url.replace("127.0.0.1", "localhost")  # an address that server.json does not list
        refused = await asyncio.to_thread(
            toolstead, place, "--set", f"server.token={token}", "approvals", "--url", foreign
        )
    assert refused.returncode == 2
    assert "Only the owner of this server may do this" in refused.stderr
    assert "On the server's machine: `toolstead approvals`" in refused.stderr
