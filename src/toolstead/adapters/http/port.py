"""The port: bound before anything else starts, with a clear error when that fails."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path

import msgspec

from toolstead.adapters.http.access import LIVE_PATH
from toolstead.adapters.http.options import WILDCARDS, ServerOptions, is_loopback
from toolstead.errors import PortTakenError, ServeError

BACKLOG = 2048
_PROBE = 1.0
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


@asynccontextmanager
async def open_sockets(options: ServerOptions) -> AsyncGenerator[list[socket.socket]]:
    """Bind and listen on every address of the host; close all sockets at the end.

    Raises:
        ServeError: The bind needs a token, the address cannot be used, or the port is taken.
    """
    if not 0 <= options.port <= 65_535:
        raise ServeError(f"server.port: {options.port} is not a port; use 1 to 65535, or 0 for a free one")
    addresses = await _resolve_host(options)
    outside = [address for _, address in addresses if not is_loopback(address)]
    if outside and not options.needs_token:
        raise ServeError(
            f'binding {options.host or outside[0]!r} lets other machines in, so a token is needed: set token = "auto" '
            "(or a secret of your own) under [server], or TOOLSTEAD_TOKEN, or bind 127.0.0.1"
        )
    if outside and (weak := options.find_weak_token()):
        name, why = weak
        auto = 'set token = "auto" under [server], or ' if name == "server.token" else ""
        raise ServeError(
            f"binding {options.host or outside[0]!r} lets other machines in, and {name} {why}, which can be guessed: "
            f"{auto}set {name} to the output of `openssl rand -hex 24`, or bind 127.0.0.1"
        )
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        port = options.port
        for family, address in addresses:
            try:
                bound = opened.enter_context(_bind_socket(family, address, port, alone=len(addresses) == 1))
            except OSError as error:
                if error.errno in _ABSENT and len(addresses) > 1:
                    continue  # `localhost` has an IPv6 address on machines without IPv6, too
                raise await _explain_failure(error, options, port) from error
            sockets.append(bound)
            port = bound.getsockname()[1]
        if not sockets:
            raise ServeError(f"server.host: {options.host!r} has no address that this machine can use")
        yield sockets


def format_address(options: ServerOptions, bound: socket.socket) -> str:
    """The URL to open: the bound host with the real port; for a wildcard, this machine's loopback address."""
    host, port = options.host, bound.getsockname()[1]
    if host in WILDCARDS:
        host = "::1" if bound.family == socket.AF_INET6 and host == "::" else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def format_shared_address(options: ServerOptions, url: str) -> str | None:
    """The URL for other machines; None where they cannot reach the server, or this machine has no network.

    Args:
        options: What the server is bound to.
        url: The URL for this machine.
    """
    if options.host not in WILDCARDS:
        return None if is_loopback(options.host) else url
    address = _find_own_address()
    return None if address is None else f"http://{address}:{url.rpartition(':')[2]}"


def _find_own_address() -> str | None:
    """The address under which this machine reaches others. Connecting a datagram socket chooses it; nothing is sent."""
    for family, other in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):  # for documentation only
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as chosen:
            chosen.connect((other, 9))
            address = str(chosen.getsockname()[0])
            return f"[{address}]" if family == socket.AF_INET6 else address
    return None


async def _resolve_host(options: ServerOptions) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            options.host or None, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ServeError(
            f"server.host: {options.host!r} is neither an address nor a name this machine can resolve ({error})"
        ) from error
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _bind_socket(family: socket.AddressFamily, address: str, port: int, *, alone: bool) -> socket.socket:
    # TCP by name: only then asyncio sends small writes at once, and streamed answers need not wait 40 ms for a client.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not alone:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
        # Listening now and not later: until one of two listens, both may bind.
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


async def _explain_failure(error: OSError, options: ServerOptions, port: int) -> ServeError:
    if error.errno == errno.EADDRINUSE:
        holder = await asyncio.to_thread(_find_holder, "127.0.0.1" if options.host in WILDCARDS else options.host, port)
        return PortTakenError(f"port {port} of {options.host!r} is taken by {holder}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ServeError(f"port {port} needs privileges that this user lacks; choose one above 1023")
    if error.errno in _ABSENT:
        return ServeError(f"server.host: {options.host!r} is not an address of this machine; 127.0.0.1 always is")
    return ServeError(f"port {port} of {options.host!r} cannot be opened: {error.strerror or error}")


def _find_holder(host: str, port: int) -> str:
    """Describe the process that holds a port."""
    return _probe_toolstead(host, port) or _find_process(port) or "another program"


def _probe_toolstead(host: str, port: int) -> str | None:
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=_PROBE)) as connection:
            connection.request("GET", LIVE_PATH)  # which needs no token: a refusal would be in the other's log
            found = msgspec.json.decode(connection.getresponse().read(65_536))
    except (OSError, http.client.HTTPException, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return "a toolstead server" if found == {"status": "live"} else None


def _find_process(port: int) -> str | None:
    """Process and command that listen on a port, from /proc as Linux has it, as far as permissions allow."""
    inodes = {f"socket:[{inode}]" for inode in _list_listening_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(entry.readlink()) in inodes for entry in (folder / "fd").iterdir()):
                command = (folder / "cmdline").read_text("utf-8", "replace").replace("\0", " ").strip()
                return f"process {folder.name} ({command[:80]})"
        except OSError:  # no permission, or the process has ended
            continue
    return None


def _list_listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
