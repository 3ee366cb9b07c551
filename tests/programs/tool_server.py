"""A stead with the tools that tests of the MCP door need, served with the public API alone.

Usage: tool_server.py stdio | http | stdio-on-uvloop [--no-fast-path] [KEY=VALUE …]. Over HTTP the first line on
stdout is the address. With `--no-fast-path` the SDK answers everything.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolstead import Plugin, PluginContext, Prompt, Text, Tool, ToolError, ToolMeta, ToolResult, Toolstead, tool
from toolstead.plugins.contract import PromptArgument, Resource
from toolstead.types.content import Audio, EmbeddedResource, Image, ResourceLink
from toolstead.types.tool import Annotations


@tool
async def echo(text: str) -> str:
    """Say it again.

    Args:
        text: What to say.
    """
    return text


@tool
async def fail(text: str) -> str:
    """Fail in a way that was foreseen.

    Args:
        text: What to say about it.
    """
    raise ToolError(text)


def write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


@tool
async def wait(began: str, ended: str) -> str:
    """Wait until somebody ends the call.

    Args:
        began: A file to make once the call runs.
        ended: A file to make when it ends, with the reason in it.
    """
    reason = "finished"
    try:
        write(began, "began")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        reason = "cancelled"
        raise
    finally:
        write(ended, reason)
    return reason


@tool
async def wait_for_child(began: str) -> str:
    """Wait for a child process that never ends by itself.

    Args:
        began: A file to write the child's process id to.
    """
    child = await asyncio.create_subprocess_exec("sleep", "1000")
    try:
        write(began, str(child.pid))
        await child.wait()
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    return "ended"


async def count(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    for number in range(1, input["to"] + 1):
        await meta.report_progress(number, input["to"], f"{number} of {input['to']}")
    return "counted"


async def ask(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    name = {"type": "string", "description": "No UTF-8 holds \ud800."}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    answer = await meta.client.elicit("Who are you? \ud800", schema)
    return ToolResult.of_json(dict(answer))


async def think(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return await meta.client.sample(input["prompt"] + "\ud800", 100)


async def interview(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    """Ask some questions, one after the other or together; what it does is written to a file, line by line."""

    def note(line: str) -> None:
        with Path(input["file"]).open("a", encoding="utf-8") as notes:
            notes.write(line + "\n")

    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    note("began")
    try:
        asked = [meta.client.elicit(question, schema, key=input.get("key")) for question in input["questions"]]
        answers = await asyncio.gather(*asked) if input.get("together") else [await one for one in asked]
    except ToolError as error:
        note(f"refused: {error}")
        raise
    except asyncio.CancelledError:
        note("cancelled")
        raise
    note("ended")
    return ToolResult.of_json([dict(answer) for answer in answers])


async def log(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    for level in ("debug", "info", "error"):
        await meta.client.log(level, f"a line at {level}")
    return "logged"


@tool
async def make_noise() -> str:
    """Write to stdout in every way there is."""
    print("printed")
    sys.stdout.write("written\n")
    sys.stdout.flush()
    os.write(1, b"to the descriptor\n")
    child = await asyncio.create_subprocess_exec("echo", "from a child")
    await child.wait()
    subprocess.run(["echo", "from another child"], check=True)  # noqa: ASYNC221 - blocking is what is tried
    return "made noise"


@tool
async def read_input() -> str:
    """Read from stdin in every way there is."""
    own = await asyncio.to_thread(sys.stdin.read)
    child = await asyncio.create_subprocess_exec("cat", stdout=asyncio.subprocess.PIPE)
    of_child, _ = await child.communicate()
    return repr([own, os.read(0, 100), of_child])


async def half_a_character(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    await meta.report_progress(1, 1, "\ud800")
    await meta.client.log("error", "\ud800")
    held = EmbeddedResource(uri="test://half", content="\ud800", mime_type="text/plain")
    return ToolResult(content=[Text("\ud800"), held], structured={"\ud800": ["\ud800"]})


@tool
async def memory() -> int:
    """The most memory this process has held so far, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


@tool
async def repeat(text: str, times: int) -> str:
    """Say it often.

    Args:
        text: What to say.
        times: How often.
    """
    return text * times


began: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@tool
async def forever(tag: str = "") -> str:
    """Wait until somebody cancels the call.

    Args:
        tag: By which others ask for it.
    """
    began[tag].set()
    try:
        await asyncio.Event().wait()
    finally:
        ended[tag].set()
    return "finished"


@tool
async def forever_began(tag: str) -> str:
    """Wait until a call that waits forever has begun.

    Args:
        tag: Which.
    """
    await began[tag].wait()
    return "it began"


@tool
async def forever_ended(tag: str) -> str:
    """Wait until a call that waits forever has ended.

    Args:
        tag: Which.
    """
    await ended[tag].wait()
    return "it ended"


@tool
async def tidy(began: str, ended: str) -> str:
    """Wait until somebody ends the call, and tidy up, which takes a while.

    Args:
        began: A file to make once the call runs.
        ended: A file to make when it ends, with the number of times that it was cancelled.
    """
    times = 0
    write(began, "began")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        times += 1
        for _ in range(5):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                times += 1
        raise
    finally:
        write(ended, f"cancelled {times} times")
    return "finished"


steps: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))


@tool
async def step(tag: str) -> str:
    """Let a walk go a step on.

    Args:
        tag: Which.
    """
    steps[tag].release()
    return "a step"


async def walk(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    for number in range(1, 4):
        await meta.report_progress(number, 3, None)
        await steps[input["tag"]].acquire()
    return "walked"


@tool
async def crash() -> str:
    """Fail in a way that was not foreseen."""
    raise RuntimeError("not for the model's eyes")


@tool
async def modules() -> str:
    """The top-level names of all that this process has imported."""
    return " ".join(sorted({name.partition(".")[0] for name in sys.modules}))


async def say_back(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    return ToolResult.of_json(input.get("value"))


async def every_part(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    parts = [
        Text("half a character: \ud800; a whole one: \U0001f600\u2028"),
        Image(data=bytes(range(256)), mime_type="image/png"),
        Audio(data=b"", mime_type="audio/wav"),
        ResourceLink(uri="test://link", name="link"),
        ResourceLink(uri="test://link/2", name="link", description="to nothing", mime_type="text/plain"),
        EmbeddedResource(uri="test://text", content="text", mime_type="text/plain"),
        EmbeddedResource(uri="test://bytes", content=b"\x00\xff"),
    ]
    return ToolResult(content=parts, is_error=input.get("is_error", False), structured=input.get("structured"))


async def no_parts(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    return ToolResult(content=())


async def odd_values(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    numbers = [float("nan"), float("inf"), -0.0, 5e-324, 1e22, 10**30, -(2**63), 2**64 - 1, True, None]
    return ToolResult(content=[Text("odd")], structured={"numbers": numbers, "\ud800": "\udfff", "": {"\0": []}})


async def nested(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    value: Any = "inside"
    for _ in range(input["depth"]):
        value = [value]
    return ToolResult(content=[Text("nested")], structured={"value": value})


async def who(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return f"{meta.thread_id} {meta.call_id}"


async def three(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> list[int]:
    return [1, 2, 3]


async def weigh(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> dict[str, Any]:
    return {"grams": input["grams"]}


def shaped_tools() -> list[Tool]:
    """Tools that answer in every shape, and are listed in every shape."""
    grams = {"type": "object", "properties": {"grams": {"type": "number"}}, "required": ["grams"]}
    light = {"type": "object", "properties": {"grams": {"type": "number", "maximum": 10}}, "required": ["grams"]}
    depth = {"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]}
    tagged = {"type": "object", "properties": {"tag": {"type": "string"}}, "required": ["tag"]}
    region = {"type": "string", "x-mcp-header": "Region"}
    headed = {"type": "object", "properties": {"value": region}}
    either = {"type": "object", "anyOf": [{"properties": {"value": {}}, "required": ["value"]}, {"maxProperties": 0}]}
    hints = Annotations(read_only=True, destructive=False, idempotent=None, open_world=False)
    return [
        forever,
        forever_began,
        forever_ended,
        tidy,
        step,
        crash,
        modules,
        Tool(name="walk", description="Three steps.", schema=tagged, handler=walk, progress=True),
        Tool(name="say_back", description="Any JSON.", handler=say_back, title="Say it back"),
        Tool(
            name="every_part", description="Every kind of content: ü \U0001f600.", handler=every_part, annotations=hints
        ),
        Tool(name="no_parts", description="Nothing.", handler=no_parts, annotations=Annotations(read_only=False)),
        Tool(name="odd_values", description="Odd.", handler=odd_values),
        Tool(name="nested", description="Lists in lists.", schema=depth, handler=nested),
        Tool(name="who", description="Who calls?", handler=who),
        Tool(name="either", description="One of two.", schema=either, handler=say_back),
        Tool(name="three", description="One to three.", handler=three, output_schema={"type": "array"}),
        Tool(name="weigh", description="Weigh.", handler=weigh, schema=grams, output_schema=light),
        Tool(name="headed", description="Told in headers, too.", handler=say_back, schema=headed),
        Tool(name="brief", description="In no time.", handler=forever.handler, timeout=0.001),
    ]


def growing_tools(stead: Toolstead) -> list[Tool]:
    """Tools that change the stead they are in."""

    def grown(name: str) -> Tool:
        async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
            return name

        return Tool(name=name, description=f"Says {name}.", handler=handler)

    @tool
    async def grow(name: str) -> str:
        """Register a tool.

        Args:
            name: Its name.
        """
        stead.registry.register(grown(name))
        return name

    @tool
    async def grow_many(prefix: str, count: int, at_once: bool = False) -> str:
        """Register many tools.

        Args:
            prefix: What their names begin with.
            count: How many.
            at_once: All in one change, not one after the other.
        """
        tools = [grown(f"{prefix}{number}") for number in range(count)]
        for some in [tools] if at_once else [[one] for one in tools]:
            stead.registry.register(*some)
            await asyncio.sleep(0)
        return "grown"

    @tool
    async def shrink(name: str) -> str:
        """Unregister the tools whose names begin like this.

        Args:
            name: What their names begin with.
        """
        gone = [tool.name for tool in stead.registry.list_tools() if tool.name.startswith(name)]
        stead.registry.unregister(*gone)
        return name

    return [grow, grow_many, shrink]


def fixed_tools() -> list[Tool]:
    """Tools that only do what their callers want."""
    simple = [echo, fail, wait, wait_for_child, make_noise, read_input, memory, repeat]
    number = {"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]}
    prompt = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
    return [
        *simple,
        Tool(name="count", description="Count, and say how far it is.", schema=number, handler=count, progress=True),
        Tool(name="ask", description="Ask for a name.", handler=ask, interactive=True),
        Tool(
            name="half_a_character",
            description="Say what no UTF-8 can hold.",
            handler=half_a_character,
            progress=True,
            interactive=True,
        ),
        Tool(name="think", description="Let the client think.", schema=prompt, handler=think, interactive=True),
        Tool(
            name="interview",
            description="Ask some questions.",
            handler=interview,
            schema={"type": "object", "required": ["file", "questions"]},
            interactive=True,
        ),
        Tool(name="log", description="Write three log lines.", handler=log, interactive=True),
    ]


async def greet(ctx: PluginContext, arguments: dict[str, str]) -> list[Any]:
    if arguments["who"] == "nobody":
        raise ToolError("there is nobody to greet")
    return [f"Greet {arguments['who']} \ud800.", Image(data=b"png", mime_type="image/png")]


async def find_names(ctx: PluginContext, text: str, given: Any) -> list[str]:
    return [f"{text}{number}" for number in range(150)]


async def read_note(ctx: PluginContext, variables: Any) -> str:
    return f"a note {dict(variables)} \ud800"


async def read_dots(ctx: PluginContext, variables: Any) -> bytes:
    return bytes(range(256))


async def crash_part(ctx: PluginContext, given: Any) -> str:
    raise RuntimeError("not for clients")


PARTS = Plugin(
    name="parts",
    version="1",
    instructions='Say "please" \U0001f600.',
    prompts=[
        Prompt(
            name="greet",
            title="Greet",
            description="Greets somebody: ü \U0001f600.",
            arguments=[
                PromptArgument(name="who", description="Whom.", required=True, values=["ann", "anton", "bob"]),
                PromptArgument(name="how", title="How", complete=find_names),
            ],
            handler=greet,
        ),
        Prompt(name="crash", handler=crash_part),
    ],
    resources=[
        Resource(uri="test://note", name="note", read=read_note, description="A note.", mime_type="text/plain"),
        Resource(uri="test://dots", name="dots", title="Dots", read=read_dots),
        Resource(uri="test://crash", name="crash", read=crash_part),
        Resource(uri="test://notes/{year}/{name}", name="notes", read=read_note, complete={"year": find_names}),
    ],
)
"""What MCP clients are offered besides tools."""

ICON = "https://example.org/icon.png"
MCP_SETTINGS = {"title": "Tools for tests: ü", "instructions": "Use the tools.", "icon": ICON}


def serving_stead(overrides: list[str] | None = None) -> Toolstead:
    """A stead with everything but the tools."""
    return Toolstead(overrides=overrides or [], plugins=[PARTS], settings={"mcp": MCP_SETTINGS})


async def main(door: str, overrides: list[str], *, fast_path: bool) -> None:
    async with serving_stead(overrides) as stead:
        stead.registry.register(*fixed_tools(), *shaped_tools(), *growing_tools(stead))
        if door == "http":
            await stead.serve_http(port=0, on_ready=lambda address: print(address.url, flush=True), fast_path=fast_path)
            return
        serving = asyncio.ensure_future(stead.serve_stdio(fast_path=fast_path))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving


if __name__ == "__main__":
    import uvloop

    factory = uvloop.new_event_loop if sys.argv[1] == "stdio-on-uvloop" else None
    given = [argument for argument in sys.argv[2:] if argument != "--no-fast-path"]
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(sys.argv[1], given, fast_path="--no-fast-path" not in sys.argv))
