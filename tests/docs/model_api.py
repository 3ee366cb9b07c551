"""A model's API for pages that ask one: plays a script, and prints the variables that lead clients to it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from toolstead.testing import scripted_models


async def main(script: Path) -> None:
    async with scripted_models(script.read_text("utf-8")) as api:
        print(" ".join(f"{name}={value}" for name, value in api.environ().items()), flush=True)
        await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
