"""SIGTERM while a plugin holds the event loop: the process ends all the same, and says where it was.

Each takes the ten seconds that the loop is given, so there are few of them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.programs.running import TOOLSTEAD, Wire, running, text_in
from tests.surfaces.test_plugin_shutdown import client_of

PLUGIN = """
import os, pathlib, re, time
from toolstead.plugins.contract import Plugin, Tool


def compute(how):
    if how == "sleeps":
        time.sleep(1000)
    elif how == "matches":
        re.match("(a|a)*b", "a" * 100)
    while True:
        pass


async def hold(ctx, input, meta):
    pathlib.Path(os.environ["BEGAN"]).write_text("yes")
    compute(input["how"])


async def stop(ctx):
    if os.environ.get("STOP_HOLDS"):
        pathlib.Path(os.environ["BEGAN"]).write_text("yes")
        compute("computes")


schema = {"type": "object", "properties": {"how": {"type": "string"}}}
tools = [Tool(name="hold", description="Holds the loop.", handler=hold, schema=schema)]
plugin = Plugin(name="holder", stop=stop, tools=tools)
"""


@pytest.mark.promise("B12")
@pytest.mark.parametrize(
    ("door", "how"),
    [("serve", "computes"), ("serve", "matches"), ("serve", "stop"), ("mcp", "sleeps"), ("tools", "computes")],
)
async def test_a_process_whose_loop_is_held_ends_and_says_where_it_was(
    door: str, how: str, home: Path, tmp_path: Path
) -> None:
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "holder.py").write_text(PLUGIN)
    words = {"serve": ["serve", "--port", "0"], "mcp": ["mcp"]}.get(
        door, ["tools", "call", "holder__hold", f"how={how}"]
    )
    env = {"BEGAN": str(tmp_path / "began"), "STOP_HOLDS": "yes" if how == "stop" else ""}
    async with running([*TOOLSTEAD, *words], errors=tmp_path / "stderr.txt", cwd=tmp_path, env=env) as program:
        calling = None
        if door == "serve":
            client = await client_of(home)
            if how != "stop":
                calling = asyncio.create_task(client.call("holder__hold", {"how": how}))
        elif door == "mcp":
            wire = Wire(program)
            await wire.shake_hands()
            params = {"name": "holder__hold", "arguments": {"how": how}}
            await wire.say({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        if how != "stop":
            assert await text_in(tmp_path / "began") == "yes"
        program.process.terminate()
        assert await program.ended() == 1
        assert "in compute" in program.stderr
        if calling is not None:
            await asyncio.gather(calling, return_exceptions=True)
