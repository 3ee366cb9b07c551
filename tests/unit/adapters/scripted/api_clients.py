"""The real clients of the four model APIs behind one face, so that one test asks all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from toolstead.testing import ScriptedModels

BOTH = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@dataclass
class Call:
    id: str
    name: str
    arguments: Any


@dataclass
class Got:
    """An answer: `deltas` are the pieces that came, of text or of arguments."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    deltas: list[str] = field(default_factory=list)
    used: tuple[int, int] = (0, 0)
    stop: str = ""


@dataclass
class User:
    text: str


@dataclass
class Model:
    text: str = ""
    calls: Sequence[Call] = ()


@dataclass
class Results:
    """What the calls of the last answer returned."""

    calls: Sequence[Call]
    texts: Sequence[str]


class Client(Protocol):
    """Asks one API."""

    async def ask(self, *said: Any, stream: bool = True, tools: Sequence[str] = ("today",), into: Any = None) -> Got:
        """Send a conversation; `into` is an answer that is filled while it comes."""
        ...


Asking = Callable[[str, str], Awaitable[tuple[ScriptedModels, Client]]]


async def idle(models: ScriptedModels, active: int = 0) -> None:
    """Wait until so many requests are under way."""
    async with asyncio.timeout(20):
        while models.active != active:
            await asyncio.sleep(0.01)


def refusal(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status of an API's error, and its body."""
    if isinstance(error, errors.APIError):
        return error.code, error.details
    if isinstance(error, openai.APIStatusError):
        return error.status_code, {"error": error.body}
    assert isinstance(error, anthropic.APIStatusError), error
    body: Any = error.body
    return error.status_code, body


REFUSED = (errors.APIError, openai.APIStatusError, anthropic.APIStatusError)


@asynccontextmanager
async def connected(api: str, models: ScriptedModels) -> AsyncGenerator[Client]:
    """A client of an API; it does not repeat what failed."""
    found = models.environ()
    if api == "anthropic":
        async with anthropic.AsyncAnthropic(
            base_url=found["ANTHROPIC_BASE_URL"], api_key=found["ANTHROPIC_API_KEY"], max_retries=0
        ) as client:
            yield _Anthropic(client)
    elif api == "gemini":
        options = types.HttpOptions(base_url=found["GOOGLE_GEMINI_BASE_URL"], api_version="v1beta")
        async with genai.Client(api_key=found["GOOGLE_API_KEY"], http_options=options).aio as client:
            yield _Gemini(client)
    else:
        async with openai.AsyncOpenAI(
            base_url=found["OPENAI_BASE_URL"], api_key=found["OPENAI_API_KEY"], max_retries=0
        ) as client:
            yield _Responses(client) if api == "openai" else _Chat(client)


class _Anthropic:
    def __init__(self, client: anthropic.AsyncAnthropic) -> None:
        self._client = client

    async def ask(self, *said: Any, stream: bool = True, tools: Sequence[str] = ("today",), into: Any = None) -> Got:
        messages: list[Any] = []
        for line in said:
            match line:
                case User(text):
                    messages.append({"role": "user", "content": text})
                case Model(text, calls):
                    blocks: list[Any] = [{"type": "text", "text": text}] if text else []
                    blocks += [
                        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
                        for call in calls
                    ]
                    messages.append({"role": "assistant", "content": blocks})
                case Results(calls, texts):
                    blocks = [
                        {"type": "tool_result", "tool_use_id": call.id, "content": text}
                        for call, text in zip(calls, texts, strict=True)
                    ]
                    messages.append({"role": "user", "content": blocks})
        sent: dict[str, Any] = {
            "model": "claude-test",
            "max_tokens": 1000,
            "system": "weather",
            "messages": messages,
            "tools": [{"name": name, "input_schema": SCHEMA} for name in tools],
        }
        got = into or Got()
        if not stream:
            whole = await self._client.messages.create(**sent)
            return self._whole(whole, got)
        return await self._stream(await self._client.messages.create(**sent, stream=True), got)

    async def _stream(self, events: Any, got: Got) -> Got:
        raw: dict[int, list[Any]] = {}
        async for event in events:
            if event.type == "content_block_start":
                raw[event.index] = [event.content_block, ""]
            elif event.type == "content_block_delta":
                piece = event.delta.text if event.delta.type == "text_delta" else event.delta.partial_json
                raw[event.index][1] += piece
                got.deltas.append(piece)
            elif event.type == "message_start":
                got.used = (event.message.usage.input_tokens, 0)
            elif event.type == "message_delta":
                got.used, got.stop = (got.used[0], event.usage.output_tokens), event.delta.stop_reason or ""
        for block, text in raw.values():
            if block.type == "text":
                got.text += text
            else:
                got.calls.append(Call(block.id, block.name, parsed(text)))
        return got

    def _whole(self, whole: Any, got: Got) -> Got:
        got.text = "".join(block.text for block in whole.content if block.type == "text")
        got.calls = [Call(block.id, block.name, block.input) for block in whole.content if block.type == "tool_use"]
        got.used, got.stop = (whole.usage.input_tokens, whole.usage.output_tokens), whole.stop_reason
        return got


class _Responses:
    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def ask(self, *said: Any, stream: bool = True, tools: Sequence[str] = ("today",), into: Any = None) -> Got:
        items: list[Any] = [{"role": "developer", "content": "weather"}]
        for line in said:
            match line:
                case User(text):
                    items.append({"role": "user", "content": [{"type": "input_text", "text": text}]})
                case Model(text, calls):
                    if text:
                        items.append({"role": "assistant", "content": text})
                    items += [
                        {
                            "type": "function_call",
                            "call_id": call.id,
                            "name": call.name,
                            "arguments": json.dumps(call.arguments),
                        }
                        for call in calls
                    ]
                case Results(calls, texts):
                    items += [
                        {"type": "function_call_output", "call_id": call.id, "output": text}
                        for call, text in zip(calls, texts, strict=True)
                    ]
        sent: dict[str, Any] = {
            "model": "gpt-test",
            "instructions": "weather",
            "input": items,
            "tools": [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in tools],
        }
        got = into or Got()
        if not stream:
            return self._whole(await self._client.responses.create(**sent), got)
        kinds: list[str] = []
        async for event in await self._client.responses.create(**sent, stream=True):
            assert event.sequence_number == len(kinds)
            kinds.append(event.type)
            if event.type in ("response.output_text.delta", "response.function_call_arguments.delta"):
                got.deltas.append(event.delta)
            elif event.type == "response.completed":
                self._whole(event.response, got)
        assert kinds[0] == "response.created"
        return got

    def _whole(self, whole: Any, got: Got) -> Got:
        got.text = whole.output_text
        got.calls = [
            Call(item.call_id, item.name, parsed(item.arguments))
            for item in whole.output
            if item.type == "function_call"
        ]
        got.used, got.stop = (whole.usage.input_tokens, whole.usage.output_tokens), whole.status
        return got


class _Chat:
    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def ask(self, *said: Any, stream: bool = True, tools: Sequence[str] = ("today",), into: Any = None) -> Got:
        messages: list[Any] = [{"role": "system", "content": "weather"}]
        for line in said:
            match line:
                case User(text):
                    messages.append({"role": "user", "content": text})
                case Model(text, calls):
                    made = [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                        }
                        for call in calls
                    ]
                    said_then: dict[str, Any] = {"role": "assistant", "content": text}
                    messages.append(said_then | ({"tool_calls": made} if made else {}))
                case Results(calls, texts):
                    messages += [
                        {"role": "tool", "tool_call_id": call.id, "content": text}
                        for call, text in zip(calls, texts, strict=True)
                    ]
        sent: dict[str, Any] = {
            "model": "gpt-test",
            "messages": messages,
            "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in tools],
        }
        got = into or Got()
        if not stream:
            return self._whole(await self._client.chat.completions.create(**sent), got)
        made: dict[int, list[str]] = {}
        async for chunk in await self._client.chat.completions.create(
            **sent, stream=True, stream_options={"include_usage": True}
        ):
            if chunk.usage is not None:
                got.used = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
            for choice in chunk.choices:
                got.stop = choice.finish_reason or got.stop
                if choice.delta.content:
                    got.text += choice.delta.content
                    got.deltas.append(choice.delta.content)
                for call in choice.delta.tool_calls or []:
                    if call.id:
                        made[call.index] = [call.id, call.function.name, ""]
                    elif call.function.arguments:
                        made[call.index][2] += call.function.arguments
                        got.deltas.append(call.function.arguments)
        got.calls = [Call(key, name, parsed(text)) for key, name, text in made.values()]
        return got

    def _whole(self, whole: Any, got: Got) -> Got:
        message = whole.choices[0].message
        got.text = message.content or ""
        got.calls = [
            Call(call.id, call.function.name, parsed(call.function.arguments)) for call in message.tool_calls or []
        ]
        got.used = (whole.usage.prompt_tokens, whole.usage.completion_tokens)
        got.stop = whole.choices[0].finish_reason
        return got


class _Gemini:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def ask(self, *said: Any, stream: bool = True, tools: Sequence[str] = ("today",), into: Any = None) -> Got:
        contents: list[types.Content] = []
        for line in said:
            match line:
                case User(text):
                    contents.append(types.Content(role="user", parts=[types.Part(text=text)]))
                case Model(text, calls):
                    parts = [types.Part(text=text)] if text else []
                    parts += [
                        types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=call.arguments))
                        for call in calls
                    ]
                    contents.append(types.Content(role="model", parts=parts))
                case Results(calls, texts):
                    parts = [
                        types.Part(
                            function_response=types.FunctionResponse(
                                id=call.id, name=call.name, response={"result": text}
                            )
                        )
                        for call, text in zip(calls, texts, strict=True)
                    ]
                    contents.append(types.Content(role="user", parts=parts))
        declared = [types.FunctionDeclaration(name=name, parameters_json_schema=SCHEMA) for name in tools]
        config = types.GenerateContentConfig(
            system_instruction="weather",
            tools=[types.Tool(function_declarations=declared)] if declared else None,
        )
        sent: dict[str, Any] = {"model": "gemini-test", "contents": contents, "config": config}
        got = into or Got()
        if not stream:
            whole = await self._client.models.generate_content(**sent)
            self._add(whole, got)
            got.deltas.clear()
            return got
        async for chunk in await self._client.models.generate_content_stream(**sent):
            self._add(chunk, got)
        return got

    def _add(self, chunk: Any, got: Got) -> None:
        (candidate,) = chunk.candidates
        for part in candidate.content.parts or []:
            if part.function_call is not None:
                call = part.function_call
                got.calls.append(Call(call.id, call.name, call.args))
                got.deltas.append(json.dumps(call.args))
            elif part.text:
                got.text += part.text
                got.deltas.append(part.text)
        usage = chunk.usage_metadata
        got.used = (usage.prompt_token_count, usage.candidates_token_count)
        got.stop = str(candidate.finish_reason.value) if candidate.finish_reason else got.stop


def parsed(text: str) -> Any:
    """JSON, or the text when it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
