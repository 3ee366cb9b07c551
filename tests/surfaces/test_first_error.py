"""Where no model can be asked: what is here already, the shortest command, and nothing stored."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.talking_project import Finished, Project
from tests.waiting import PATIENCE
from toolstead.adapters.installing import install_command
from toolstead.app.setup_steps import find_ollama

pytestmark = pytest.mark.requires("models", "claude", "codex")

KEYS = "  toolstead keys set anthropic"
NOWHERE = "127.0.0.1:9"
KEY = "sk-never-shown-0123456789"
# A package is taken away from the program by a finder that Python asks first.
WITHOUT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder())
"""
both_ways = pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])


class FakeOllama:
    """What an Ollama answers when it is asked for its models."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                names = ["nomic-embed-text:latest", "qwen3:8b"]
                content = json.dumps({"models": [{"name": name} for name in names]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self) -> None:
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def ollama() -> Iterator[FakeOllama]:
    fake = FakeOllama()
    serving = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield fake
    fake.server.shutdown()
    serving.join()
    fake.server.server_close()


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder, user = tmp_path / "project", home / ".config" / "toolstead"
    (folder / ".toolstead").mkdir(parents=True)
    user.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.defpath]))
    monkeypatch.setenv("OLLAMA_HOST", NOWHERE)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return Project(folder, user)


def install_claude(project: Project) -> None:
    """The program of a user of Claude Code, as far as it is looked for."""
    program = project.folder.parent / "bin" / "claude"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)


async def ask(project: Project, *arguments: str, **environ: str) -> list[str]:
    """The lines of a refusal, the address of the server left out."""
    done: Finished = await asyncio.to_thread(project.command, "ask", "hello", *arguments, **environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert json.loads(project.command("threads", "list", "--json", **environ).stdout)["threads"] == []
    first, *lines, last = done.stderr.splitlines()
    assert all(len(line) <= 80 or "install" in line or "_URL=" in line for line in lines)
    return [first.removeprefix("toolstead: ").rpartition(" answered 422: ")[2], *lines, last.removesuffix(".")]


@both_ways
async def test_what_is_here_already_comes_first_with_the_command_that_uses_it(
    project: Project, ollama: FakeOllama, server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_claude(project)
    monkeypatch.setenv("OLLAMA_BASE_URL", f"{ollama.url}/v1")
    async with project.served(server=server):
        lines = await ask(project)
    assert lines[0].lower() == "no model is set up yet; nothing was asked. do one of:"
    assert lines[1:] == [
        '  toolstead ask --model ollama:qwen3:8b "hello"   # Ollama answers here',
        "  toolstead config set runtime.claude.login true  # Claude Code, with your login",
        f"{KEYS}                    # or openai, google",
        "More: toolstead doctor",
    ]
    assert ollama.asked == ["/api/tags"]


async def test_an_ollama_elsewhere_is_asked_where_it_answers(project: Project, ollama: FakeOllama) -> None:
    host = ollama.url.removeprefix("http://")
    command = (await ask(project, OLLAMA_HOST=host))[1]
    assert command.startswith('  toolstead ask --model ollama:qwen3:8b "hello"')
    local = ollama.url.replace("127.0.0.1", "localhost")
    for address in ({"OLLAMA_HOST": host}, {"OLLAMA_BASE_URL": ollama.url.replace("127.0.0.1", "localhost")}):
        doctor = project.command("doctor", **{"OLLAMA_HOST": "", **address}).stdout
        assert f"✓ ollama     Ollama: qwen3:8b, at {local}\n" in doctor
        environ = {"OLLAMA_HOST": "", **address}
        done = await asyncio.to_thread(project.command, "ask", "hello", "-m", "ollama:qwen3:8b", **environ)
        # The fake one has a list of models and nothing else, so the path is what counts here.
        assert f"{local}/v1/chat/completions does not exist (404)" in " ".join(done.stderr.split())


async def test_ollama_is_not_looked_for_where_something_else_answers(project: Project, ollama: FakeOllama) -> None:
    script = project.folder / "script.yaml"
    script.write_text("- say: hello", encoding="utf-8")
    setting = f"runtime.scripted.script={script}"
    environ = {"OLLAMA_BASE_URL": f"{ollama.url}/v1"}
    done = await asyncio.to_thread(project.command, "ask", "hi", "--set", setting, **environ)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert ollama.asked == []


def test_a_server_that_answers_without_end_is_not_waited_for() -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send_bytes() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stop.wait(0.05):  # each byte comes in time, and the end never
                    connection.sendall(b"x")

        sending = threading.Thread(target=send_bytes)
        sending.start()
        try:
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            asking = threading.Thread(
                target=lambda: found.append(find_ollama({"OLLAMA_BASE_URL": url}.get)), daemon=True
            )
            found: list[object] = []
            asking.start()
            asking.join(PATIENCE)
            assert found == [None]
        finally:
            stop.set()
            sending.join()


@both_ways
async def test_a_key_without_its_packages_is_refused_with_the_command_that_installs_them(
    project: Project, server: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "first").mkdir()
    names = {"pydantic_ai"}
    (tmp_path / "first" / "sitecustomize.py").write_text(WITHOUT.format(names=names), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "first"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    async with project.served(server=server):
        lines = await ask(project)
    said = "google:gemini-3.8-flash needs packages that are not installed; nothing was asked. Do this:"
    assert lines == [
        said.replace("google", lines[0][:6], 1),
        f"  {install_command('models')}",
        "More: toolstead doctor",
    ]


@both_ways
@pytest.mark.parametrize(
    ("arguments", "said", "commands"),
    [
        (
            ("--model", "openai-chat:x"),
            "openai-chat:x needs a key of OpenAI (Chat",
            ["  toolstead keys set openai-chat"],
        ),
        (("--model", "vllm:x"), "vllm:x needs the address of vLLM in the environment, as VLLM_BASE_URL", []),
        (
            ("--runtime", "claude"),
            "Claude Code needs a key or your login",
            [
                "  toolstead config set runtime.claude.login true  # use your own login",
                f"{KEYS}                    # or a key",
            ],
        ),
    ],
    ids=["key", "address", "program"],
)
async def test_what_was_named_is_refused_before_anything_is_stored(
    project: Project, server: bool, arguments: tuple[str, ...], said: str, commands: list[str]
) -> None:
    async with project.served(server=server):
        lines = await ask(project, *arguments)
    assert lines[0].lower().startswith(said.lower())
    assert lines[1:-1] == commands


async def test_a_server_answers_with_its_own_environment_and_local_with_this_shells(project: Project) -> None:
    async with project.served(server=True):
        report = json.loads((await asyncio.to_thread(project.command, "doctor", "--json", GROQ_API_KEY=KEY)).stdout)
        assert report["server"]["runtime"] is None
        assert report["good"] is False
        shown = await asyncio.to_thread(project.command, "doctor", OPENAI_API_KEY=KEY)
        assert shown.stdout.splitlines()[0] == f"the server at {report['server']['url']}, which answers `toolstead ask`"
        here = shown.stdout.splitlines().index("this shell, for `toolstead ask --local`")
        assert shown.stdout.splitlines()[here + 1] == "runtime   codex: OPENAI_API_KEY is set, Codex is installed"
        assert shown.returncode == 1, "the server counts"
        script = project.folder / "script.yaml"
        script.write_text("- say: hello", encoding="utf-8")
        here_only = ("--set", f"runtime.scripted.script={script}")
        local = await asyncio.to_thread(project.command, "ask", "hi", "--local", *here_only)
        assert (local.returncode, local.stdout) == (0, "hello\n")
        assert (await asyncio.to_thread(project.command, "ask", "hi", *here_only)).returncode == 2
        both = await asyncio.to_thread(project.command, "ask", "hi", "--local", "--url", report["server"]["url"])
        assert "--local is for this process, and --url for a server" in both.stderr


async def test_a_running_server_notices_a_key_that_is_kept_and_one_that_is_removed(project: Project) -> None:
    async def server_runtime(expected: str | None) -> None:
        async with asyncio.timeout(30):
            while True:
                done = await asyncio.to_thread(project.command, "doctor", "--json")
                if json.loads(done.stdout)["server"]["runtime"] == expected:
                    return

    async with project.served(server=True):
        await server_runtime(None)
        kept = await asyncio.to_thread(project.command, "keys", "set", "anthropic", stdin=KEY)
        assert kept.returncode == 0, kept.stderr
        await server_runtime("claude")
        await asyncio.to_thread(project.command, "keys", "remove", "anthropic")
        await server_runtime(None)


def test_a_broken_plugin_is_one_line_and_its_traceback_is_at_v(project: Project) -> None:
    (project.home / "plugins").mkdir()
    text = (
        "from toolstead import Plugin\nasync def register(ctx):\n    raise ValueError('oh')\n"
        "plugin = Plugin(name='worse', version='1', register=register)\n"
    )
    (project.home / "plugins" / "worse.py").write_text(text, encoding="utf-8")
    called = project.command("tools", "call", "workspace-info")
    assert [line for line in called.stderr.splitlines() if "worse" in line] == called.stderr.splitlines()
    assert called.stderr.count("ValueError: oh") == 1
    listed = project.command("tools", "list")
    assert listed.stderr.count("ValueError: oh") == 1
    assert "Traceback" in project.command("-v", "tools", "call", "workspace-info").stderr
