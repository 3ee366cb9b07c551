"""Tool files as a person writes them, and what is told while they change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.waiting import PATIENCE
from toolstead import Toolstead
from toolstead.orchestrator.feed import EventReader

DOCUMENT = """{
  "name": "my-tools",
  "version": "1.0.0",
  "tools": [
    {
      "name": "list-todos",
      "description": "Find TODO comments in source code",
      "inputSchema": {
        "type": "object",
        "properties": {
          "pattern": {
            "type": "string",
            "description": "Search pattern (default: TODO)"
          },
          "directory": {
            "type": "string",
            "description": "Directory to search in"
          }
        }
      },
      "handler": {
        "type": "shell",
        "command": "grep -rn '{{pattern}}' {{directory}} || true",
        "timeout": 10000
      }
    },
    {
      "name": "check-api",
      "description": "Check API health endpoint",
      "inputSchema": {
        "type": "object",
        "properties": {
          "url": {
            "type": "string",
            "description": "API URL to check"
          }
        },
        "required": ["url"]
      },
      "handler": {
        "type": "http",
        "url": "{{url}}/health",
        "method": "GET",
        "timeout": 5000
      }
    }
  ]
}
"""
"""The file that the format was designed from, letter for letter."""


def tool(name: str, handler: Mapping[str, Any], properties: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """A tool whose properties are all required, unless `inputSchema` says otherwise."""
    schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    described = {"name": name, "description": f"The tool {name}.", "inputSchema": schema}
    return {**described, "handler": handler, **more}


def shell(name: str, command: str, *texts: str, examples: Any = (), **handler: Any) -> Any:
    """A shell tool whose parameters are required texts."""
    more = {"examples": examples} if examples else {}
    properties = {text: {"type": "string"} for text in texts}
    return tool(name, {"type": "shell", "command": command, **handler}, properties, **more)


def content(*tools: Any, name: str = "mine") -> str:
    return json.dumps({"name": name, "tools": list(tools)}, indent=2)


def write(file: Path, *tools: Any, name: str = "mine") -> Path:
    """Save as editors that are careful do: aside, then renamed into place."""
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(content(*tools, name=name), "utf-8")
    aside.replace(file)
    return file


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncGenerator[Toolstead]:
    """A stead with the tool files of `folder/tools`, in the project `folder`."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    async with Toolstead(folder, tools_dir=tools, **options) as stead:
        yield stead


async def told(events: EventReader, which: Callable[[Mapping[str, Any]], Any] = lambda _: True) -> Mapping[str, Any]:
    """The data of the next event that is waited for; those before it are passed over."""
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if which(event.data):
                return event.data
    raise AssertionError("the events ended")


def stale(stead: Toolstead) -> list[str]:
    return [info.name for info in stead.registry.list_tools() if info.stale]


@asynccontextmanager
async def served(stead: Toolstead, **options: Any) -> AsyncGenerator[str]:
    """The address of a real server of the stead."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(
        stead.serve_http(port=0, on_ready=lambda address: ready.set_result(address.url), stop=stop, **options)
    )
    await asyncio.wait([serving, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield await ready if ready.done() else str(await serving)
    finally:
        stop.set()
        await asyncio.wait_for(serving, PATIENCE)


async def ask(method: str, address: str, body: Any = None) -> Any:
    """What a server answers, as JSON; any status but 200 fails the test."""
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        answer = await client.request(method, address, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()
