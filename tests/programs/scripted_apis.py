"""The scripted model APIs as a program: plays the script in a file, and says its address on the first line of stdout."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from toolstead.testing import scripted_models


async def main(script: Path) -> None:
    async with scripted_models(script.read_text(encoding="utf-8")) as api:
        print(api.url, flush=True)
        await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
