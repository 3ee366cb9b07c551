"""`toolstead serve` as a process: what its memory is like once it listens."""

from __future__ import annotations

import json
from pathlib import Path

from tests.programs.running import TOOLSTEAD, running
from tests.surfaces.rest_server import Client
from toolstead.console.cli.invocation import COLLECT_AFTER

PLUGIN = '''
import gc, json
from toolstead import Plugin, tool


class Knot:
    """In a cycle, so that only the collector can free it."""

    def __init__(self):
        self.itself = self


early = Knot()


@tool
async def look() -> str:
    """What the collector of cycles is told."""
    late = Knot()
    walked = {id(thing) for thing in gc.get_objects()}
    return json.dumps({"threshold": gc.get_threshold()[0], "early": id(early) in walked, "late": id(late) in walked})


plugin = Plugin(name="memory", tools=[look])
'''


async def test_the_collector_comes_seldom_and_leaves_alone_what_the_start_made(home: Path, tmp_path: Path) -> None:
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "memory.py").write_text(PLUGIN)
    async with running([*TOOLSTEAD, "serve", "--port", "0"], errors=tmp_path / "serve.txt", cwd=tmp_path) as program:
        said = await program.stderr_with("docs     http")
        client = Client(said.partition("MCP   ")[2].split()[0].removesuffix("/mcp"))
        reply = await client.call("memory__look", {})
        client.leave()
        assert reply.status == 200, reply.body
        told = json.loads(reply.json["content"][0]["text"])
    assert told == {"threshold": COLLECT_AFTER, "early": False, "late": True}
