"""A server whose database goes away and comes back: what its log and its tools say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.postgres_server import interrupted_server, running_server
from tests.programs.running import TOOLSTEAD, running
from tests.surfaces.rest_server import Client
from tests.waiting import until

RETRIED = "toolstead.orchestrator.feed: events could not be read; looking again"
LOCK = "this process's lock is not held yet"
LEVEL = re.compile(r"^\S+Z (WARNING|ERROR|CRITICAL) +([\w.]+): (.*)", re.MULTILINE)


def test_a_server_whose_database_can_never_be_used_does_not_start(home: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_text("this is no database " * 100)
    for url, why in {
        "mysql://u:secret@h/db": "TOOLSTEAD_DATABASE_URL: mysql://u:***@h/db is no database that Toolstead can use",
        str(damaged): "damaged.db is damaged, or is no SQLite database",
    }.items():
        command = [*TOOLSTEAD, "serve", "--port", "0"]
        env = {**os.environ, "TOOLSTEAD_DATABASE_URL": url}
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, why in done.stderr, "secret" in done.stderr) == (2, True, False), done.stderr


@pytest.mark.requires("postgres")
async def test_an_outage_is_two_lines_of_the_log_and_a_foreseen_failure_of_the_tools_that_need_the_database(
    home: Path, tmp_path: Path
) -> None:
    with running_server() as place:
        env = {"TOOLSTEAD_DATABASE_URL": f"postgresql://postgres@/postgres?host={place}"}
        command = [*TOOLSTEAD, "serve", "--port", "0", "-vv"]
        async with running(command, errors=tmp_path / "serve.txt", cwd=tmp_path, env=env) as program:
            said = await program.stderr_with("docs     http")
            client = Client(re.findall(r"docs     (http://[\w.]+:\d+)", said)[0])
            assert (await client.call("vfs_list", {})).json["isError"] is False
            stream = await client.connect()
            await stream.send(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await until(lambda: client.get("/readyz"))
            already = len(program.stderr)

            with interrupted_server(place):
                failed = (await client.call("vfs_list", {})).json
                await until(lambda: program.stderr.count(RETRIED) >= 3 and program.stderr.count(LOCK) >= 3)
            await until(lambda: "the database is back" in program.stderr)
            assert (await client.call("vfs_list", {})).json["isError"] is False
            metrics: Any = (await client.get("/metrics")).body
            await stream.close()
            log = program.stderr[already:]
            client.leave()

    assert failed["isError"] is True
    assert failed["content"][0]["text"] == "vfs_list failed: the database cannot be reached; try again later"
    assert b'toolstead_tool_calls_total{tool="vfs_list",outcome="tool_error"} 1' in metrics
    assert b'outcome="crash"' not in metrics
    lines = [words for _, _, words in LEVEL.findall(log)]
    assert "Traceback" not in log
    assert len(lines) == 3, lines
    (called,) = [words for words in lines if words.startswith("call ")]
    away, back = [words for words in lines if words != called]
    assert re.fullmatch(r"the database is away: .+\. What needs it waits or fails until it is back", away)
    assert "vfs_list failed (tool_error)" in called
    assert re.fullmatch(r"the database is back: it was away for \d+\.\d seconds", back)
