"""Secrets of commands are shown nowhere, and lines of a running command arrive as progress."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.flows.tool_files import opened, shell, write
from tests.waiting import PATIENCE
from toolstead import ToolResult, Toolstead
from toolstead.processes import line_progress
from toolstead.types.result import Failure

pytestmark = pytest.mark.promise("R2")

SECRET = "s3cr3t/with+odd=characters"
MASK = "********"


class Heard:
    """A caller that listens to progress, as fast as it wants to."""

    def __init__(self, *, slow: bool = False, fails_at: int | None = None) -> None:
        self.lines: list[str] = []
        self.counts: list[float] = []
        self._slow = slow
        self._fails_at = fails_at
        self.go_on = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        assert message is not None
        self.counts.append(progress)
        self.lines.append(message)
        if self._slow:
            await self.go_on.wait()
        if self._fails_at == len(self.lines):
            raise ConnectionError("the caller's line is dead")


async def called(
    folder: Path,
    command: str,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Any = None,
    input: Mapping[str, Any] | None = None,
    **handler: Any,
) -> ToolResult:
    """Call a tool with this command, with a listener where one is given."""
    (folder / "tools").mkdir(exist_ok=True)
    write(folder / "tools/it.json", shell("it", command, *(input or {}), **handler))
    async with opened(folder, watch=False, environ={**os.environ, **(environ or {})}) as stead:
        assert stead.tool_files()[0].problems == ()
        return await listening(stead, progress, input)


async def listening(stead: Toolstead, progress: Any, input: Mapping[str, Any] | None = None) -> ToolResult:
    async with asyncio.timeout(PATIENCE):
        return await stead._parts.dispatcher.call("it", input, progress=progress)


# Secrets


@pytest.mark.promise("S2")
async def test_a_secret_reaches_the_command_and_is_shown_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = (
        'sh -c \'[ "$KEY" = "$1" ] && echo same; echo "out $KEY"; echo "err $KEY" >&2; exit {{code}}\' _ {{expected}}'
    )
    (tmp_path / "tools").mkdir()
    write(tmp_path / "tools/it.json", shell("it", script, "code", "expected", env={"KEY": "x${OWN}x"}, stream=True))
    problems = '"allowScript"'
    environ = {**os.environ, "OWN": SECRET}
    async with opened(tmp_path, watch=False, environ=environ) as stead:
        assert problems in stead.tool_files()[0].problems[0].message
    good = shell("it", script, "code", "expected", env={"KEY": "x${OWN}x"}, stream=True, allowScript=["code"])
    write(tmp_path / "tools/it.json", good)
    heard = Heard()
    async with opened(tmp_path, watch=False, environ=environ) as stead:
        with stead.events() as events, caplog.at_level(logging.DEBUG):
            well = await listening(stead, heard, {"code": "0", "expected": f"x{SECRET}x"})
            ill = await listening(stead, heard, {"code": "1", "expected": "other"})
        told = [event.data async for event in events if event.type == "tool_result"]
    assert well.text == f"same\nout x{MASK}x\n"
    assert ill.text == f"out x{MASK}x\nerr x{MASK}x\nexit status 1"
    assert heard.lines == ["same", f"out x{MASK}x", f"out x{MASK}x"]
    assert [data["content"] for data in told] == [well.text, ill.text]
    assert f"stderr: err x{MASK}x" in caplog.text
    assert SECRET not in caplog.text


async def test_a_secret_is_taken_at_the_time_of_the_call_and_an_unset_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    write(tmp_path / "tools/it.json", shell("it", "sh -c 'echo ${#KEY}'", env={"KEY": "${LATE_SECRET}"}))
    environ = dict(os.environ)
    async with opened(tmp_path, watch=False, environ=environ) as stead:
        # A client hands on the reference itself where it has no such variable.
        for unset in (None, "", "${LATE_SECRET}", "{env:LATE_SECRET}"):
            environ |= {} if unset is None else {"LATE_SECRET": unset}
            result = await stead.call("it")
            assert result.is_error
            assert "LATE_SECRET is not set where Toolstead runs" in result.text
            assert "`toolstead connect CLIENT --env LATE_SECRET`" in result.text
        environ["LATE_SECRET"] = "1234567890"
        assert (await stead.call("it")).text == "10\n"


async def test_a_secret_that_is_too_short_to_be_masked_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = await called(tmp_path, "printenv KEY", environ={"OWN": "1234567"}, env={"KEY": "${OWN}"})
    assert result.text == "1234567\n"
    assert "the secret OWN is too short to be masked in results and logs" in caplog.text
    assert "1234567" not in caplog.text


@pytest.mark.parametrize("pause", ["", "sleep 0.05; "])
async def test_a_secret_that_arrives_in_pieces_is_masked(pause: str, tmp_path: Path) -> None:
    script = f'sh -c \'printf "%s" "a ${{KEY%???????????????}}"; {pause}printf "%s\\n" "${{KEY#???????????}} b"\''
    heard = Heard()
    result = await called(tmp_path, script, environ={"OWN": SECRET}, env={"KEY": "${OWN}"}, stream=True, progress=heard)
    assert len(SECRET) == 26
    assert result.text == f"a {MASK} b\n"
    assert heard.lines == [f"a {MASK} b"]


@pytest.mark.parametrize("ending", ["}", "} >&2; exit 3"], ids=["stdout", "stderr"])
@pytest.mark.parametrize("before", [0, 300, 370, 380, 384, 390, 400, 4_090])
async def test_half_of_a_secret_is_not_shown_where_the_answer_is_cut(before: int, ending: str, tmp_path: Path) -> None:
    """The head, the tail and a line all end somewhere; none of them ends inside a secret."""
    script = f"""sh -c '{{ printf "%{before}s" "" | tr " " x; printf "%s" "$KEY"; printf "%20000s" "" | tr " " y; """
    script += f"""printf "%s" "$KEY"; printf "%100s\\n" "" | tr " " z; echo end; {ending}'"""
    heard = Heard()
    result = await called(
        tmp_path, script, environ={"OWN": SECRET}, env={"KEY": "${OWN}"}, stream=True, progress=heard, maxOutput=1_024
    )
    assert result.is_error == ("exit" in ending)
    assert len(result.text) > 500
    for text in [result.text, *heard.lines]:
        for size in range(4, len(SECRET)):
            assert SECRET[:size] not in text
            assert SECRET[-size:] not in text


async def test_errors_without_a_line_break_are_masked_and_whole(tmp_path: Path) -> None:
    script = """sh -c 'printf "%s" "out $KEY." ; printf "%s" "err $KEY!" >&2; exit 2'"""
    result = await called(tmp_path, script, environ={"OWN": SECRET}, env={"KEY": "${OWN}"})
    assert result.text == f"out {MASK}.\nerr {MASK}!\nexit status 2"


async def test_overlapping_secrets_leave_nothing_of_either(tmp_path: Path) -> None:
    env = {"A": "${FIRST}", "B": "${SECOND}"}
    environ = {"FIRST": "overlap-here", "SECOND": "here-and-on"}
    result = await called(tmp_path, "echo overlap-here-and-on", env=env, environ=environ)
    assert result.text == f"{MASK}\n"


# Progress


async def test_lines_arrive_in_order_while_the_command_runs(tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    heard = Heard()
    calling = asyncio.create_task(
        called(tmp_path, "sh -c 'echo one; echo two; cat go; printf last'", stream=True, progress=heard)
    )
    async with asyncio.timeout(PATIENCE):
        while len(heard.lines) < 2:
            await asyncio.sleep(0.005)
    assert heard.lines == ["one", "two"]
    assert not calling.done()
    await asyncio.to_thread(fifo.write_text, "three\n")
    assert (await calling).text == "one\ntwo\nthree\nlast"
    assert heard.lines == ["one", "two", "three", "last"]
    assert heard.counts == [1, 2, 3, 4]


async def test_lines_are_told_only_where_the_tools_file_says_so(tmp_path: Path) -> None:
    heard = Heard()
    assert (await called(tmp_path, "seq 1 5", progress=heard)).text == "1\n2\n3\n4\n5\n"
    assert heard.lines == []


async def test_a_listener_that_keeps_up_hears_every_line_of_a_burst(tmp_path: Path) -> None:
    heard = Heard()
    result = await called(tmp_path, "seq 1 5000", stream=True, progress=heard)
    assert heard.lines == result.text.split()
    assert len(heard.lines) == 5_000


async def test_what_waits_for_a_slow_listener_is_bounded_and_the_rest_is_dropped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_progress, "SECONDS_TO_CATCH_UP", 0.05)
    heard = Heard(slow=True)
    result = await called(tmp_path, "seq 1 200000", stream=True, progress=heard, maxOutput=4_194_304)
    assert not result.is_error
    assert len(result.text.split()) == 200_000
    assert heard.lines == ["1"]
    assert "200,000 lines of progress were dropped: the caller reads too slowly" in caplog.text


async def test_a_slow_listener_still_gets_what_found_room_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_progress, "SECONDS_TO_CATCH_UP", PATIENCE)
    monkeypatch.setattr(line_progress, "MOST_WAITING", 64_000)
    heard = Heard(slow=True)
    calling = asyncio.create_task(called(tmp_path, "seq 1 50000", stream=True, progress=heard, maxOutput=4_194_304))
    async with asyncio.timeout(PATIENCE):
        while not heard.lines:
            await asyncio.sleep(0.005)
    heard.go_on.set()
    await calling
    assert heard.lines == sorted(heard.lines, key=int)
    assert len(heard.lines) + _dropped(caplog) == 50_000


def _dropped(caplog: pytest.LogCaptureFixture) -> int:
    lines = [
        record.getMessage() for record in caplog.records if "lines of progress were dropped" in record.getMessage()
    ]
    return int(lines[0].split()[0].replace(",", "")) if lines else 0


async def test_without_a_listener_no_line_is_made_and_none_is_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(line_progress.LineProgress, "take_lines")
    result = await called(tmp_path, "seq 1 100000", stream=True, maxOutput=4_194_304)
    assert len(result.text.split()) == 100_000
    assert "dropped" not in caplog.text


@pytest.mark.promise("S2")
async def test_a_listener_that_fails_is_a_crash_that_is_told_and_never_a_hang(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard(fails_at=2)
    result = await called(tmp_path, "seq 1 100000", stream=True, progress=heard)
    assert result.failure == Failure.CRASH
    assert heard.lines == ["1", "2"]
    assert "the caller's line is dead" in caplog.text


async def test_a_call_that_is_given_up_ends_its_listener_too(tmp_path: Path) -> None:
    heard = Heard(slow=True)
    before = asyncio.all_tasks()
    calling = asyncio.create_task(called(tmp_path, "sh -c 'echo one; sleep 1000'", stream=True, progress=heard))
    async with asyncio.timeout(PATIENCE):
        while not heard.lines:
            await asyncio.sleep(0.005)
    calling.cancel()
    await asyncio.wait([calling], timeout=PATIENCE)
    assert calling.cancelled()
    assert asyncio.all_tasks() == before
