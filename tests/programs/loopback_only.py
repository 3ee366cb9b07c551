"""Every runtime, in a network that has nothing but loopback: what each answers, and which names were looked up.

Run as root, through `unshare --net --mount`. A name server of its own stands where the system looks for one,
writes down every name and finds none. Given on the command line: an empty folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from toolstead import Toolstead
from toolstead.testing import scripted_models

SCRIPT = """
- call: [{tool: workspace-info, input: {}}]
- say: "done: {{result}}"
"""
RUNS = {
    "kernel, Anthropic": ("kernel", "anthropic:claude-sonnet-5-5"),
    "kernel, OpenAI Responses": ("kernel", "openai:gpt-6.1-terra"),
    "kernel, OpenAI Chat": ("kernel", "openai-chat:gpt-6.1-terra"),
    "kernel, Gemini": ("kernel", "google:gemini-3.8-flash"),
    "claude": ("claude", ""),
    "codex": ("codex", "openai:gpt-6.1-sol"),
}
_UP, _GET, _SET = 0x1, 0x8913, 0x8914
"""IFF_UP, SIOCGIFFLAGS, SIOCSIFFLAGS."""


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        flags = struct.unpack("16sH", fcntl.ioctl(asking, _GET, struct.pack("16sH", b"lo", 0))[:18])[1]
        fcntl.ioctl(asking, _SET, struct.pack("16sH", b"lo", flags | _UP))


def serve_names(folder: Path) -> list[str]:
    """A name server that knows no name; the names that it is asked for."""
    asked: list[str] = []
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 53))
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", str(folder / "resolv.conf"), "/etc/resolv.conf"], check=True)

    def answer() -> None:
        while True:
            question, sender = listening.recvfrom(4096)
            asked.append(name_in(question))
            listening.sendto(question[:2] + b"\x81\x83" + question[4:6] + b"\0" * 6 + question[12:], sender)

    threading.Thread(target=answer, daemon=True).start()
    return asked


def name_in(question: bytes) -> str:
    parts, at = [], 12
    while at < len(question) and (length := question[at]):
        parts.append(question[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += length + 1
    return ".".join(parts)


async def ask_everybody(folder: Path) -> dict[str, list[str | None]]:
    (folder / "project" / ".git").mkdir(parents=True)
    ended: dict[str, list[str | None]] = {}
    async with scripted_models(SCRIPT) as api:
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TOOLSTEAD_HOME": str(folder / "home")}
        async with Toolstead(folder / "project", environ=environ | api.environ(), watch=False) as stead:
            for name, (runtime, model) in RUNS.items():
                run = await stead.invoke("go", runtime=runtime, model=model, timeout=250)
                ended[name] = [run.status, run.result, None if run.error is None else run.error.message]
    return ended


def main() -> None:
    folder = Path(sys.argv[1])
    bring_loopback_up()
    asked = serve_names(folder)
    with contextlib.suppress(socket.gaierror):
        socket.getaddrinfo("a-name-that-is-looked-up.example", 443)
    told, asked[:] = list(asked), []
    ended = asyncio.run(ask_everybody(folder))
    interfaces = [name for _, name in socket.if_nameindex()]
    print(json.dumps({"interfaces": interfaces, "told": told, "asked": asked, "ended": ended}))


if __name__ == "__main__":
    main()
