"""A real REST server inside the test: real sockets, real tools, and a look at what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from toolstead.adapters.http.application import HttpApplication
from toolstead.adapters.http.asgi import ASGIApp
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.server import serve
from toolstead.adapters.rest.agent_routes import AgentControl
from toolstead.adapters.rest.app import create_app
from toolstead.adapters.rest.console_routes import ConsoleSite
from toolstead.adapters.rest.owner_routes import ExplainSettings, ListSessions
from toolstead.adapters.rest.plugin_routes import PluginControl
from toolstead.adapters.rest.problems import Opened
from toolstead.adapters.rest.task_routes import TaskControl
from toolstead.adapters.rest.tool_file_routes import ToolFileControl
from toolstead.adapters.rest.trust_routes import TrustControl
from toolstead.adapters.rest.vfs_routes import OpenFiles
from toolstead.orchestrator.approvals import Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import Visibility
from toolstead.tools.registry import Registry
from toolstead.tools.sources import ToolSource


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> Any:
        """The problem document, which it must be."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        document = self.json
        assert document["status"] == self.status
        assert {"type", "title", "detail"} <= document.keys()
        return document


@dataclass(slots=True)
class Client:
    """Whoever talks to a server."""

    url: str
    made: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter], kw_only=True)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def connect(self) -> Connection:
        """A connection of one's own."""
        host = self.url.removeprefix("http://").rpartition(":")[0].strip("[]")
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, self.port), PATIENCE)
        self.made.append(writer)
        return Connection(reader, writer, f"127.0.0.1:{self.port}")

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """One request on a connection of its own. A body that is no bytes is sent as JSON."""
        connection = await self.connect()
        try:
            await connection.send(request(method, path, body, headers, host=connection.host))
            return await connection.reply(has_body=method != "HEAD")
        finally:
            await connection.close()

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def call(self, name: str, input: Any = None, **more: Any) -> Reply:
        return await self.ask("POST", f"/api/tools/{name}/call", {"input": input, **more})

    async def raw(self, data: bytes) -> Reply:
        """Exactly these bytes, and the answer to them."""
        connection = await self.connect()
        try:
            await connection.send(data)
            return await connection.reply()
        finally:
            await connection.close()

    async def document(self) -> Any:
        """The OpenAPI document."""
        return (await self.get("/openapi.json")).json

    def leave(self) -> None:
        """Close every connection."""
        for writer in self.made:
            writer.close()


@dataclass(slots=True)
class Live(Client):
    """A running server."""

    app: HttpApplication
    registry: Registry
    dispatcher: Dispatcher
    events: EventLog
    stop: asyncio.Event
    task: asyncio.Task[None]


@dataclass(slots=True)
class Connection:
    """A connection under the test's own hands."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), PATIENCE)

    async def reply(self, *, has_body: bool = True) -> Reply:
        """The next answer, whole."""
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = b""
            if has_body and "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif has_body and headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readline(), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readline()
            return Reply(int(head[0].split()[1]), headers, body)

    async def is_closed(self) -> bool:
        """Whether the server has closed it; what it still sends is read away."""
        async with asyncio.timeout(PATIENCE):
            try:
                while await self.reader.read(65_536):
                    pass
            except ConnectionError:
                return True
        return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


def request(
    method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, host: str = "127.0.0.1"
) -> bytes:
    """A request, as bytes."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    shown = {"host": host, **({} if body is None else {"content-type": "application/json"})}
    if data:
        shown["content-length"] = str(len(data))
    shown |= {name.lower(): value for name, value in (headers or {}).items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in shown.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + data


@asynccontextmanager
async def running(
    *tools: Tool,
    sources: Sequence[ToolSource] = (),
    visibility: Visibility | None = None,
    mcp: ASGIApp | None = None,
    timeout: float = 60,
    grace: float = 10,
    conversations: Opened | None = None,
    plugins: PluginControl | None = None,
    agents: AgentControl | None = None,
    approvals: Approvals | None = None,
    files: OpenFiles | None = None,
    tasks: TaskControl | None = None,
    owner: tuple[ExplainSettings, ListSessions] | None = None,
    trust: TrustControl | None = None,
    tool_files: ToolFileControl | None = None,
    console: Path = Path("no", "console", "here"),
    **options: Any,
) -> AsyncIterator[Live]:
    """A server with these tools, on a free port; in the end it is stopped and has ended well."""
    registry = Registry(sources, visibility=visibility)
    await registry.reload()
    registry.register(*tools)
    events = EventLog()
    dispatcher = Dispatcher(registry, events=events, cwd=Path.cwd(), timeout=timeout)
    chosen = ServerOptions(**{"port": 0, **options})
    app = create_app(
        registry=registry,
        dispatcher=dispatcher,
        options=chosen,
        version="1.2.3",
        mcp=mcp,
        conversations=conversations,
        plugins=plugins,
        agents=agents,
        approvals=approvals,
        files=files,
        tasks=tasks,
        owner=owner,
        trust=trust,
        tool_files=tool_files,
        console=ConsoleSite(folder=console, login="Log in."),
    )
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(serve(app, chosen, on_ready=ready.set_result, stop=stop, grace=grace))
    done, _ = await asyncio.wait([task, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if task in done:
        await task
    live = Live(await ready, app, registry, dispatcher, events, stop, task)
    try:
        yield live
    finally:
        live.leave()
        stop.set()
        await asyncio.wait_for(live.task, PATIENCE)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Whatever happens inside leaves no task and no descriptor behind."""
    gc.collect()
    tasks, descriptors = asyncio.all_tasks(), _descriptors()
    yield
    async with asyncio.timeout(PATIENCE):
        while asyncio.all_tasks() - tasks or _descriptors() > descriptors:
            gc.collect()
            await asyncio.sleep(0.01)


def _descriptors() -> int:
    """Open files, sockets and pipes; devices are not counted, because uvloop keeps one in reserve."""
    count = 0
    for entry in list(Path("/dev/fd").iterdir()):
        try:
            count += not stat.S_ISCHR(os.fstat(int(entry.name)).st_mode)
        except OSError:  # the one that listed the folder
            continue
    return count


def tool(name: str, handler: Any, **more: Any) -> Tool:
    """A tool from `async (input) -> answer`."""

    async def handle(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> Any:
        return await handler(input)

    return Tool(name=name, description=f"The tool {name}.", handler=handle, **more)


async def _say(input: dict[str, Any]) -> str:
    return str(input.get("text", "nothing"))


SAY = tool("say", _say, schema={"type": "object", "properties": {"text": {"type": "string"}}})
