"""How MCP on stdio ends: a closed pipe, a signal, a client that is deaf. Promptly, quietly, and alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.programs.running import TOOL_SERVER, TOOLSTEAD, Wire, is_alive, running, text_in, wire_to
from tests.waiting import until

pytestmark = pytest.mark.promise("B6")

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def calls(count: int, name: str = "echo", **arguments: object) -> list[dict[str, object]]:
    params = {"name": name, "arguments": arguments}
    return [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params} for n in range(count)]


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def start_waiting(wire: Wire, folder: Path) -> None:
    """A call that ends only when somebody ends it."""
    arguments = {"began": str(folder / "began"), "ended": str(folder / "ended")}
    await wire.say(calls(1, "wait", **arguments)[0])
    assert await text_in(folder / "began") == "began"


async def ended_well(wire: Wire) -> None:
    assert await wire.program.ended() == 0
    assert "Traceback" not in wire.program.stderr
    assert "Error" not in wire.program.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_server(number: signal.Signals, tmp_path: Path) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], tmp_path) as wire:
        await wire.shake_hands()
        wire.program.process.send_signal(number)
        assert await wire.program.line() == b""
        await ended_well(wire)


async def test_a_signal_ends_a_running_call_with_its_child(tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\necho $$ > "{tmp_path}/child"\nsleep 1000 &\necho $! > "{tmp_path}/grandchild"\nwait\n')
    slow.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    command = [*TOOLSTEAD, "mcp", "--project", str(project)]
    async with wire_to(command, tmp_path, env={"PATH": path}) as wire:
        await wire.shake_hands()
        await wire.say(calls(1, "git-status")[0])
        family = [int(await text_in(tmp_path / name)) for name in ("child", "grandchild")]
        assert all(is_alive(pid) for pid in family)
        wire.program.process.terminate()
        await ended_well(wire)
        await until(lambda: not any(is_alive(pid) for pid in family))


async def test_a_signal_cancels_the_handler_and_its_cleanup_runs(tmp_path: Path) -> None:
    async with wire_to([*TOOL_SERVER, "stdio"], tmp_path) as wire:
        await wire.shake_hands()
        await start_waiting(wire, tmp_path)
        wire.program.process.terminate()
        await ended_well(wire)
        assert await text_in(tmp_path / "ended") == "cancelled"


async def test_a_closed_stdin_cancels_the_handlers_and_their_children_and_ends_the_server(tmp_path: Path) -> None:
    async with wire_to([*TOOL_SERVER, "stdio"], tmp_path) as wire:
        await wire.shake_hands()
        children = calls(20, "wait_for_child", began=str(tmp_path / "child"))
        await wire.write(lines(*children[1:]))
        await start_waiting(wire, tmp_path)
        child = int(await text_in(tmp_path / "child"))
        wire.close()
        assert await wire.program.line() == b""  # a client that has closed its side may not survive an answer
        await ended_well(wire)
        assert await text_in(tmp_path / "ended") == "cancelled"
        assert not is_alive(child)


async def test_the_end_in_the_middle_of_a_line_is_told(tmp_path: Path) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], tmp_path) as wire:
        await wire.shake_hands()
        await wire.write(b'{"jsonrpc": "2.0", "id": 1, "meth')
        wire.close()
        assert (await wire.hear())["error"]["message"] == "Parse error: the line is not valid JSON"
        assert await wire.program.line() == b""
        await ended_well(wire)


async def test_the_end_before_a_word_is_an_end(tmp_path: Path) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], tmp_path) as wire:
        wire.close()
        assert await wire.program.line() == b""
        await ended_well(wire)


@pytest.mark.parametrize("door", ["stdio", "stdio-on-uvloop"])
async def test_everything_that_was_asked_before_the_end_is_answered_once(door: str, tmp_path: Path) -> None:
    async with wire_to([*TOOL_SERVER, door], tmp_path) as wire:
        await wire.write(lines(HELLO, *calls(200, text="x" * 5_000)))
        wire.close()
        answers = [await wire.hear() for _ in range(201)]
        assert sorted(str(answer["id"]) for answer in answers) == sorted(["hello", *map(str, range(200))])
        assert await wire.program.line() == b""
        await ended_well(wire)


async def test_plain_files_will_do_for_stdin_and_stdout(tmp_path: Path) -> None:
    asked, said = tmp_path / "asked.txt", tmp_path / "said.txt"
    before, after = calls(2, "memory")
    asked.write_bytes(lines(HELLO, before) + b"x" * 50_000_000 + b"\n" + lines(after))
    with asked.open("rb") as source, said.open("wb") as sink:
        async with running(
            [*TOOL_SERVER, "stdio"],
            errors=tmp_path / "stderr.txt",
            cwd=tmp_path,
            stdin=source.fileno(),
            stdout=sink.fileno(),
        ) as program:
            assert await program.ended() == 0
            assert "Traceback" not in program.stderr
    answers = {answer["id"]: answer for answer in map(json.loads, said.read_text().splitlines())}
    assert "50,000,000 bytes" in answers[None]["error"]["message"]
    held = [int(answers[number]["result"]["content"][0]["text"]) for number in (0, 1)]
    assert held[1] - held[0] < 30_000_000, "a line that is too long is never held"


async def test_a_deaf_client_does_not_keep_the_server(tmp_path: Path) -> None:
    for end in ("signal", "closed stdin"):
        async with wire_to([*TOOL_SERVER, "stdio"], tmp_path) as wire:
            await wire.shake_hands()
            ended = tmp_path / "ended"
            ended.unlink(missing_ok=True)
            (tmp_path / "began").unlink(missing_ok=True)
            # Much more than a pipe holds, and nobody reads it.
            await wire.write(lines(*calls(50, "repeat", text="x" * 1_000, times=200)))
            await start_waiting(wire, tmp_path)
            if end == "signal":
                wire.program.process.terminate()
            else:
                wire.close()
            await until(lambda process=wire.program.process: not is_alive(process.pid))
            assert await text_in(ended) == "cancelled"
            assert "Traceback" not in wire.program.stderr


async def test_a_client_that_hung_up_is_noticed(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    async with running(
        [*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path, stdout=writing
    ) as program:
        os.close(writing)
        os.close(reading)
        wire = Wire(program)
        await wire.say(HELLO)
        assert await program.ended() == 0
        assert "Traceback" not in program.stderr
        assert "the client disconnected" in program.stderr


async def test_without_a_stderr_what_tools_print_is_lost_and_the_wire_is_whole(tmp_path: Path) -> None:
    closing = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *TOOL_SERVER, "stdio"]
    async with wire_to(closing, tmp_path) as wire:
        await wire.shake_hands()
        assert (await wire.call(1, "make_noise"))["result"]["content"][0]["text"] == "made noise"
        assert (await wire.call(2, "echo", {"text": "next"}))["result"]["content"][0]["text"] == "next"
        wire.close()
        assert await wire.program.ended() == 0


@pytest.mark.parametrize(("closed", "name"), [("<&-", "stdin"), (">&-", "stdout")])
async def test_without_a_wire_it_says_so(closed: str, name: str, tmp_path: Path) -> None:
    closing = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *TOOLSTEAD, "mcp"]
    async with wire_to(closing, tmp_path) as wire:
        assert await wire.program.ended() == 2
        assert f"toolstead: {name} is closed" in wire.program.stderr


async def test_whoever_reads_late_still_gets_the_last_line_whole(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    asked = {"name": "repeat", "arguments": {"text": "x" * 1_000, "times": 100}}
    async with running(
        [*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path, stdout=writing
    ) as program:
        os.close(writing)
        wire = Wire(program)
        await wire.write(lines(HELLO, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}))
        wire.close()
        with os.fdopen(reading, "rb") as source:
            await asyncio.to_thread(source.peek)
            await asyncio.sleep(0.3)  # late, which is the point: the pipe is full, and a rest waits behind it
            said = await asyncio.to_thread(source.read)
        assert await program.ended() == 0
    answers = [json.loads(line) for line in said.splitlines()]
    assert [answer["id"] for answer in answers] == ["hello", 1]
    assert said.endswith(b"\n")


SERVE_AND_GO_ON = """
import asyncio, os, sys, tempfile, uvloop
from toolstead import Toolstead

async def main():
    async with Toolstead() as stead:
        await stead.serve_stdio()
        mine = [tempfile.TemporaryFile() for _ in range(20)]
    await asyncio.sleep(0.05)  # whatever the loop still closes, it must not be one of these
    for file in mine:
        os.fstat(file.fileno())
    print("to stderr, also now", os.get_blocking(0), file=sys.stdout)

with asyncio.Runner(loop_factory=uvloop.new_event_loop if sys.argv[1] == "uvloop" else None) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_after_serving_stdin_is_given_back_and_stdout_stays_stderr(loop: str, tmp_path: Path) -> None:
    async with wire_to([sys.executable, "-c", SERVE_AND_GO_ON, loop], tmp_path) as wire:
        await wire.shake_hands()
        wire.close()
        assert await wire.program.line() == b""
        assert await wire.program.ended() == 0
        assert "to stderr, also now True" in wire.program.stderr
