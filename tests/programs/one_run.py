"""A process that opens a stead and says one thing to a runtime; it is made to be killed in the middle of that.

Given on the command line: the project's folder, the runtime, and those of the runtime's own tools that it may use.
What the stead needs to know of the model API is in the environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from toolstead import Toolstead


async def main(project: Path, runtime: str, own: list[str]) -> None:
    settings = {"runtime": {runtime: {"tools": own}}}
    async with Toolstead(project, environ=dict(os.environ), settings=settings, watch=False) as stead:
        await stead.invoke("begin", runtime=runtime)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
