"""Whether the table of `toolstead.schema.client_limits` is right: each of its examples, listed to the real clients.

A client that a limit names must not take its example, and every other one must, among those whose taking shows in
what they would send to a model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from tests.clients.environments import CACHE
from tests.clients.meeting import show_only
from tests.clients.programs import meet_program
from tests.clients.results import Outcome
from tests.clients.script import write_script
from tests.clients.stage import open_stage
from tests.clients.table import CLIENTS
from toolstead.schema.client_limits import LIMITS, ClientLimit
from toolstead.testing import scripted_models

LOADERS = {"autogen": "autogen-ext", "llama-index": "llama-index-tools-mcp", "smolagents": "smolagents"}
"""Clients that build something of their own from a schema, with their names in the limits."""
PASSERS = {"langchain": "langchain-mcp-adapters", "openai-agents": "openai-agents", "strands": "strands-agents"}
"""Clients that pass a schema on to the model's API."""


def check_limits() -> Iterator[str]:
    """Check each limit; what is said of each, `wrong: …` where the table is."""
    for number, limit in enumerate(LIMITS):
        if limit.longest_name is not None:
            continue
        for client, name in (LOADERS | PASSERS).items():
            if client in PASSERS and name not in limit.clients:
                continue
            shown = asyncio.run(_show_example(client, limit, number))
            reason = _judge_loader(limit, name, shown) if client in LOADERS else _judge_passer(limit, shown)
            yield f"{'wrong' if reason else 'right'}: {limit.find.__name__}, {name}: {reason or _shorten(shown)}"
        if limit.clients == "Codex":
            text = asyncio.run(_show_to_codex(limit))
            reason = "" if text and '"minimum"' not in text else f"it passes the keyword on, or nothing: {text[:300]}"
            yield f"{'wrong' if reason else 'right'}: {limit.find.__name__}, Codex: {reason or text[:120]}"


async def _show_example(client: str, limit: ClientLimit, number: int) -> Outcome:
    home = CACHE / "homes" / f"shape-{client}-{number}"
    async with open_stage(home, "stdio", only=_write_file(limit)) as stage:
        return await show_only(CLIENTS[client], client, stage)


async def _show_to_codex(limit: ClientLimit) -> str:
    """The schema of the example in Codex's first request, or nothing."""
    async with (
        open_stage(CACHE / "homes" / "shape-codex", "stdio", only=_write_file(limit)) as stage,
        scripted_models(write_script()) as models,
    ):
        await meet_program(CLIENTS["codex"], CACHE, stage, models, ["list"])
        offered = [tool for request in models.requests for tool in _find_tools(request.body)]
    return json.dumps(offered[0]["parameters"]) if offered else ""


def _find_tools(value: Any) -> Iterator[dict[str, Any]]:
    """The objects in a request that offer the example."""
    if isinstance(value, dict):
        if value.get("name") == "only" and "parameters" in value:
            yield value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _find_tools(inner)


def _write_file(limit: ClientLimit) -> str:
    """A tool file with the example as its only tool."""
    handler = {"type": "shell", "command": "echo only"}
    tool = {"name": "only", "description": "The only one.", "inputSchema": limit.example, "handler": handler}
    return json.dumps({"name": "shape", "tools": [tool]})


def _judge_loader(limit: ClientLimit, name: str, shown: Outcome) -> str:
    """Why the table is wrong, or nothing."""
    text, example = shown.note, json.dumps(limit.example)
    is_named = name in limit.clients
    takes = shown.verdict == "W" and "amount" in text and ('"integer"' in text or '"integer"' not in example)
    if is_named and takes:
        return f"it takes the example: {text[:300]}"
    if not is_named and not takes and limit.severity == "warning":
        return f"it does not take the example, and is not named: {shown.verdict} {text[:300]}"
    return ""


def _judge_passer(limit: ClientLimit, shown: Outcome) -> str:
    (tool,) = json.loads(shown.note).values() if shown.verdict == "W" else [None]
    schema: Any = tool["inputSchema"]["json"] if tool is not None and "inputSchema" in tool else tool
    for step in () if schema is None else next(iter(limit.find(limit.example)))[0].split("/")[1:]:
        schema = schema.get(step) if isinstance(schema, dict) else None
    if schema is None:
        return f"it does not pass the example on: {shown.note[:300]}"
    if isinstance(schema, dict) and schema.get("type") == "array" and "items" in schema:
        return "it adds the items itself"
    return ""


def _shorten(shown: Outcome) -> str:
    return f"{shown.verdict} {shown.note[:120]}"
