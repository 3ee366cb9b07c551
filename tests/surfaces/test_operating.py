"""What those who operate a server look at: its log, its probes, its numbers, and what it prints at its start."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import TOOLSTEAD, ModernWire, Program, modern_meta, running, wire_to
from tests.surfaces.rest_server import Client
from tests.waiting import PATIENCE, until

TOKEN = "a-token-of-many-letters"
PLUGIN = """
from toolstead import Plugin, tool


@tool
async def add(a: int, b: int) -> str:
    '''Add two numbers.'''
    return str(a + b)


@tool
async def burst() -> str:
    '''Crash.'''
    raise RuntimeError("one line\\nand another")


plugin = Plugin(name="sums", tools=[add, burst])
"""
TIMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) +toolstead[\w.]*: ")


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "sums.py").write_text(PLUGIN)
    project = tmp_path / "project"
    project.mkdir()
    return project


@asynccontextmanager
async def serving(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Program, Client]]:
    """A real `toolstead serve`; its address is that of this machine."""
    command = [*TOOLSTEAD, "serve", "--port", "0", *words]
    async with running(command, errors=folder / "serve.txt", cwd=folder, env=env) as program:
        said = await until(lambda: program.stderr if re.search(r"(docs     |at )http://\S+", program.stderr) else "")
        found = re.search(r"http://[\w.]+:(\d+)", said)
        assert found, said
        client = Client(f"http://127.0.0.1:{found[1]}")
        yield program, client
        client.leave()


def call_message(name: str, arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": modern_meta()}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def call_over_mcp(client: Client, name: str, arguments: Any) -> None:
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    reply = await client.ask("POST", "/mcp", call_message(name, arguments), headers)
    assert reply.status == 200, reply.body


@pytest.mark.parametrize("words", [(), ("--no-fast-path",)], ids=["fast path", "SDK"])
async def test_with_v_every_call_is_one_line_with_its_outcome_and_its_caller(folder: Path, words: Any) -> None:
    async with serving(folder, "-v", *words) as (program, client):
        await client.call("sums__add", {"a": 1, "b": 2}, threadId="talk")
        await call_over_mcp(client, "sums__add", {"a": "x"})
        said = await program.stderr_with("sums__add invalid_arguments in")
    lines = [line for line in said.splitlines() if " toolstead.calls: " in line]
    assert all(TIMED.match(line) for line in lines)
    by_rest, by_mcp = lines
    assert re.search(r"INFO    toolstead\.calls: sums__add ok in [\d.]+ ms transport=rest thread=talk$", by_rest)
    assert re.search(r"sums__add invalid_arguments in [\d.]+ ms transport=mcp client=test thread=default$", by_mcp)


async def test_without_v_no_call_is_logged_and_a_record_of_many_lines_is_seen_as_one(folder: Path) -> None:
    async with serving(folder) as (program, client):
        await client.call("sums__add", {"a": 1, "b": 2})
        await client.call("sums__burst", {})
        said = await program.stderr_with("failed (crash)")
    assert "toolstead.calls" not in said
    log = said.partition("docs     http")[2].splitlines()[1:]
    assert "    and another" in log
    assert all(TIMED.match(line) or line.startswith("    ") for line in log), said


async def test_a_log_in_json_has_one_object_a_line_from_the_start_to_the_crash(folder: Path) -> None:
    secret = "correct-horse-battery"
    tool = {
        "name": "leak",
        "description": "Fails with its secret.",
        "inputSchema": {"type": "object", "properties": {}},
        "handler": {"type": "shell", "command": "sh -c 'echo $KEY; exit 3'", "env": {"KEY": "${LEAKY_KEY}"}},
    }
    tools = folder / "tools"
    tools.mkdir()
    (tools / "leak.json").write_text(json.dumps({"name": "leak", "tools": [tool]}))
    environ = {"LEAKY_KEY": secret, "TOOLSTEAD_TOOLS_DIR": str(tools)}
    async with serving(folder, "--log-format", "json", "-v", env=environ) as (program, client):
        await client.call("sums__add", {"a": 1, "b": 2}, threadId="talk")
        await client.call("sums__burst", {})
        leaked = await client.call("leak", {})
        assert leaked.json["isError"], leaked.body
        said = await program.stderr_with('"tool": "leak"')
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    [ready] = [line for line in lines if "url" in line]
    assert (ready["level"], ready["url"]) == ("info", client.url)
    call = next(line for line in lines if line.get("tool") == "sums__add")
    about = {key: call[key] for key in ("level", "logger", "outcome", "transport", "thread")}
    assert about == {
        "level": "info",
        "logger": "toolstead.calls",
        "outcome": "ok",
        "transport": "rest",
        "thread": "talk",
    }
    crash = next(line for line in lines if "exception" in line)
    assert crash["level"] == "error"
    assert crash["exception"].endswith("RuntimeError: one line\nand another")
    assert "exit status 3" in said
    assert secret not in said


async def test_a_server_that_cannot_start_says_so_in_json_where_its_log_is_json(folder: Path) -> None:
    command = [*TOOLSTEAD, "serve", "--host", "0.0.0.0", "--port", "0", "--log-format", "json"]
    async with running(command, errors=folder / "serve.txt", cwd=folder) as program:
        assert await program.ended() == 2
        [line] = map(json.loads, program.stderr.splitlines())
    assert line["level"] == "critical"
    assert "a token is needed" in line["message"]


async def test_mcp_on_stdio_logs_its_calls_too(folder: Path) -> None:
    command = [*TOOLSTEAD, "mcp", "-v", "--log-format", "json"]
    async with wire_to(command, folder) as wire:
        answer = await ModernWire(wire.program).call(1, "sums__add", {"a": 1, "b": 2})
        assert answer["result"]["isError"] is False
        said = await wire.program.stderr_with("sums__add")
    [call] = [line for line in map(json.loads, said.splitlines()) if line.get("tool") == "sums__add"]
    assert (call["outcome"], call["transport"], call["client"]) == ("ok", "mcp", "test")


async def test_probes_need_no_token_and_no_name_but_everything_else_does(folder: Path) -> None:
    async with serving(folder, "--host", "0.0.0.0", env={"TOOLSTEAD_TOKEN": TOKEN}) as (_, client):
        for path, status in (("/livez", "live"), ("/readyz", "ready")):
            for host in (f"127.0.0.1:{client.port}", "10.42.0.7:8420", "[fd00::7]:8420"):
                reply = await client.get(path, host=host)
                assert (reply.status, reply.json) == (200, {"status": status})
            assert (await client.ask("HEAD", path)).status == 200
            assert (await client.get(path, host="rebound.example")).status == 421
            assert (await client.ask("POST", path)).status == 401
        assert (await client.get("/metrics")).status == 401
        assert (await client.get("/api/health")).status == 401
        assert (await client.get("/metrics", authorization=f"Bearer {TOKEN}")).status == 200


async def test_a_bind_to_one_address_answers_probes_of_its_other_addresses_and_nothing_else(folder: Path) -> None:
    async with serving(folder, "--host", "localhost") as (_, client):
        assert (await client.get("/livez", host="10.42.0.7:8420")).status == 200
        assert (await client.get("/api/health", host="10.42.0.7:8420")).status == 421


async def test_a_server_without_its_database_lives_and_is_not_ready(folder: Path) -> None:
    nowhere = "postgresql://nobody:hush-hush@127.0.0.1:9/none"
    async with serving(folder, env={"TOOLSTEAD_DATABASE_URL": nowhere}) as (program, client):
        assert (await client.get("/livez")).status == 200
        reply = await client.get("/readyz")
        assert reply.status == 503
        assert reply.problem["detail"] == "The database does not answer; the server's log says more."
        said = await program.stderr_with("not ready: the database does not answer")
        assert (await client.call("sums__add", {"a": 1, "b": 2})).status == 200
    assert "hush-hush" not in said


async def test_prometheus_finds_calls_runs_and_the_process(folder: Path) -> None:
    (folder / "script.yaml").write_text("- say: Hello\n")
    async with serving(folder, "--set", "runtime.scripted.script=script.yaml") as (_, client):
        assert (await client.get("/readyz")).status == 200  # threads and runs are open now
        for arguments in ({"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": "x"}):
            await client.call("sums__add", arguments)
        await call_over_mcp(client, "sums__add", {"a": 5, "b": 6})
        for name in ("no-such-tool", "nor-this"):
            await client.call(name)
        run = (await client.ask("POST", "/api/runs", {"prompt": "hi"})).json["runId"]
        await client.get(f"/api/runs/{run}/events")  # ends with the run
        ended = 'toolstead_runs_ended_total{status="completed",runtime="scripted"}'

        async def read() -> dict[str, float]:
            reply = await client.get("/metrics")
            assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            return read_exposition(reply.body.decode())

        numbers = await read()
        while ended not in numbers:
            numbers = await read()
    calls = "toolstead_tool_calls_total"
    assert numbers[f'{calls}{{tool="sums__add",outcome="ok"}}'] == 3
    assert numbers[f'{calls}{{tool="sums__add",outcome="invalid_arguments"}}'] == 1
    assert numbers[f'{calls}{{tool="(unknown)",outcome="unknown_tool"}}'] == 2
    assert not any("no-such-tool" in name for name in numbers), "names that callers invent make no series"
    assert numbers['toolstead_tool_call_duration_seconds_count{tool="sums__add"}'] == 4
    assert numbers[ended] == 1
    assert numbers['toolstead_runs{status="running"}'] == 0
    assert numbers["toolstead_approvals_waiting"] == 0
    assert numbers["toolstead_http_requests_in_flight"] >= 1
    assert numbers["process_cpu_seconds_total"] > 0


SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def read_exposition(text: str) -> dict[str, float]:
    """Every sample of the text format 0.0.4, read as strictly as it is described."""
    numbers: dict[str, float] = {}
    kinds: dict[str, str] = {}
    name = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in kinds, f"{name} comes twice"
        elif line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            assert typed == name
            assert kind in {"counter", "gauge", "histogram"}
            assert kind != "counter" or name.endswith("_total")
            kinds[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            suffixes = ("_bucket", "_sum", "_count") if kinds[name] == "histogram" else ("",)
            assert found[1] in {name + suffix for suffix in suffixes}, line
            key = line.rpartition(" ")[0]
            assert key not in numbers, f"{key} comes twice"
            numbers[key] = float(found[3])
            assert not math.isnan(numbers[key])
    for key, count in numbers.items():
        if "_count{" in key and f"{kinds.get(key.partition('_count{')[0])}" == "histogram":
            head, _, labels = key.partition("_count{")
            buckets = [value for one, value in numbers.items() if one.startswith(f"{head}_bucket{{{labels[:-1]},")]
            assert buckets == sorted(buckets)
            assert buckets[-1] == count
    return numbers


async def test_the_log_says_who_was_refused_and_why_a_few_times_for_each_peer(folder: Path) -> None:
    async with serving(folder, "--log-format", "json", env={"TOOLSTEAD_TOKEN": TOKEN}) as (program, client):
        for shown in ({}, {"authorization": "Bearer not-this-one"}, {"authorization": f"Basic {TOKEN}"}):
            assert (await client.get("/api/tools", **shown)).status == 401
        assert (await client.ask("POST", "/api/tools/reload?token=guess", {})).status == 401
        for _ in range(20):
            assert (await client.get("/api/agents")).status == 401
        await client.get("/api/health", authorization=f"Bearer {TOKEN}")
        lines = [json.loads(line) for line in program.stderr.splitlines() if "refused" in line]
    asked = [(line["peer"], line["method"], line["path"], line["status"], line["reason"]) for line in lines]
    assert asked[:4] == [
        ("127.0.0.1", "GET", "/api/tools", 401, "no token"),
        ("127.0.0.1", "GET", "/api/tools", 401, "a wrong token"),
        ("127.0.0.1", "GET", "/api/tools", 401, "a header Authorization that is no `Bearer TOKEN`"),
        ("127.0.0.1", "POST", "/api/tools/reload", 401, "a wrong token in the URL"),
    ]
    assert len(asked) == 10
    assert lines[0]["message"] == "refused GET '/api/tools' of 127.0.0.1 with 401: no token"


@pytest.mark.parametrize("words", [(), ("--log-format", "json")])
async def test_a_token_that_was_made_is_in_server_json_and_in_no_log_and_a_clean_end_is_in_the_log(
    folder: Path, words: tuple[str, ...]
) -> None:
    async with serving(folder, *words, "--set", "server.token='auto'") as (program, client):
        said = await program.stderr_with("made_token in ")
        (place,) = re.findall(r"made_token in (\S+server\.json)", said)
        (entries,) = json.loads(Path(place).read_text("utf-8")).values()
        token = entries[0]["made_token"]
        assert len(token) > 30
        assert (await client.get("/api/tools", authorization=f"Bearer {token}")).status == 200
        program.process.terminate()
        assert await program.ended() == 0
    assert token not in program.stderr
    assert entries[0]["token"] not in program.stderr
    assert re.search(r"stopping: 0 requests have up to 10 seconds", program.stderr)
    assert "stopped" in program.stderr.splitlines()[-1]


async def test_a_profile_that_no_client_can_open_is_marked_where_its_address_is_shown(folder: Path) -> None:
    profiles = ("--set", "profiles.closed.allowed=['git-*']", "--set", "profiles.open.token='a-token-of-its-own'")
    async with serving(folder, *profiles) as (program, _):
        closed, opened = re.findall(r"/mcp/(\w+)(.*)", program.stderr)
        assert closed == ("closed", "  (closed to clients: set profiles.closed.token or server.token)")
        assert opened == ("open", "")


async def test_a_shared_server_prints_the_address_and_the_line_for_others(folder: Path) -> None:
    async with serving(folder, "--host", "0.0.0.0", env={"TOOLSTEAD_TOKEN": TOKEN}) as (program, client):
        said = await program.stderr_with("--token-env")
        found = re.search(r"  toolstead connect claude-code --url (http://\S+)/mcp --token-env TOOLSTEAD_TOKEN\n", said)
        assert found, said
        assert f"  MCP      {found[1]}/mcp\n" in said
        address = found[1].removeprefix("http://")
        assert not address.startswith("127."), "others cannot reach that"
        headers = {"host": address, "authorization": f"Bearer {TOKEN}"}
        assert (await client.ask("GET", "/api/health", headers=headers)).status == 200
        assert TOKEN not in said


@pytest.mark.parametrize("file", [None, "one.py"])
def test_on_a_terminal_a_server_says_what_to_type_next_and_how_it_ends(folder: Path, file: str | None) -> None:
    if file is not None:
        text = "from toolstead import tool\n\n@tool\ndef greet() -> str:\n    'Greet.'\n    return 'hello'\n"
        (folder / file).write_text(text)
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PATH": "/usr/bin:/bin"}
    command = [*TOOLSTEAD, "serve", "--port", "0", *([] if file is None else [file])]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environ)
    os.close(theirs)
    try:
        said = ""
        while "Ctrl-C stops it." not in said and select.select([ours], [], [], PATIENCE)[0]:
            said += os.read(ours, 10_000).decode().replace("\r\n", "\n")
        typed = re.findall(r"^  (.+ tools (?:list|call).*)$", said, re.MULTILINE)
        shown = ["sums__add"] if file is None else ["greet", "hello"]
        for line, text in zip(typed, shown, strict=True):
            done = subprocess.run(
                line, shell=True, cwd=folder, env=environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert text in done.stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)


async def test_a_browser_without_the_token_gets_a_page_that_says_where_it_is_and_takes_it(folder: Path) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    async with serving(folder, env={"TOOLSTEAD_TOKEN": TOKEN}) as (_, client):
        page = await client.ask("GET", "/docs", headers=browser)
        assert page.status == 401
        assert page.headers["content-type"].startswith("text/html")
        assert page.headers["www-authenticate"].startswith("Bearer")
        assert b'action="/docs"' in page.body
        assert b"TOOLSTEAD_TOKEN" in page.body
        assert TOKEN.encode() not in page.body
        assert b'action="/docs"' in (await client.ask("GET", "/api/tools", headers=browser)).body
        wrong = await client.ask("GET", "/docs?token=wrong", headers=browser)
        assert b"not its token" in wrong.body
        assert (await client.ask("GET", f"/docs?token={TOKEN}", headers=browser)).status == 303
        assert (await client.get("/docs")).problem["title"] == "A token is needed"
        both = {"accept": "application/json, text/html"}
        assert (await client.ask("GET", "/docs", headers=both)).problem["status"] == 401
