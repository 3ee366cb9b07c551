"""A stage for one client: an empty home with the fixtures, and this project's server, over stdio or over HTTP."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import machine
from tests.programs.running import TOOLSTEAD, running

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a client meets the server.

    Attributes:
        transport: `stdio` or `http`.
        home: The home folder of the server and of the client.
        project: An empty project inside it.
        command: What starts the server on stdio.
        url: Its address over HTTP, empty on stdio.
    """

    transport: str
    home: Path
    project: Path
    command: Sequence[str]
    url: str

    @property
    def environ(self) -> dict[str, str]:
        """The environment of everything on this stage."""
        kept = {name: machine.ENVIRONMENT[name] for name in ("PATH", "LANG", "TERM") if name in machine.ENVIRONMENT}
        return {**kept, "HOME": str(self.home), "NO_PROXY": "127.0.0.1,localhost", "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def log(self) -> str:
        """What the tools have noted so far."""
        try:
            return (self.home / "lab.log").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def to_json(self, **more: Any) -> dict[str, Any]:
        """What a driver is told."""
        return {
            "transport": self.transport,
            "command": list(self.command),
            "url": self.url,
            "environ": self.environ,
            "home": str(self.home),
            "project": str(self.project),
            "log": str(self.home / "lab.log"),
            "hot": [str(self.home / "hot.json"), str(self.home / ".config" / "toolstead" / "tools" / "hot.json")],
            **more,
        }


@asynccontextmanager
async def open_stage(
    folder: Path, transport: str, *, blocked: Sequence[str] = (), only: str | None = None
) -> AsyncIterator[Stage]:
    """Make a home and, for HTTP, start the server; in the end it is gone.

    Args:
        folder: Where the home is made; what was there is removed.
        transport: `stdio` or `http`.
        blocked: Tools that the server must not offer.
        only: A tool file to offer instead of everything else.
    """
    shutil.rmtree(folder, ignore_errors=True)
    config = folder / ".config" / "toolstead"
    project = folder / "project"
    for made in (config / "tools", config / "plugins", project):
        made.mkdir(parents=True)
    settings = f"tools.blocked = {json.dumps(list(blocked))}\n"
    if only is None:
        shutil.copy(FIXTURES / "lab.py", config / "plugins")
        shutil.copy(FIXTURES / "words.json", config / "tools")
        shutil.copy(FIXTURES / "hot.json", folder)
    else:
        (config / "tools" / "only.json").write_text(only, encoding="utf-8")
        settings += 'tools.allowed = ["only"]\n'
    (config / "config.toml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "toolstead", "mcp", "--project", str(project)]
    stage = Stage(transport=transport, home=folder, project=project, command=command, url="")
    if transport == "stdio":
        yield stage
        return
    serve = [*TOOLSTEAD, "serve", "--port", "0", "--project", str(project)]
    errors = folder / "server.txt"
    async with running(serve, errors=errors, cwd=project, env=stage.environ) as program:
        said = await program.stderr_with("MCP      http")
        url = said.partition("MCP   ")[2].split()[0]
        yield Stage(transport=transport, home=folder, project=project, command=command, url=url)
