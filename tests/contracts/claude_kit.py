"""A real Claude Code whose model is a script, for the suite of the runtime port.

The scripted API is served by a thread of its own, so that a runtime can be made without waiting.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from pathlib import Path

from toolstead.adapters.claude.runtime import ClaudeRuntime
from toolstead.testing import scripted_models
from toolstead.types.tool import Provenance, ToolInfo

_PROBE = ToolInfo(
    name="probe",
    description="Probes.",
    provenance=Provenance(source="plugin", origin="tests"),
    input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
)


def scripted_claude(script: str, folder: Path) -> ClaudeRuntime:
    """A runtime that keeps its conversations in the folder."""
    # What Claude Code writes of an interruption stands above the next message, in the same one.
    served = _served(script.replace("when: ^", "when: (?m)^"))
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return ClaudeRuntime(environ=environ, lookup=served.get, offered=lambda spec: [_PROBE], folder=folder / "claude")


@functools.cache
def _served(script: str) -> dict[str, str]:
    """Serve a script as long as the process lives; the variables that lead there."""
    ready, found = threading.Event(), dict[str, str]()

    async def serve() -> None:
        async with scripted_models(script) as models:
            found.update(models.environ())
            ready.set()
            await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True, name="scripted-models").start()
    assert ready.wait(30), "the scripted models are not served"
    return found
