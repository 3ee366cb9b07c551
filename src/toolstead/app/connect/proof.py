"""The proof of a connection: what a client will start, or reach, is asked for its tools, as the client will ask.

A handshake of its own, because that of the SDK costs a second, and these are four messages.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolstead.app.connect.target import Target
from toolstead.app.version import VERSION
from toolstead.errors import ProofError
from toolstead.processes.piped import PipedProcess

SECONDS = 60.0
"""How long a server may take for everything."""
PROTOCOL = "2025-11-25"
_LONGEST_LINE = 64 << 20
_MOST_PAGES = 1000
_FEW = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "TERM", "TMPDIR", "TZ"})
"""What Codex gives a server of its environment; a program with windows may have no more."""

Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends a message, and gives the result of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What answered.

    Attributes:
        server: What the server calls itself.
        tools: The names of its tools.
        seconds: How long it took, from its start.
    """

    server: str
    tools: tuple[str, ...]
    seconds: float


async def prove_target(target: Target, *, folder: Path, whole: bool, environ: Mapping[str, str] | None = None) -> Proof:
    """Start or reach a target, and list its tools.

    Args:
        target: What a client's configuration says.
        folder: Where a program is started.
        whole: It gets the whole environment; else only what every client passes on.
        environ: The environment; this process's own unless given.

    Raises:
        ProofError: It does not answer with tools.
    """
    environ = os.environ if environ is None else environ
    begin = time.monotonic()
    try:
        async with asyncio.timeout(SECONDS):
            if target.url:
                server, tools = await _ask_url(target, environ)
            else:
                server, tools = await _ask_program(target, folder, environ, whole=whole)
    except TimeoutError:
        raise ProofError(f"{target.describe()} did not list its tools within {SECONDS:g} seconds") from None
    return Proof(server=server, tools=tuple(tools), seconds=time.monotonic() - begin)


async def _list_tools(send: Send) -> tuple[str, list[str]]:
    params: dict[str, Any] = {
        "protocolVersion": PROTOCOL,
        "capabilities": {},
        "clientInfo": {"name": "toolstead-connect", "version": VERSION},
    }
    opened = await send({"id": 0, "method": "initialize", "params": params})
    await send({"method": "notifications/initialized"})
    names: list[str] = []
    cursor: Any = None
    for number in range(1, _MOST_PAGES):
        asked = {"id": number, "method": "tools/list", "params": {"cursor": cursor} if cursor else {}}
        page = await send(asked)
        names += [str(tool["name"]) for tool in page["tools"]]
        cursor = page.get("nextCursor")
        if not cursor:
            break
    info: Mapping[str, Any] = opened.get("serverInfo") or {}
    return str(info.get("name", "")), names


async def _ask_program(
    target: Target, folder: Path, environ: Mapping[str, str], *, whole: bool
) -> tuple[str, list[str]]:
    few = _FEW.union(target.passed)
    given = {name: value for name, value in environ.items() if whole or name in few or name.startswith("LC_")}
    try:
        process = PipedProcess(target.command, cwd=folder, env={**given, **target.environ}, longest_line=_LONGEST_LINE)
    except OSError as error:
        raise ProofError(f"{target.command[0]} cannot be started: {error.strerror or error}") from None
    asked: list[str] = []

    async def send(message: dict[str, Any]) -> Any:
        asked.append(message["method"])
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        while "id" in message:
            line = await process.stdout.readline()
            if not line:
                raise ProofError(_describe_end(target, process))
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == message["id"] and "method" not in answer:
                return _take_result(answer, message["method"])
        return None

    try:
        return await _list_tools(send)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProofError(f"{target.describe()} does not speak MCP: {error!r} after {asked[-1]}") from None
    except TimeoutError:
        said = _last_words(process)
        raise ProofError(f"{target.describe()} did not answer {asked[-1]} in time{said}") from None
    finally:
        await process.end_process(2.0, terminate=True)


async def _ask_url(target: Target, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    import httpx2

    token = environ.get(target.token_env, "") if target.token_env else ""
    if target.token_env and not token:
        raise ProofError(
            f"the environment variable {target.token_env} is not set here, so {target.url} could not be asked;"
            f" set it (export {target.token_env}=…), for the client too"
        )
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    # A token goes to the address it is for, and nowhere else: no redirects.
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, follow_redirects=False) as client:

        async def send(message: dict[str, Any]) -> Any:
            content = json.dumps({"jsonrpc": "2.0", **message})
            response = await client.post(target.url, content=content)
            if response.status_code >= 300:
                raise ProofError(_describe_refusal(target, response.status_code, response.headers, response.text))
            if session := response.headers.get("mcp-session-id"):
                client.headers["mcp-session-id"] = session
            if "id" not in message:
                return None
            client.headers["mcp-protocol-version"] = PROTOCOL
            return _take_result(_find_answer(response.text, message["id"]), message["method"])

        try:
            found = await _list_tools(send)
            if "mcp-session-id" in client.headers:
                await client.delete(target.url)
        except httpx2.HTTPError as error:
            host = urlsplit(target.url).netloc
            if "WRONG_VERSION_NUMBER" in str(error):
                raise ProofError(
                    f"{host} answers, but speaks http and not https; write http:// in its address"
                ) from None
            raise ProofError(
                f"{host} cannot be reached: {error or type(error).__name__}; see that the server runs, and that"
                " this is its address"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProofError(
                f"{target.url} is no MCP endpoint: its answer is not one; Toolstead's ends in /mcp"
            ) from None
    return found


def _find_answer(body: str, id: int) -> dict[str, Any]:
    """The answer in a body that is JSON, or a stream of events."""
    if not body.lstrip().startswith("{"):
        for line in body.splitlines():
            if line.startswith("data:") and line[5:].strip():
                answer = json.loads(line[5:])
                if answer.get("id") == id:
                    return answer
    return json.loads(body)


def _take_result(answer: dict[str, Any], method: str) -> Any:
    if "error" in answer:
        raise ProofError(f"the server refused {method}: {answer['error'].get('message', answer['error'])}")
    return answer["result"]


def _find_unknown_profile(body: str) -> str:
    """What a Toolstead server says of a profile that it does not have; empty for any other answer."""
    try:
        problem = json.loads(body)
        return str(problem["detail"]) if str(problem["type"]).endswith("unknown-profile") else ""
    except (ValueError, KeyError, TypeError):
        return ""


def _describe_refusal(target: Target, status: int, headers: Mapping[str, str], body: str) -> str:
    location = headers.get("location", "")
    match status:
        case 401 if not target.token_env and "resource_metadata" in headers.get("www-authenticate", ""):
            return (
                f"{target.url} wants a sign-in (OAuth), which the client itself does: connect with --no-check, and sign"
                " in there. Or name the variable of a token: --token-env TEAM_TOKEN"
            )
        case 401 | 403 if target.token_env:
            return f"{target.url} does not accept the token in {target.token_env} (HTTP {status})"
        case 401 | 403:
            return (
                f"{target.url} wants a token (HTTP {status}): put it into an environment variable, and name that"
                " variable: --token-env TEAM_TOKEN"
            )
        case 404 if detail := _find_unknown_profile(body):
            return f"{target.url}: {detail}"
        case 404 | 405:
            return f"{target.url} is no MCP endpoint (HTTP {status}); Toolstead's ends in /mcp"
        case _ if location:
            return f"{target.url} leads to {location} (HTTP {status}); give that address, if it is the right one"
        case _:
            return f"{target.url} answered with HTTP {status}"


def _describe_end(target: Target, process: PipedProcess) -> str:
    return f"{target.describe()} ended without an answer{_last_words(process)}"


def _last_words(process: PipedProcess) -> str:
    lines = process.read_last_lines()[-3:]
    if lines and lines[-1].startswith("toolstead: "):  # our own reason; warnings before it have another
        lines = lines[-1:]
    return f"; it said: {' / '.join(lines)}" if lines else ""
