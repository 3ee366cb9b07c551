"""A server with everything that the console shows: a home, a project, a plugin that asks, agents, and a scripted model.

What a test must hold in its middle stands at a gate, a tool that answers when the test opens it: nothing here waits for
a time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests import machine
from tests.programs.running import PROGRAMS, TOOLSTEAD
from tests.waiting import PATIENCE

T = TypeVar("T")

MODEL = "anthropic:claude-sonnet-4-6"
FILES = Path(__file__).parent / "files"
"""What stands in the home and in the project of a busy installation."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """A server, what it serves, and the model behind it."""

    home: Path
    project: Path
    models: str = ""
    url: str = ""
    token: str = ""
    server: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def config(self) -> Path:
        return self.home / ".config" / "toolstead"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def login(self) -> str:
        """The address that `toolstead serve` shows on a terminal."""
        return f"{self.url}/?token={self.token}"

    def start(self, port: int = 0) -> None:
        """Start the server, and wait until it says where it is."""
        model = {"ANTHROPIC_BASE_URL": self.models, "ANTHROPIC_API_KEY": "sk-any"} if self.models else {}
        with self.log.open("ab") as sink:
            self.server = subprocess.Popen(
                [*TOOLSTEAD, "serve", "--port", str(port)],
                cwd=self.project,
                env={**os.environ, **_name_folders(self.home), **model, "STAGE_GATES": str(self.home / "gates")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sink,
                start_new_session=True,
            )
        found = until(self._find_entry)
        self.url, self.token = found["url"], found["token"]

    def stop(self) -> None:
        """Have the server end by itself."""
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(PATIENCE)
            self.server = None

    def open_gate(self, name: str) -> None:
        """Let the calls go on that stand at a gate."""
        (self.home / "gates" / name).touch()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the owner, beside the page."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, headers, method=method), timeout=PATIENCE) as answer:
                text = answer.read()
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text else None

    def run(self, prompt: str, thread: str = "", status: str = "completed") -> Any:
        """Ask the agent, and wait until its run has a status; the run."""
        place = f"/api/threads/{thread}/messages" if thread else "/api/runs"
        begun = self.ask("POST", place, {"content": prompt} if thread else {"prompt": prompt})
        return self.await_run(begun["runId"], status)

    def await_run(self, id: str, status: str) -> Any:
        """The run, once it has this status."""

        def look() -> Any:
            run = self.ask("GET", f"/api/runs/{id}")
            return run if run["status"] == status else None

        return until(look)

    def _find_entry(self) -> Any:
        assert self.server is not None
        assert self.server.poll() is None, self.log.read_text(encoding="utf-8")
        path = self.config / "data" / "server.json"
        if not path.exists():
            return None
        entries = json.loads(path.read_text(encoding="utf-8"))
        return next((one for one in entries.get(str(self.project), []) if one["pid"] == self.server.pid), None)


def until(look: Callable[[], T | None]) -> T:
    """What a look at the world finds, once it finds something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return found


@contextmanager
def run_stage(folder: Path, *, is_empty: bool = False) -> Iterator[Stage]:
    """A running server: of an empty home and project, or of one where everything can happen."""
    folder = folder.resolve()
    stage = Stage(home=folder / "home", project=folder / "project")
    (stage.home / "gates").mkdir(parents=True)
    stage.project.mkdir()
    subprocess.run([str(machine.git()), "init", "-q", str(stage.project)], check=True)
    models: subprocess.Popen[bytes] | None = None
    try:
        if not is_empty:
            shutil.copytree(FILES / "config", stage.config)
            shutil.copytree(FILES / "project", stage.project, dirs_exist_ok=True)
            command = [sys.executable, str(PROGRAMS / "scripted_apis.py"), str(FILES / "models.yaml")]
            models = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
            assert models.stdout is not None
            stage.models = models.stdout.readline().decode().strip()
            assert stage.models, "the scripted model APIs did not start"
        stage.start()
        yield stage
    finally:
        for process in (stage.server, models):
            if process is not None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE)
                if process.stdout is not None:
                    process.stdout.close()


def _name_folders(home: Path) -> Mapping[str, str]:
    return {
        "HOME": str(home),
        "TOOLSTEAD_HOME": str(home / ".config" / "toolstead"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_RUNTIME_DIR": str(home / ".run"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
    }
