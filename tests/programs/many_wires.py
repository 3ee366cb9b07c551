"""The stdio door of one stead for many clients: two sockets each, one to read from and one to write to.

A process for each conversation would cost a start each; this is one process for thousands of messages.

Usage: many_wires.py [--no-fast-path]. The first line on stdout is the port.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from functools import partial

from tool_server import fixed_tools, serving_stead, shaped_tools

from toolstead import Toolstead
from toolstead.adapters.mcp.stdio import StdioConnection
from toolstead.app import serving

LIMIT = 1 << 20


async def converse(stead: Toolstead, reads: socket.socket, writes: socket.socket, *, fast_path: bool) -> None:
    """One client, until it closes what is read."""
    with reads, writes:
        create_server = partial(serving.create_server, stead._parts, "default", client_thread="mcp_test")
        shared = serving.create_fast_path(stead._parts, "mcp_test") if fast_path else None
        await StdioConnection(create_server, shared, (reads.fileno(), writes.fileno()), max_message=LIMIT).run()


async def main(*, fast_path: bool) -> None:
    loop = asyncio.get_running_loop()
    async with serving_stead() as stead, asyncio.TaskGroup() as tasks:
        stead.registry.register(*fixed_tools(), *shaped_tools())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            print(listener.getsockname()[1], flush=True)
            while True:
                reads, _ = await loop.sock_accept(listener)
                writes, _ = await loop.sock_accept(listener)
                writes.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                tasks.create_task(converse(stead, reads, writes, fast_path=fast_path))


if __name__ == "__main__":
    asyncio.run(main(fast_path="--no-fast-path" not in sys.argv))
