"""A process whose first words to Claude Code, to Codex and to the kernel are said at the same moment.

Workers take turns as often as they can, so that what they import meanwhile is seen in halves if it can be.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from toolyard import Toolyard

SAID = {"claude": "anthropic:claude-sonnet-4-6", "codex": "openai:gpt-6.1-terra", "kernel": "openai:gpt-6.1-terra"}


async def main(project: Path) -> None:
    sys.setswitchinterval(1e-6)
    async with Toolyard(project, environ=dict(os.environ), watch=False) as yard:
        runs = await asyncio.gather(*(yard.invoke("hello", runtime=name, model=model) for name, model in SAID.items()))
        print(json.dumps({run.runtime: [run.status, str(run.error)] for run in runs}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
