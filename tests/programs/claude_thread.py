"""A process that says one thing in a thread which Claude Code answers in, and tells what came of it.

Given on the command line: the folder, the address of the model API, the message.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from toolstead import Toolstead
from toolstead.adapters.claude.runtime import ClaudeRuntime

THREAD = "shared"


async def talk(folder: Path, url: str, message: str) -> dict[str, object]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TOOLSTEAD_HOME": str(folder / "home")}
    keys = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "scripted"}
    runtime = ClaudeRuntime(
        environ=environ, lookup=keys.get, offered=lambda spec: stead.registry.list_tools(), folder=folder / "claude"
    )
    stead = Toolstead(folder / "project", environ=environ, runtimes=[runtime], watch=False)
    async with stead:
        run = await stead.invoke(message, thread_id=THREAD, runtime="claude")
        thread = await (await stead.conversations()).store.read_thread(THREAD)
    return {"pid": os.getpid(), "status": run.status, "result": run.result, "session": thread.session_id}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(talk(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))))
