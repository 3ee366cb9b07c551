"""An internet of the test's own: servers on loopback behind public addresses, names, and certificates.

Only the last step is bent: where a connection is made to a public address, it goes to the local
server that stands for it. Everything before, the guard above all, sees the public address.
"""

from __future__ import annotations

import asyncio
import datetime
import inspect
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import Tool
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http import HttpConfig, HttpHandler, load_http
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.registry import Registry
from toolstead.types.result import ToolResult

PUBLIC = "93.184.216.34"
OTHER = "93.184.216.35"


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as a server got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
Script = Callable[[Seen], Reply | Awaitable[Reply]]


def reply(status: str = "200 OK", body: bytes | str = b"", **headers: str) -> bytes:
    """An answer as bytes; `content_type="text/plain"` becomes a header."""
    data = body.encode() if isinstance(body, str) else body
    named = {"content-length": str(len(data))} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return reply(status, location=location)


@dataclass
class Server:
    """Answers by a script, and remembers."""

    script: Script
    port: int = 0
    seen: list[Seen] = field(default_factory=list[Seen])
    connections: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has ended a connection."""

    @property
    def targets(self) -> list[str]:
        return [f"{seen.method} {seen.target}" for seen in self.seen]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            self.gone.set()
        finally:
            self.open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(method, target, headers, body))
        answer = self.script(self.seen[-1])
        if inspect.isawaitable(answer):
            waiting = asyncio.ensure_future(answer)
            hung_up = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({waiting, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if hung_up.done():
                waiting.cancel()
                raise ConnectionResetError
            hung_up.cancel()
            await asyncio.wait({hung_up})
            answer = await waiting
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(writer)


@asynccontextmanager
async def serving(
    script: Script | Reply, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Server]:
    """A server on loopback."""
    server = Server((lambda _: script) if isinstance(script, bytes) else script)  # pyright: ignore[reportArgumentType] - a script
    listener = await asyncio.start_server(server.talk, host, port, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for writer in list(server.open):
            writer.transport.abort()
        async with asyncio.timeout(10):
            await listener.wait_closed()
            while server.open:
                await asyncio.sleep(0)


class Names:
    """A resolver: each name has a list of answers, the last of which stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(turns) for name, turns in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        turns = self.answers.get(host)
        if turns is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return turns.pop(0) if len(turns) > 1 else turns[0]


class Internet:
    """Public addresses that are servers on loopback, or say nothing at all; every connection is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosts: dict[tuple[str, int], int] = {}
        self.silent: set[str] = set()
        self.connected: list[tuple[str, int]] = []
        original = httpcore2.AnyIOBackend.connect_tcp

        async def connect(network: Any, host: str, port: int, *rest: Any, **named: Any) -> Any:
            self.connected.append((host, port))
            if host in self.silent:
                try:
                    await asyncio.wait_for(asyncio.Event().wait(), rest[0])
                except TimeoutError:
                    raise httpcore2.ConnectTimeout from None
            local = self.hosts.get((host, port))
            if local is not None:
                return await original(network, "127.0.0.1", local, *rest, **named)
            assert ipaddress.ip_address(host).is_loopback, f"{host} is not part of this internet"
            return await original(network, host, port, *rest, **named)

        monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)

    def put(self, server: Server, address: str = PUBLIC, port: int = 80) -> None:
        self.hosts[address, port] = server.port


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    return Internet(monkeypatch)


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority of the test's own: contexts for a server of certain names, and for a client that trusts it."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    root: x509.Certificate

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        key = ec.generate_private_key(ec.SECP256R1())
        root = _signed("test authority", key, key, "test authority", authority=True)
        return cls(folder, key, root)

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.root.public_bytes(serialization.Encoding.PEM).decode())

    def server(self, *names: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(names[0], key, self.key, "test authority", names=names)
        file = self.folder / f"{names[0]}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    issuer: str,
    *,
    names: Sequence[str] = (),
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if authority:
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(one) for one in names]), False)
    return builder.sign(by, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


Call = Callable[..., Awaitable[ToolResult]]


def handler_for(
    client: GuardedClient,
    url: str,
    *,
    properties: Sequence[str] = (),
    environ: dict[str, str] | None = None,
    hosts: Sequence[str] = (),
    max_output: int = 262_144,
    sleep: Any = asyncio.sleep,
    **config: Any,
) -> HttpHandler:
    """An http handler; `hosts` are those of `[tools] allowed_hosts`."""
    surroundings = Surroundings(root=Path("/"), environ=environ or {}, allowed_hosts=hosts, max_output=max_output)
    return load_http(
        HttpConfig(url=url, **config), properties=properties, surroundings=surroundings, client=client, sleep=sleep
    )


def tool_for(client: GuardedClient, url: str, **options: Any) -> Call:
    """`await call(name=value)` for an http tool behind registry and dispatcher."""
    handler = handler_for(client, url, **options)
    registry = Registry()
    registry.register(
        Tool(name="t", description="A tool.", handler=handler, timeout=60, max_output=options.get("max_output"))
    )
    dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path("/"))

    async def call(**arguments: Any) -> ToolResult:
        return await dispatcher.call("t", arguments)

    return call
