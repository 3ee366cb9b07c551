"""`toolstead mcp FILE.py` and `serve FILE.py`: the tools of one Python file, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.programs.running import TOOLSTEAD, Wire, running, text_in, wire_to
from tests.surfaces.rest_server import Client
from tests.waiting import PATIENCE, until
from toolstead.adapters.installing import project_install_command

FILE = '''
from toolstead import Plugin, Tool, tool

print("this is no message")


@tool
def shout(text: str, times: int = 1) -> str:
    """Say it louder."""
    print("neither is this")
    return " ".join([text.upper()] * times)


async def raw(ctx, input, meta):
    return "raw"


@tool
def diary() -> str:
    """Read the diary."""
    return "dear diary"


@tool
def _private() -> str:
    """Not to be seen."""
    return ""


tools = [shout, Tool(name="by-hand", description="Made by hand.", handler=raw)]
plugin = Plugin(name="books", tools=[diary])
'''
SHOUTED = {"content": [{"type": "text", "text": "HI HI"}], "isError": False}


@pytest.fixture
def crowded(home: Path, tmp_path: Path) -> Path:
    """A home and a project with tools of their own, and a file elsewhere."""
    tools = home / ".config" / "toolstead" / "tools"
    tools.mkdir(parents=True)
    handler = {"type": "shell", "command": "true"}
    one = {"name": "mine", "description": "Mine.", "inputSchema": {}, "handler": handler}
    (tools / "mine.json").write_text(json.dumps({"name": "mine", "tools": [one]}))
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir()
    (plugins / "loud.py").write_text("raise RuntimeError('it must not be run')")
    project = tmp_path / "project" / ".toolstead" / "tools"
    project.mkdir(parents=True)
    (project / "theirs.json").write_text("{}")
    file = tmp_path / "elsewhere" / "my_tools.py"
    file.parent.mkdir()
    file.write_text(FILE)
    return file


def run(folder: Path, *words: str, command: Sequence[str] = TOOLSTEAD) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


async def names(wire: Wire, id: str = "list") -> list[str]:
    return [one["name"] for one in (await wire.request(id, "tools/list"))["result"]["tools"]]


async def test_a_files_tools_are_served_over_mcp_under_its_name_and_no_others(crowded: Path, tmp_path: Path) -> None:
    command = [*TOOLSTEAD, "mcp", str(crowded), "--project", str(tmp_path / "project")]
    async with wire_to(command, tmp_path) as wire:
        assert (await wire.shake_hands())["serverInfo"]["name"] == "my_tools"
        assert await names(wire) == ["shout", "by-hand", "books__diary"]
        assert (await wire.call(1, "shout", {"text": "hi", "times": 2}))["result"] == SHOUTED
        wire.close()
        assert await wire.program.ended() == 0
        assert "neither is this" in wire.program.stderr
        assert "this is no message" in wire.program.stderr
        assert not [line for line in wire.program.stderr.splitlines() if "toolstead" in line]


NOISY = """
import asyncio, atexit, sys
from toolstead import tool

print("at import")
atexit.register(print, "at the end")


@tool
def chat() -> str:
    '''Print, without flushing.'''
    print("in a call")
    return "printed"


@tool
async def leave(wait: bool) -> str:
    '''Leave, as a script does.'''
    if wait:
        await asyncio.sleep(0)
    sys.exit(3)
"""


async def test_what_a_file_prints_without_flushing_never_reaches_the_wire_and_is_seen_at_once(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    async with wire_to([*TOOLSTEAD, "mcp", "noisy.py"], tmp_path, env={"PYTHONUNBUFFERED": ""}) as wire:
        await wire.shake_hands()
        assert (await wire.call(1, "chat"))["result"]["content"][0]["text"] == "printed"
        await wire.program.stderr_with("at import\nin a call\n")
        wire.close()
        assert await wire.program.line() == b""
        assert await wire.program.ended() == 0
        assert wire.program.stderr.endswith("in a call\nat the end\n")


async def test_what_a_served_tool_prints_is_in_a_file_at_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    command = [*TOOLSTEAD, "serve", "noisy.py", "--port", "0"]
    with (tmp_path / "out").open("wb") as out:
        async with running(
            command, errors=tmp_path / "log", cwd=tmp_path, env={"PYTHONUNBUFFERED": ""}, stdout=out.fileno()
        ) as program:
            said = await program.stderr_with("docs     http")
            client = Client(said.partition("MCP   ")[2].split()[0].removesuffix("/mcp"))
            await client.call("chat", {})
            client.leave()
    assert (tmp_path / "out").read_text() == "in a call\n"


@pytest.mark.parametrize("wait", [False, True])
async def test_a_tool_that_exits_is_a_crash_of_its_own_and_the_server_goes_on(
    wait: bool, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    async with wire_to([*TOOLSTEAD, "mcp", "noisy.py"], tmp_path) as wire:
        await wire.shake_hands()
        answer = (await wire.call(1, "leave", {"wait": wait}))["result"]
        assert answer["isError"]
        assert answer["content"][0]["text"].startswith("leave crashed (id ")
        assert (await wire.call(2, "chat"))["result"]["content"][0]["text"] == "printed"
        assert "SystemExit: 3" in wire.program.stderr


async def test_a_change_of_the_file_is_taken_in_and_a_bad_one_keeps_the_last_good_tools(tmp_path: Path) -> None:
    file = tmp_path / "my_tools.py"
    file.write_text(FILE)
    async with wire_to([*TOOLSTEAD, "mcp", "my_tools.py"], tmp_path) as wire:
        await wire.shake_hands()
        assert "by-hand" in await names(wire)
        file.write_text(FILE.replace("diary", "journal").replace(", Tool(name=", "]; unused = [0, Tool(name="))
        await until(lambda: listed(wire, ["shout", "books__journal"]))
        file.write_text(FILE + "\nthis is no Python\n")
        await wire.program.stderr_with("its last good tools stay")
        assert "my_tools.py cannot be served: SyntaxError: invalid syntax" in wire.program.stderr
        assert await names(wire) == ["shout", "books__journal"]


TWO = """
from toolstead import tool

@tool
def one() -> str:
    'One.'
    return "1"

@tool
def two() -> str:
    'Two.'
    return "2"
"""


async def test_a_tool_that_became_bad_keeps_its_last_good_version_and_the_log_says_where_once(tmp_path: Path) -> None:
    file = tmp_path / "my_tools.py"
    file.write_text(TWO)
    async with wire_to([*TOOLSTEAD, "mcp", "my_tools.py"], tmp_path) as wire:
        await wire.shake_hands()
        assert await names(wire) == ["one", "two"]
        file.write_text(TWO.replace("    'Two.'\n", ""))
        fault = "my_tools.py:9: tool 'two': description: it has no docstring; write one sentence"
        await wire.program.stderr_with(fault)
        file.write_text(TWO.replace("    'Two.'\n", "").replace("def one", "def three"))
        await until(lambda: listed(wire, ["two", "three"]))
        assert (await wire.call(1, "two"))["result"]["content"][0]["text"] == "2"
        assert wire.program.stderr.count("tool 'two'") == 1
        assert "its last good version stays" in wire.program.stderr
        file.write_text(TWO + "@tool(name='two')\ndef three() -> str:\n    'Three.'\n    return '3'\n")
        await wire.program.stderr_with(
            "my_tools.py:13: tool 'two': name: a second tool is called 'two' (the first is at"
        )


async def test_a_reload_that_leaves_the_list_as_it_is_notifies_no_client(tmp_path: Path) -> None:
    file = tmp_path / "my_tools.py"
    file.write_text(TWO)
    async with wire_to([*TOOLSTEAD, "mcp", "my_tools.py"], tmp_path) as wire:
        await wire.shake_hands()
        assert await names(wire) == ["one", "two"]
        file.write_text(TWO + "this is no Python")
        await wire.program.stderr_with("its last good tools stay")
        file.write_text(TWO.replace('"2"', '"3"'))
        await until(lambda: answers(wire, "two", "3"))
        assert wire.heard == []
        file.write_text(TWO.replace("def two", "def three"))
        await until(lambda: listed(wire, ["one", "three"]))
        await until(lambda: answers(wire, "one", "1") if not wire.heard else True)
        assert [one["method"] for one in wire.heard] == ["notifications/tools/list_changed"]


async def answers(wire: Wire, name: str, text: str) -> bool:
    return (await wire.call("ask", name))["result"]["content"][0]["text"] == text


async def listed(wire: Wire, wanted: list[str]) -> bool:
    return await names(wire) == wanted


async def test_a_file_is_served_over_http_and_does_not_pass_for_the_projects_server(
    crowded: Path, home: Path, tmp_path: Path
) -> None:
    command = [*TOOLSTEAD, "serve", str(crowded), "--port", "0", "--project", str(tmp_path / "project")]
    async with running(command, errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        said = await program.stderr_with("docs     http")
        assert f"toolstead serves 3 tools of {crowded}" in said
        client = Client(said.partition("MCP   ")[2].split()[0].removesuffix("/mcp"))
        reply = await client.call("shout", {"text": "hi", "times": 2})
        client.leave()
        assert reply.json["content"] == SHOUTED["content"]
        listed = await asyncio.to_thread(run, tmp_path, "plugins", "list", "--json", "--project", "project")
        states = {one["name"]: one["state"] for one in json.loads(listed.stdout)["plugins"]}
        assert (states["plan"], states["loud"]) == ("running", "failed")


def test_a_files_tools_are_listed_and_called_in_this_process(crowded: Path, tmp_path: Path) -> None:
    listed = run(tmp_path, "tools", "list", "--json", "--file", str(crowded))
    assert [one["name"] for one in json.loads(listed.stdout)["tools"]] == ["shout", "by-hand", "books__diary"]
    called = run(tmp_path, "tools", "call", "shout", "text=hi", "times=2", "--file", str(crowded))
    assert (called.returncode, called.stdout) == (0, "HI HI\n")
    assert "neither is this" in called.stderr
    refused = run(tmp_path, "tools", "list", "--file", str(crowded), "--url", "http://127.0.0.1:1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "leave out --url, or --file" in refused.stderr


async def test_a_bad_tool_of_a_served_file_is_named_with_its_line_by_every_command(home: Path, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TWO.replace("    'Two.'\n", ""))
    reason = "description: it has no docstring; write one sentence that tells the model what it does"
    async with running(
        [*TOOLSTEAD, "serve", "my_tools.py", "--port", "0"], errors=tmp_path / "log", cwd=tmp_path
    ) as one:
        url = (await one.stderr_with("docs     http")).partition("MCP   ")[2].split()[0].removesuffix("/mcp")
        listed = await asyncio.to_thread(run, tmp_path, "tools", "list", "--url", url)
        assert (listed.returncode, listed.stdout.splitlines()[1].split()[0]) == (0, "one")
        assert f"quarantined: {tmp_path}/my_tools.py:9: tool 'two': {reason}" in listed.stderr
        for word, place in (
            ("reload", "my_tools.py:9: tool 'two'"),
            ("show", "two is not offered: my_tools.py:9"),
            ("call", "two is not offered: my_tools.py:9"),
        ):
            words = ["tools", word, *(["two"] if word != "reload" else []), "--url", url]
            said = await asyncio.to_thread(run, tmp_path, *words)
            assert f"{place}: {reason}" in said.stdout + said.stderr


OWN = """
from toolstead import Toolstead, tool


@tool
def shout() -> str:
    '''Say it louder.'''
    return "LOUD"


stead = Toolstead(name="Ada's tools", instructions="Be loud.", builtin=False, user_tools=False)
"""


async def test_a_file_with_a_stead_of_its_own_is_served_as_that_says(crowded: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    async with wire_to([*TOOLSTEAD, "mcp", "own.py"], tmp_path) as wire:
        hello = await wire.shake_hands()
        assert (hello["serverInfo"]["name"], hello["instructions"]) == ("Ada's tools", "Be loud.")
        assert await names(wire) == ["shout"]
        assert (await wire.call(1, "shout"))["result"]["content"][0]["text"] == "LOUD"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "bad.py does not exist; name a Python file, such as my_tools.py"),
        ("x = (", "bad.py cannot be served: SyntaxError: '(' was never closed (HERE/bad.py:1)"),
        ("\n1 / 0", "bad.py cannot be served: ZeroDivisionError: division by zero (HERE/bad.py:2)"),
        (
            "import not_there",
            (
                "bad.py cannot be served: ModuleNotFoundError: No module named 'not_there' (HERE/bad.py:1); this "
                f"toolstead runs in the environment {sys.prefix}, which has no such module: install toolstead in the "
                f"environment of your project (`{project_install_command()}`), and run the `toolstead` in its bin "
                "folder"
            ),
        ),
        (
            "import asyncio\n\nasync def main():\n    pass\n\nasyncio.run(main())",
            (
                "bad.py cannot be served: bad.py starts a server or loop itself when it is imported (HERE/bad.py:6): "
                'put that under `if __name__ == "__main__":`'
            ),
        ),
        (
            "from toolstead import tool\n\n@tool\ndef f():\n    return 1\n",
            (
                "bad.py cannot be served: tool 'f': description: it has no docstring; write one sentence that tells "
                "the model what it does (HERE/bad.py:3)"
            ),
        ),
        (
            "from toolstead import tool\n\n@tool\ndef f(*rest):\n    '''F.'''\n",
            (
                "bad.py cannot be served: tool 'f': parameter 'rest': arguments come by name, so *args, **kwargs and "
                "positional-only ones cannot be filled (HERE/bad.py:3)"
            ),
        ),
        (
            "from mcp.server.fastmcp import FastMCP",
            (
                "bad.py cannot be served: ModuleNotFoundError: mcp.server.fastmcp (HERE/bad.py:1): Toolstead takes the "
                "place of FastMCP: write `from toolstead import tool`, put @tool above each function, and leave out "
                "`FastMCP(…)` and its `run()`"
            ),
        ),
        (
            "import pydantic.of_another_version",
            (
                "bad.py cannot be served: ModuleNotFoundError: No module named 'pydantic.of_another_version' "
                f"(HERE/bad.py:1); this toolstead runs in the environment {sys.prefix}, whose 'pydantic' has no such "
                "module"
            ),
        ),
        ("import sys\nsys.exit(3)", "bad.py cannot be served: SystemExit: 3 (HERE/bad.py:2)"),
        (
            "answer = 42",
            (
                "bad.py has no tools: put @tool above a function, or make a Tool(…), a Plugin(…) or a Toolstead(…) at "
                "the top level"
            ),
        ),
        (
            OWN + "\ndef plain(): pass\n\ntools = [shout, plain]",
            "bad.py cannot be served: the list 'tools' has the plain function 'plain' in it; put @tool above its `def`",
        ),
        (OWN + "\nanother = Toolstead()", "bad.py has 2 Toolstead objects; keep one at the top level"),
        (
            OWN + "\nfrom toolstead import Plugin\nplugin = Plugin(name='books')",
            "bad.py does not give 'books' to its Toolstead: write Toolstead(plugins=[…])",
        ),
    ],
)
def test_a_file_that_cannot_be_served_is_one_sentence_with_its_line(
    text: str | None, said: str, home: Path, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "bad.py").write_text(text)
    ended = run(tmp_path, "mcp", "bad.py")
    assert ended.stderr == f"toolstead: {said.replace('HERE', str(tmp_path))}\n"
    assert (ended.returncode, ended.stdout) == (2, "")


def test_options_that_a_stead_of_its_own_would_not_see_are_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    ended = run(tmp_path, "serve", "own.py", "--set", "tools.timeout=5")
    assert ended.returncode == 2
    assert ended.stderr.endswith("own.py has a Toolstead of its own, which decides: leave out --project and --set\n")


ENDLESS = """
import os, pathlib, time
from toolstead import tool


@tool(timeout=0.2)
def endless(busy: bool = False) -> str:
    '''Never ends.'''
    pathlib.Path(os.environ["BEGAN"]).write_text("began")
    while True:
        if not busy:
            time.sleep(1000)
"""


@pytest.mark.promise("P7")
@pytest.mark.parametrize("busy", [False, True])
async def test_a_function_that_never_ends_is_given_up_and_sigterm_ends_the_process(
    busy: bool, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    env = {"BEGAN": str(tmp_path / "began")}
    async with wire_to([*TOOLSTEAD, "mcp", "endless.py"], tmp_path, env=env) as wire:
        await wire.shake_hands()
        answer = await wire.call(1, "endless", {"busy": busy})
        assert "did not finish within 0.2 seconds" in answer["result"]["content"][0]["text"]
        assert await text_in(tmp_path / "began") == "began"
        await wire.say({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "endless"}})
        wire.program.process.send_signal(signal.SIGTERM)
        assert await wire.program.ended() == 0
        assert "Traceback" not in wire.program.stderr


PROGRAM = (
    ENDLESS
    + """

async def main():
    from toolstead.testing import memory_stead

    async with memory_stead(endless) as stead:
        print((await stead.call("endless")).text)


import asyncio
asyncio.run(main())
"""
)


def test_a_function_that_never_ends_does_not_hold_up_the_end_of_a_program(home: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "BEGAN": str(tmp_path / "began")},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.stdout.startswith("endless did not finish within 0.2 seconds; it goes on in the background")
    assert ended.returncode == 0


SERVER = """
import asyncio, sys
from toolstead import Toolstead, tool


@tool
def shout(text: str) -> str:
    '''Say it louder.'''
    return text.upper()


async def main() -> None:
    async with Toolstead(name="loud", builtin=False, user_tools=False) as stead:
        stead.registry.register(shout)
        await stead.serve_http(port=int(sys.argv[1]))


asyncio.run(main())
"""


async def test_a_program_says_where_it_listens_and_in_one_sentence_that_its_port_is_taken(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    command = [sys.executable, "server.py"]
    async with running([*command, "0"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        said = await program.stderr_with("\n")
        assert said.startswith("loud serves 1 tool: MCP at http://127.0.0.1:")
        port = said.split()[6].rpartition(":")[2].removesuffix("/mcp,")
        second = await asyncio.to_thread(run, tmp_path, port, command=command)
        third = await asyncio.to_thread(run, tmp_path, "serve", "--port", port)
    taken = f"toolstead: port {port} of '127.0.0.1' is taken by a toolstead server; choose another, or "
    assert (second.returncode, second.stderr) == (1, f"{taken}port=0 for any free one\n")
    assert (third.returncode, third.stderr) == (2, f"{taken}--port 0 for any free one\n")
