"""The conversation with the program, where the program misbehaves: a few lines of Python take its place."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE
from toolstead.adapters.codex import app_server
from toolstead.adapters.codex.app_server import AppServer, ProcessGoneError, RefusedByCodexError
from toolstead.adapters.codex.program import CodexProgram
from toolstead.errors import RuntimeFailureError

ANSWERS = """
import json, sys
def say(message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        say({"id": message["id"], "result": {}})
"""


class Ear:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.is_lost = asyncio.Event()

    def on_notification(self, method: str, params: Any) -> None:
        self.heard.append(method)

    def on_process_end(self) -> None:
        self.is_lost.set()


async def start(text: str, folder: Path) -> AppServer:
    program = CodexProgram(command=(sys.executable, "-c", text), environ={}, folder=folder)
    return await asyncio.wait_for(AppServer.start(program, version="1"), PATIENCE)


async def test_a_program_that_ends_at_once_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailureError, match=r"Codex does not start: .*no such setting"):
        await start("import sys; sys.exit('Error: no such setting')", tmp_path)


async def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    program = CodexProgram(command=(str(tmp_path / "none"),), environ={}, folder=tmp_path)
    with pytest.raises(RuntimeFailureError, match="cannot be started"):
        await AppServer.start(program, version="1")


async def test_a_program_that_never_answers_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_server, "_LEAVE", 0.2)
    request = AppServer.send_request
    monkeypatch.setattr(AppServer, "send_request", lambda *given, **_: request(*given, timeout=0.3))
    text = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    with pytest.raises(RuntimeFailureError, match="does not start"):
        await start(text, tmp_path)
    if (tmp_path / "pid").exists():
        assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.mark.parametrize("says", ["print('nonsense', flush=True)", "print('[1]', flush=True)"])
async def test_a_program_that_says_nonsense_is_ended_and_everybody_is_told(tmp_path: Path, says: str) -> None:
    server = await start(f"{ANSWERS}    elif message.get('method') == 'go':\n        {says}\n", tmp_path)
    ear = Ear()
    server.listeners["t"] = ear
    with pytest.raises(ProcessGoneError):
        await server.send_request("go", {})
    await asyncio.wait_for(ear.is_lost.wait(), PATIENCE)
    assert not server.is_alive
    with pytest.raises(ProcessGoneError):
        await server.send_request("again", {})
    await server.close()


async def test_a_line_that_is_too_long_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_server, "_LINE", 1000)
    text = f"{ANSWERS}    elif message.get('method') == 'go':\n        say({{'method': 'x' * 5000}})\n"
    server = await start(text, tmp_path)
    with pytest.raises(ProcessGoneError):
        await asyncio.wait_for(server.send_request("go", {}), PATIENCE)
    await server.close()


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("item/commandExecution/requestApproval", {"decision": "decline"}),
        ("item/fileChange/requestApproval", {"decision": "decline"}),
        ("item/permissions/requestApproval", {"permissions": {}, "scope": "turn"}),
        ("mcpServer/elicitation/request", {"action": "decline", "content": None, "_meta": None}),
        ("account/chatgptAuthTokens/refresh", None),
        ("something/new", None),
    ],
)
async def test_whatever_it_asks_for_is_refused(tmp_path: Path, method: str, answer: Any) -> None:
    text = f"""{ANSWERS}
    elif message.get("method") == "go":
        first = message["id"]
        say({{"id": 7, "method": {method!r}, "params": {{"threadId": "t"}}}})
    elif message.get("id") == 7:
        say({{"id": first, "result": message}})
"""
    server = await start(text.replace("\n\n    elif", "\n    elif"), tmp_path)
    server.listeners["t"] = Ear()
    got = await server.send_request("go", {})
    assert got.get("result") == answer
    assert ("error" in got) == (answer is None)
    await server.close()


async def test_an_error_is_told_and_others_words_go_to_nobody(tmp_path: Path) -> None:
    text = f"""{ANSWERS}
    elif message.get("method") == "go":
        say({{"method": "noise", "params": {{"threadId": "other"}}}})
        say({{"method": "words", "params": {{"threadId": "t"}}}})
        say({{"id": 999, "result": {{}}}})
        say({{"id": message["id"], "error": {{"code": -1, "message": "not today"}}}})
"""
    server = await start(text.replace("\n\n    elif", "\n    elif"), tmp_path)
    ear = Ear()
    server.listeners["t"] = ear
    with pytest.raises(RefusedByCodexError, match="not today"):
        await server.send_request("go", {})
    assert ear.heard == ["words"]
    await server.close()
    assert not server.is_alive


async def test_closing_ends_a_stubborn_program_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_server, "_LEAVE", 0.3)
    text = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
{ANSWERS}
time.sleep(600)
"""
    server = await start(text, tmp_path)
    child = int((tmp_path / "child").read_text())
    await asyncio.wait_for(server.close(), PATIENCE)
    assert not Path(f"/proc/{server.pid}").exists()

    def ended() -> bool:
        try:
            return "State:\tZ" in Path(f"/proc/{child}/status").read_text()
        except FileNotFoundError:
            return True

    async with asyncio.timeout(PATIENCE):
        while not ended():
            await asyncio.sleep(0.01)
