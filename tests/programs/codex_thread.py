"""One turn in a Codex thread, in a process of its own: `codex_thread.py FOLDER PROMPT [ID]`; tells what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from toolstead.adapters.codex.runtime import CodexRuntime
from toolstead.errors import SessionLostError
from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult


async def main(folder: Path, prompt: str, resume: str) -> None:
    runtime = CodexRuntime(offered=lambda spec: [], folder=folder, lookup=os.environ.get)
    spec = SessionSpec(agent="main", model="gpt-6.1-sol", cwd=folder)
    folder.mkdir(exist_ok=True)
    try:
        session = await runtime.open(spec, thread_id="t", resume=resume or None)
    except SessionLostError as error:
        print(json.dumps({"lost": str(error)}))
        return

    async def call(name: str, input: object, *, call_id: str | None = None) -> ToolResult:
        return ToolResult.error("there are no tools here")

    answer = await session.run(
        Turn(prompt=prompt, caller=Caller(thread_id="t"), tell=lambda kind, data: None, call_tool=call)
    )
    told = {"text": answer.text, "id": session.id, "resumed": session.is_resumed, "pid": os.getpid()}
    await session.close()
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
