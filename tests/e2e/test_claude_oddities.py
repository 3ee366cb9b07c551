"""What nobody would say on purpose, and a model, a program or a pasted text says all the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude_stage import CLAUDE, PREFIX
from tests.e2e.model_stage import Play, playing
from toolstead import tool

pytestmark = pytest.mark.requires("claude")

HALF = "\ud83d"
"""Half of a character outside the basic plane, as a model writes it when it is cut in the middle."""


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def open_stage(script: str, **more: Any) -> Any:
        return playing(CLAUDE, script, tmp_path, **more)

    return open_stage


@pytest.mark.promise("S7")
@pytest.mark.parametrize("blank", ["", " \n\t", "\ufeff \u3000"])
async def test_a_blank_message_is_answered_like_any_other(play: Play, blank: str) -> None:
    async with play("- {when: more, say: Two.}\n- {say: One.}\n") as stage:
        run = await stage.ask(blank, thread_id="t1", timeout=30)
        assert (run.status, run.result) == ("completed", "One."), run.error
        after = await stage.ask("more", thread_id="t1")
        assert (after.status, after.result) == ("completed", "Two."), after.error


async def test_a_blank_message_for_the_running_turn_does_not_keep_it_from_ending(play: Play) -> None:
    async with play("- {when: begin, say: One word after another, hang: 1}\n- {say: Yes?}\n") as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1", timeout=30))
        await stage.until(lambda: stage.told("message.delta"))
        await stage.steer(" \n", "t1")
        run = await running
        assert (run.status, run.result) == ("completed", "Yes?"), run.error


@pytest.mark.promise("S2")
async def test_half_a_character_in_what_a_model_says_or_calls_ends_nothing(play: Play) -> None:
    given: list[str] = []

    @tool
    async def dig(where: str) -> str:
        """Digs."""
        given.append(where)
        return f"dug {where}"

    call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": f"{PREFIX}dig", "input": {}}
    where = {"type": "input_json_delta", "partial_json": json.dumps({"where": f"a{HALF}b"})}
    words = {"type": "text_delta", "text": f"I dug {HALF}"}

    def reply(body: str) -> bytes:
        if "tool_result" in body:
            return _streamed({"type": "text", "text": ""}, words, stop="end_turn")
        return _streamed(call, where, stop="tool_use")

    async with (
        _answering(reply) as url,
        play("- say: never", tools=[dig], environ={"ANTHROPIC_BASE_URL": url}) as stage,
    ):
        run = await stage.ask("go", thread_id="t1")
        assert (run.status, run.result) == ("completed", "I dug \ufffd"), run.error
        assert given == ["a\ufffdb"]
        assert [data["text"] for data in stage.told("message.delta")] == ["I dug \ufffd"]
        programs = stage.programs
        assert (await stage.ask("and now", thread_id="t1")).status == "completed"
        assert stage.programs == programs  # the same one


@asynccontextmanager
async def _answering(reply: Callable[[str], bytes]) -> AsyncGenerator[str]:
    """A Messages API that says what the scripted one does not: text that is no text."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = re.search(r"content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(reply(body.decode()))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _streamed(block: Mapping[str, Any], delta: Mapping[str, Any], *, stop: str) -> bytes:
    """A reply of one block, as the API streams it; half a character is an escape in it."""
    message = {
        "id": f"msg_{secrets.token_hex(4)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
    }
    message |= {"content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
