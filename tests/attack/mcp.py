"""Malformed MCP messages, over HTTP and stdio, in both kinds of protocol versions: an answer in a moment, and no crash.

A conversation is that of `tests/surfaces/mixed_messages.py`; most of its messages are then changed in their values,
keys, depth, tokens or bytes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.attack.harness import PLUGIN, SLOWEST, Attack, Target, serving, shielded_folders, watched
from tests.attack.mutations import Mutator
from tests.programs.clients import Era
from tests.programs.running import TOOLSTEAD, ModernWire, Wire, wire_to
from tests.surfaces.http_wire import Answer, HttpWire
from tests.surfaces.message_parts import Said
from tests.surfaces.mixed_messages import Mixer

ERAS: tuple[Era, ...] = ("handshake", "modern")
TURNS = 60
"""Messages of one conversation."""
LINES = 20
"""Lines over stdio between two questions that must be answered."""
LARGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message with its headers."""

    said: Said
    line: bytes
    headers: list[tuple[str, str]]


def _known_tools(line: bytes) -> bytes:
    """The conversation's tools by the names that ours have."""
    return line.replace(b'"echo"', b'"play__echo"').replace(b'"say_back"', b'"play__say_back"')


def make_messages(seed: int, era: Era, chance: Random, session: str | None) -> Iterator[Sent]:
    """A conversation, most of it changed."""
    mixer, mutator = Mixer(seed, era, duplex=False), Mutator(chance, longest=LARGEST // 4)
    for said in mixer.conversation(TURNS):
        line = _known_tools(said.line)
        if chance.random() < 0.6:
            line = _change(line, mutator, chance)
        yield Sent(said=said, line=line[:LARGEST], headers=mixer.headers(said, session, odd=True))


def _change(line: bytes, mutator: Mutator, chance: Random) -> bytes:
    if chance.random() < 0.1:
        return mutator.bytes(line)
    try:
        return mutator.document(json.loads(line))
    except (ValueError, RecursionError):
        return mutator.text(line.decode("utf-8", "replace")[:100_000]).encode("utf-8", "surrogatepass")


async def attack(attack: Attack) -> None:
    """Three in four over HTTP, the rest over stdio."""
    async with serving(attack.folder / "server") as target:
        await _plain(target)
        before, over = target.memory, attack.count * 3 // 4
        async with watched(attack, target) as took:
            seed = attack.seed
            while sum(count for what, count in attack.tried.items() if what.endswith("below 500")) < over:
                if attack.is_past(0.7):
                    attack.note("the time was over before the count")
                    break
                await asyncio.gather(
                    *(_converse(attack, target, seed + number, ERAS[number % 2]) for number in range(4))
                )
                seed += 4
        if took:
            attack.note(
                f"health meanwhile: {sorted(took)[len(took) // 2] * 1_000:.0f} ms, at most {max(took) * 1_000:.0f} ms"
            )
        await target.check_end(attack, before=before)
    for era in ERAS:
        await _lines(attack, era, attack.count // 8)


async def _plain(target: Target) -> str:
    """A session of the handshake versions; a server that opens none could not be attacked."""
    async with HttpWire(f"http://127.0.0.1:{target.port}") as wire:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        plain = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")]
        answer = await wire.post(plain, json.dumps(hello).encode())
        session = answer.header("mcp-session-id")
        assert session, answer
        return session


async def _converse(attack: Attack, target: Target, seed: int, era: Era) -> None:
    chance = Random(f"{attack.seed} {seed}")
    session = await _plain(target) if era == "handshake" else None
    async with HttpWire(f"http://127.0.0.1:{target.port}") as wire:
        for sent in make_messages(seed, era, chance, session):
            await _post(attack, target, wire, sent, era)


async def _post(attack: Attack, target: Target, wire: HttpWire, sent: Sent, era: Era) -> None:
    what = f"http, {era}: answered below 500"
    shown = json.dumps(sent.headers).encode() + b"\n" + sent.line
    began = time.monotonic()
    try:
        answer = await wire.post(sent.headers, sent.line)
    except TimeoutError:
        attack.fail(what, "no answer in 60 s", shown)
        return
    except (OSError, asyncio.IncompleteReadError, IndexError, ValueError) as error:
        attack.fail(what, f"the connection was cut: {type(error).__name__}", shown)
        return
    took = time.monotonic() - began
    attack.check(what, answer.status < 500 and not _crashed(answer), f"{answer.status} {answer.body[:80]!r}", shown)
    if took > SLOWEST:
        await _try_again(attack, target, sent, era)
    else:
        attack.hold(f"http, {era}: answered within a second")


def _crashed(answer: Answer) -> bool:
    return b"Traceback" in answer.body or b"crashed (id" in answer.body


async def _try_again(attack: Attack, target: Target, sent: Sent, era: Era) -> None:
    """Slow, or only a busy machine? Alone, what counts is the processor time that the server uses for it."""
    async with HttpWire(f"http://127.0.0.1:{target.port}") as wire:
        used = target.processor_seconds
        await wire.post(sent.headers, sent.line)
        used = target.processor_seconds - used
    what = f"http, {era}: answered within a second"
    attack.check(what, used < SLOWEST, f"{used:.1f} s of processor time", sent.line)


async def _lines(attack: Attack, era: Era, count: int) -> None:
    """Lines to `toolstead mcp`; after some of them a question, which is answered."""
    folder = attack.folder / f"stdio-{era}"
    with shielded_folders(folder) as env:
        (folder / "home" / "plugins" / "play.py").write_text(PLUGIN, encoding="utf-8")
        async with wire_to([*TOOLSTEAD, "mcp"], folder / "project", env=env) as opened:
            wire = ModernWire(opened.program) if era == "modern" else opened
            if era == "handshake":
                await wire.shake_hands()
            await _call(wire, "first")
            said = 0
            while said < count and not attack.is_over:
                chance = Random(f"{attack.seed} stdio {era} {said}")
                messages = [sent.line.replace(b"\n", b" ") for sent in make_messages(said, era, chance, None)]
                messages = [line for line in messages if b'"initialize"' not in line]
                for at in range(0, len(messages), LINES):
                    if not await _say(attack, wire, era, messages[at : at + LINES], f"after {said} {at}"):
                        return
                said += len(messages)
            errors = wire.program.stderr
            attack.check(f"stdio, {era}: no traceback on stderr", "Traceback" not in errors, errors[-400:], errors)


async def _say(attack: Attack, wire: Wire, era: Era, lines: list[bytes], id: str) -> bool:
    what = f"stdio, {era}: a question after {LINES} lines is answered"
    data = b"".join(line + b"\n" for line in lines)
    try:
        await wire.write(data)
        answer = await _call(wire, id)
    except (TimeoutError, OSError, AssertionError, ValueError) as error:
        attack.fail(what, f"{type(error).__name__}: {str(error)[:200]}", data)
        return False
    attack.check(what, "result" in answer and b"still" in json.dumps(answer).encode(), f"{answer}"[:300], data)
    attack.hold(f"stdio, {era}: lines", len(lines))
    return True


async def _call(wire: Wire, id: str) -> Any:
    return await wire.call(id, "play__echo", {"text": "still there"})
