"""Another process that cancels or steers a run: `reach_run.py cancel|steer PROJECT THREAD RUN_OR_TEXT`.

It prints what came of it, and how many seconds that took.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from toolstead import Toolstead
from toolstead.orchestrator.request import RunRequest


async def main(what: str, project: str, thread_id: str, given: str) -> None:
    async with Toolstead(project, watch=False) as stead:
        talk = await stead.conversations()
        began = time.monotonic()
        if what == "cancel":
            outcome: str = (await talk.cancel(given)).status
        else:
            outcome = (await talk.steer(RunRequest(prompt=given, thread_id=thread_id))).run_id
        print(json.dumps([os.getpid(), outcome, time.monotonic() - began]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
