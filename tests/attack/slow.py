"""Fifty clients call a quick tool while a fifty-first sends what is expensive: the fifty must hardly notice.

For each expensive input the fifty are measured in turns, with and without it; the ratio of the slowest hundredth (p99)
is what counts. Then the server is told to end in the middle of the input, and must be gone when its grace is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.harness import Attack, Target, serving, stop_task
from tests.flows.tool_files import shell, tool
from tests.programs.running import MODERN, modern_meta
from tests.surfaces.rest_server import request

CLIENTS = 50
PAUSE = 0.1
"""Seconds between two calls of one client: many at once, but the machine is not full by them alone."""
RATIO, UNFELT = 2.0, 0.05
"""By how much p99 may grow, and the seconds below which it does not matter."""
LENIENT_RATIO, LENIENT_UNFELT = 20.0, 1.5
"""The same where other tests use the machine too: a server that stands still is found all the same."""
PATIENCE = 15.0
"""Seconds that a call may be waited for when a turn is over."""
GRACE = 10 + 2 + 8
"""Seconds in which a server ends: its grace for what runs, its last steps, and a margin."""

_LOOK_AROUND = r"(?=.*[0-9])(?=.*[a-z])[a-z0-9]+[0-9]"
_KINDS = [{"type": "object", "properties": {"a": {"const": number}}, "required": ["a"]} for number in range(30)]
_TOOLS: list[Any] = [
    tool("look", {"type": "shell", "command": "true"}, {"x": {"type": "string", "pattern": _LOOK_AROUND}}),
    tool("again", {"type": "shell", "command": "true"}, {"x": {"type": "string", "pattern": r"^(a+)\1+(?=!)b$"}}),
    tool("any", {"type": "shell", "command": "true"}, {"x": {"type": "array", "items": {"anyOf": _KINDS}}}),
    tool("unique", {"type": "shell", "command": "true"}, {"x": {"type": "array", "uniqueItems": True}}),
    shell("argument", "true {{x}}", "x"),
    shell("input", "cat", "x", stdin="{{x}}"),
]


@dataclass(frozen=True, slots=True)
class File:
    """A tool file, written into the watched folder again and again; a number in it changes."""

    text: Callable[[int], str]

    async def send(self, target: Target, number: int) -> None:
        file = target.tools / "expensive.json"
        await asyncio.to_thread(_write, file, self.text(number))
        await asyncio.sleep(0.3)


@dataclass(frozen=True, slots=True)
class Body:
    """Requests that are sent one after the other."""

    path: str
    bodies: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = ()

    async def send(self, target: Target, number: int) -> None:
        body = self.bodies[number % len(self.bodies)]
        connection = await target.connect()
        try:
            await connection.send(request("POST", self.path, body, dict(self.headers), host=connection.host))
            await connection.reply()
        finally:
            connection.writer.close()


def _write(file: Path, text: str) -> None:
    aside = file.with_name(".aside")
    aside.write_text(text, encoding="utf-8")
    aside.replace(file)


def _command(command: str) -> Callable[[int], str]:
    return lambda number: json.dumps({"name": f"n{number}", "tools": [shell("expensive", command, "x")]})


def _call(name: str, *values: Any) -> Body:
    return Body(f"/api/tools/{name}/call", tuple(json.dumps({"input": {"x": value}}).encode() for value in values))


def _message(params: Any) -> Body:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": modern_meta()}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
    }
    return Body("/mcp", (json.dumps(message).encode(),), tuple({**headers, "Mcp-Name": params["name"]}.items()))


def _many_tools(number: int) -> str:
    tools = [shell(f"t{count}", f"grep -rn -- {{{{x}}}} {number}.{count} | head -n 5", "x") for count in range(3_000)]
    return json.dumps({"name": "many", "tools": tools})


_LONG = tuple("a" * length for length in (10_000, 50_000, 200_000, 1_000_000, 3_900_000))
INPUTS: dict[str, File | Body] = {
    "file: aligned command": File(
        _command('grep    -rn    --include=.py    -e    todo    -e    fixme    -e    xxx    "src"')
    ),
    "file: blanks before an operator": File(_command(f"grep{' ' * 600};")),
    "file: range of addresses": File(_command("grep 192.168.100.100-192.168.100.20x {{x}}")),
    "file: word of digits": File(_command(f"grep {'1' * 30}x {{{{x}}}}")),
    "file: cut off in a string": File(lambda number: f'{{"name": "n{number}", "tools": [{{"name": "' + '\\"' * 100_000),
    "file: many tools": File(_many_tools),
    "file: deep": File(lambda number: f'{{"name": "n{number}", "tools": ' + "[" * 1_000_000),
    "call: long text, look-around": _call("look", *_LONG),
    "call: long text, back-reference": _call("again", *_LONG[:3]),
    "call: array of many, anyOf": _call("any", [{"a": 40}] * 20_000, [{"a": 29}] * 100_000),
    "call: array of many, unique": _call("unique", [{"a": number} for number in range(50_000)], list(range(300_000))),
    "call: long argument": _call("argument", *_LONG),
    "call: long input": _call("input", *_LONG),
    "body: deep": Body("/api/tools/any/call", (b'{"input":{"x":' + b"[" * 2_000_000,)),
    "body: many members": Body(
        "/api/tools/any/call", (json.dumps({"input": {f"k{n}": n for n in range(200_000)}}).encode(),)
    ),
    "message: long text, look-around": _message({"name": "look", "arguments": {"x": _LONG[2]}}),
    "message: deep": Body("/mcp", (b"[" * 2_000_000, b'{"a":' * 500_000), (("Mcp-Protocol-Version", MODERN),)),
}
SAMPLE = (
    "file: range of addresses",
    "file: cut off in a string",
    "call: long text, look-around",
    "call: array of many, anyOf",
)


async def attack(attack: Attack) -> None:
    """Measure each input, then end a server in the middle of each."""
    inputs = {name: given for name, given in INPUTS.items() if name in SAMPLE or not attack.is_sample}
    turns, seconds = (1, 1.5) if attack.is_sample else (2 * attack.count, 2.0)
    waiting = list(inputs.items())
    number = 0
    while waiting and not attack.is_past(0.8):
        number += 1
        async with serving(attack.folder / f"server-{number}", tools=_TOOLS) as target:
            while waiting and not attack.is_past(0.8):
                name, given = waiting.pop(0)
                if not await _measure(attack, target, name, given, turns=turns, seconds=seconds):
                    break  # it stands still: the next one gets another server
            target.check_log(attack)
    for name, given in list(inputs.items())[:: 2 if attack.is_sample else 1]:
        if not attack.is_over:
            await _end_meanwhile(attack, name, given)


async def _measure(
    attack: Attack, target: Target, name: str, given: File | Body, *, turns: int, seconds: float
) -> bool:
    """Whether the server is still there for the next input."""
    quiet: list[float] = []
    felt: list[float] = []
    for _ in range(turns):
        quiet += await _turn(target, seconds)
        sending = asyncio.create_task(_send_on(target, given))
        felt += await _turn(target, seconds)
        await stop_task(sending)
        (target.tools / "expensive.json").unlink(missing_ok=True)
        if not await target.is_healthy(PATIENCE):
            break
    ratio, unfelt = (LENIENT_RATIO, LENIENT_UNFELT) if attack.is_sample else (RATIO, UNFELT)
    (p50, p99), (felt50, felt99) = _quantiles(quiet), _quantiles(felt)
    held = felt99 <= max(ratio * p99, unfelt)
    shown = f"p50 {p50 * 1_000:.0f} → {felt50 * 1_000:.0f} ms, p99 {p99 * 1_000:.0f} → {felt99 * 1_000:.0f} ms"
    attack.check(f"p99 of fifty during: {name}"[:52], held, f"{shown}: {felt99 / p99:.1f} times", _shown(given))
    attack.note(f"{name}: {shown}, ratio {felt99 / p99:.1f} ({len(quiet)} and {len(felt)} calls)")
    return await target.is_healthy(PATIENCE)


async def _send_on(target: Target, given: File | Body) -> None:
    number = 0
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            await given.send(target, number)
        number += 1
        await asyncio.sleep(0)


async def _turn(target: Target, seconds: float) -> list[float]:
    """Seconds of each call of the fifty."""
    took: list[float] = []
    ends = time.monotonic() + seconds
    body = json.dumps({"input": {"text": "quick"}}).encode()

    async def call_on(number: int) -> None:
        await asyncio.sleep(PAUSE * number / CLIENTS)
        connection = await target.connect()
        try:
            while time.monotonic() < ends:
                began = time.monotonic()
                try:
                    await connection.send(request("POST", "/api/tools/play__echo/call", body, host=connection.host))
                    reply = await connection.reply()
                    assert reply.status == 200, reply
                finally:  # one that was given up counts with what it has waited
                    took.append(time.monotonic() - began)
                await asyncio.sleep(PAUSE)
        finally:
            connection.writer.close()

    clients = [asyncio.create_task(call_on(number)) for number in range(CLIENTS)]
    _, late = await asyncio.wait(clients, timeout=seconds + PATIENCE)
    for client in late:
        await stop_task(client)
    return took


def _quantiles(took: list[float]) -> tuple[float, float]:
    ordered = sorted(took) or [0.0]
    return ordered[len(ordered) // 2], max(ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)], 1e-4)


async def _end_meanwhile(attack: Attack, name: str, given: File | Body) -> None:
    """SIGTERM once the server is at work on it."""
    folder = attack.folder / f"end-{list(INPUTS).index(name)}"
    async with serving(folder, tools=_TOOLS) as target:
        before = target.processor_seconds
        sending = asyncio.create_task(_send_on(target, given))
        for _ in range(100):
            await asyncio.sleep(0.02)
            if target.processor_seconds - before > 0.2:
                break
        began = time.monotonic()
        target.program.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(target.program.process.wait(), GRACE)
            held = True
        except TimeoutError:
            held = False
        await stop_task(sending)
        took = time.monotonic() - began
        attack.check(
            "SIGTERM in the middle: gone within its grace",
            held,
            f"{name}: still there after {took:.0f} s",
            _shown(given),
        )


def _shown(given: File | Body) -> bytes | str:
    return given.text(0) if isinstance(given, File) else given.path.encode() + b"\n" + given.bodies[-1]
