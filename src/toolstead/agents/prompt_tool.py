"""A tool that is a prompt, as a tool to call: one child run for each call, and its answer as the result.

    fill in the prompt ──▸ delegated task ──▸ answer ──▸ result

`app` starts the task. Its review validates the answer against the result schema and has it repaired once; depth,
fan-out and descendants are counted where it is admitted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from toolstead.agents.prompt_answer import NoJsonError, find_json
from toolstead.agents.prompt_template import LongPromptError, fill_template
from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.schema.compiled import CompiledSchema
from toolstead.types.agent import PromptTool
from toolstead.types.content import Text
from toolstead.types.result import ToolResult

MOST_CACHED = 256
LARGEST_CACHED = 65_536
"""Characters of an answer that is kept for equal arguments."""

CHILD_INSTRUCTIONS = """\
You do one task for another agent, which reads nothing but your answer. Use your tools where they help. Answer with \
the result alone: no greeting, no remarks, no question back."""

FindProblems = Callable[[CompiledSchema, Any], Awaitable[list[str]]]
"""Why a value does not fit a schema: the first reasons, each with its JSON pointer; bounded in time."""


class RunChild(Protocol):
    """Runs the child of a prompt tool, and waits for its answer."""

    async def __call__(self, definition: PromptTool, prompt: str, meta: ToolMeta) -> str:
        """Run it; the answer fits the tool's result schema, where it has one.

        Args:
            definition: The tool.
            prompt: What the child is asked.
            meta: The call.

        Raises:
            ToolError: There is no such answer: a limit is reached, or the task failed; the text says which and why.
        """
        ...


def name_child(agent: str, tool: str) -> str:
    """The name under which a prompt tool's child runs; no file can define it, since it has a `/`."""
    return f"{agent}/{tool}"


@dataclass(slots=True, kw_only=True, eq=False)
class PromptCalls:
    """Answers the calls of one prompt tool.

    Attributes:
        definition: The tool.
        run_child: Runs its child.
        result_schema: What the answer must fit, compiled; None when any text will do.
    """

    definition: PromptTool
    run_child: RunChild
    result_schema: CompiledSchema | None
    _cache: OrderedDict[bytes, ToolResult] = field(default_factory=OrderedDict[bytes, ToolResult])

    async def answer_call(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
        """Answer one call: the handler of the tool."""
        key = _digest_input(input) if self.definition.cache else b""
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        try:
            prompt = fill_template(self.definition.prompt, input)
        except LongPromptError as error:
            raise ToolError(f"{self.definition.name} was not started: {error}; pass shorter values") from error
        result = await self._ask_child(prompt, meta)
        if key and len(result.text) <= LARGEST_CACHED:
            self._cache[key] = result
            if len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)
        return result

    async def _ask_child(self, prompt: str, meta: ToolMeta) -> ToolResult:
        schema = self.result_schema
        if schema is None:
            return ToolResult(content=(Text(await self.run_child(self.definition, prompt, meta)),))
        answer = await self.run_child(self.definition, f"{prompt}\n\n{describe_schema(schema.document)}", meta)
        try:
            value = find_json(answer)
        except NoJsonError as error:
            raise ToolError(f"{self.definition.name} has no valid result: {error}") from error
        rendered = Text(msgspec.json.encode(value).decode())
        return ToolResult(content=(rendered,), structured=value if type(value) is dict else None)


def describe_schema(schema: Mapping[str, Any] | bool) -> str:
    """The sentence that asks for JSON; the same text for the same schema."""
    written = msgspec.json.encode(schema).decode()
    return f"Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{written}"


def create_prompt_tool(calls: PromptCalls, *, timeout: float) -> Tool:
    """The tool that a model calls.

    Args:
        calls: Answers its calls.
        timeout: Seconds that a call may take: the run, and the one that repairs its answer.
    """
    definition = calls.definition

    async def handle_call(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
        return await calls.answer_call(ctx, input, meta)

    return Tool(
        name=definition.name,
        description=definition.description.strip()
        or f"Asks an agent: {definition.prompt.strip().splitlines()[0][:200]}",
        schema=definition.input_schema,
        handler=handle_call,
        timeout=timeout,
        spawns=True,
    )


def _digest_input(input: Mapping[str, Any]) -> bytes:
    return blake2b(msgspec.json.encode(input, order="sorted"), digest_size=16).digest()
