"""A project whose model plays a script, and the command in it: by itself, or beside a running server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sqlite3
import subprocess
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.programs.running import TOOLSTEAD, Program, running
from tests.waiting import PATIENCE

SCRIPT = """
- when: hang
  say: "I begin"
  hang: 1000
- when: fail
  fail: "the model is tired"
- when: where
  call: [{tool: workspace-info, input: {}}]
- say: "It says {{result}}"
- when: missing
  call: [{tool: no-such-tool, input: {x: 1}}]
- say: "Well, {{result}}"
- when: cost
  say: "Not cheap"
  usage: {inputTokens: 1200, outputTokens: 34, cost: 0.0125}
- say: "Hello {{prompt}}"
"""

Finished = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Project:
    folder: Path
    home: Path

    def command(self, *arguments: str, stdin: str = "", **environ: str) -> Finished:
        return subprocess.run(
            [*TOOLSTEAD, *arguments],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "80", **environ},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        done = self.command(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def on_terminal(self, *arguments: str) -> str:
        """All that a command writes to a terminal, of 80 columns, less its looks and what is taken away again."""
        master, slave = pty.openpty()
        command = subprocess.Popen(
            [*TOOLSTEAD, *arguments],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "80"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        shown = b""
        try:
            while data := os.read(master, 65_536):
                shown += data
        except OSError:  # the command has ended, and closed its end
            pass
        finally:
            os.close(master)
            assert command.wait(PATIENCE) == 0
        return remove_looks(shown.decode())

    def last_thread(self) -> str:
        """The id of the thread that was made last."""
        database = sqlite3.connect(self.home / "data" / "toolstead.db")
        try:
            return database.execute("SELECT id FROM threads ORDER BY n DESC LIMIT 1").fetchone()[0]
        finally:
            database.close()

    async def sees_run(self, prompt: str, status: str) -> None:
        """Wait until the database has a run of this prompt with this status."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(sqlite3.OperationalError):  # the database is being made
                    if (prompt, status) in self.runs():
                        return
                await asyncio.sleep(0.05)

    def runs(self) -> list[tuple[str, str]]:
        """Prompt and status of every run, as the database has them."""
        database = sqlite3.connect(self.home / "data" / "toolstead.db")
        try:
            return database.execute("SELECT prompt, status FROM runs ORDER BY n").fetchall()
        finally:
            database.close()

    @asynccontextmanager
    async def started(self, *arguments: str) -> AsyncIterator[Program]:
        """The command, still running."""
        errors = self.folder.parent / f"stderr-{'-'.join(arguments[:1])}.txt"
        async with running([*TOOLSTEAD, *arguments], errors=errors, cwd=self.folder, stdin=DEVNULL) as program:
            yield program

    @asynccontextmanager
    async def served(self, *, server: bool) -> AsyncIterator[None]:
        """With a server of this project that runs meanwhile, or without."""
        if not server:
            yield
            return
        async with self.started("serve", "--port", "0") as program:
            await program.stderr_with("/docs")  # the last thing it says when it is ready
            yield


def remove_looks(shown: str) -> str:
    """What a terminal shows in the end: without colours, and without lines that were written anew."""
    text = re.sub(r"\r[^\n]*?\x1b\[K", "", shown.replace("\r\n", "\n"))
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def without_address(stderr: str) -> str:
    """What was said, less the line that says which server did it."""
    return re.sub(r"^by the server at http://127\.0\.0\.1:\d+\n", "", stderr, flags=re.MULTILINE)


def make_project(folder: Path, home: Path) -> Project:
    project, user = folder / "project", home / ".config" / "toolstead"
    project.mkdir()
    user.mkdir(parents=True)
    (project / ".toolstead").mkdir()
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    kept = folder / "kept"
    (user / "config.toml").write_text(f'[runtime.scripted]\nscript = "{script}"\nfolder = "{kept}"\n', encoding="utf-8")
    return Project(project, user)
