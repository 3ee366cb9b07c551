"""`toolstead mcp` answers first, and opens the database behind its answers."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any


def stored(database: Path) -> list[str]:
    """The types of the stored events; none while there is no database."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        try:
            return [kind for (kind,) in opened.execute("select type from events")]
        except sqlite3.OperationalError:  # it is being made
            return []


async def test_a_failing_call_on_stdio_is_stored_and_a_good_one_is_not(tmp_path: Path) -> None:
    environ = {**os.environ, "TOOLSTEAD_HOME": str(tmp_path / "home")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolstead", "mcp", "--project", str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environ,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    database = tmp_path / "home" / "data" / "toolstead.db"

    async def ask(id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(60):
            answer: dict[str, Any] = json.loads(await process.stdout.readline())
        return answer

    client = {"name": "test", "version": "1"}
    try:
        await ask(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        assert not database.exists()
        good = await ask(2, "tools/call", {"name": "workspace-info", "arguments": {}})
        assert not good["result"].get("isError")
        bad = await ask(3, "tools/call", {"name": "file-reader", "arguments": {"path": "absent.txt"}})
        assert bad["result"]["isError"]
        async with asyncio.timeout(60):
            while "tool_result" not in stored(database):
                await asyncio.sleep(0.05)
    finally:
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 60) == 0

    kinds = stored(database)
    assert kinds.count("tool_result") == 1
    assert "tool_use" not in kinds
