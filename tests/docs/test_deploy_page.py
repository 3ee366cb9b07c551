"""What docs/deploy.md shows is put to work: the unit, the image's steps, the proxy, several servers, backups."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import pwd
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import venv
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import machine
from tests.contracts.postgres_server import running_server
from tests.machine import ENVIRONMENT
from tests.programs.running import TOOLSTEAD, Program, running
from tests.surfaces.rest_server import Client
from tests.waiting import PATIENCE, until
from toolstead.app.settings import ServerSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
TOKEN = "a-token-of-many-letters"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
INSTALLED = "/var/lib/toolstead/.local/bin/toolstead"


def block(path: str) -> str:
    """The block of the page that is this file."""
    (found,) = re.findall(rf"^```\w+\n# {re.escape(path)}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def run(command: str | Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, or a line as in a shell, that must end well."""
    is_line = isinstance(command, str)
    done = subprocess.run(command, shell=is_line, capture_output=True, text=True, timeout=280, check=False, **options)
    assert done.returncode == 0, f"{command}:\n{done.stderr}"
    return done


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


@asynccontextmanager
async def serving(folder: Path, command: Sequence[str], **env: str) -> AsyncIterator[tuple[Program, Client]]:
    folder.mkdir(exist_ok=True)
    environ = {"TOOLSTEAD_TOKEN": TOKEN, "TOOLSTEAD_HOME": str(folder / "home"), **env}
    async with running(command, errors=folder / "serve.txt", cwd=folder, env=environ) as program:
        said = await until(lambda: program.stderr if re.search(r"(docs     |at )http://\S+", program.stderr) else "")
        found = re.search(r"http://[\w.]+:(\d+)", said)
        assert found, said
        client = Client(f"http://127.0.0.1:{found[1]}")
        yield program, client
        client.leave()


@pytest.mark.requires("systemd")
async def test_the_unit_passes_systemds_own_check_and_its_command_serves(tmp_path: Path) -> None:
    script = tmp_path / "toolstead"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(TOOLSTEAD)} "$@"\n', "utf-8")
    script.chmod(0o755)
    port = free_port()
    text = block("/etc/systemd/system/toolstead.service")
    unit = tmp_path / "toolstead.service"
    unit.write_text(text.replace(INSTALLED, str(script)).replace("8420", str(port)), "utf-8")
    checked = run([machine.systemd(), "verify", "--man=no", unit])
    assert unit.name not in checked.stderr, "it warns"

    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.read(unit)
    async with serving(tmp_path / "project", shlex.split(parsed["Service"]["ExecStart"])) as (program, client):
        assert client.port == port
        assert (await client.get("/readyz")).status == 200
        assert (await client.call("workspace-info")).status == 401
        program.process.terminate()  # as `systemctl stop` does
        assert await program.ended() == 0


@pytest.mark.requires("index")
async def test_the_steps_of_the_image_install_a_server_that_its_command_starts_and_its_check_finds(
    tmp_path: Path,
) -> None:
    source, image = tmp_path / "src", tmp_path / "image"
    ignored = shutil.ignore_patterns(".*", "tests", "benchmarks", "build", "dist", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)  # as COPY does in a clone
    venv.create(image, with_pip=True)
    lines = re.sub(r"\\\n", "", block("Dockerfile")).splitlines()
    kept = {name: value for name, value in ENVIRONMENT.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    environ = {**kept, "HOME": str(tmp_path), "PATH": f"{image / 'bin'}:{os.defpath}"}
    steps = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN pip")]
    assert len(steps) == 2
    for step in steps:
        command = step.replace("/src", str(source))
        await asyncio.to_thread(run, command, env=environ)

    def words(instruction: str) -> list[str]:
        (line,) = [line for line in lines if line.startswith(instruction)]
        return json.loads(line[line.index("[") :])

    port = str(free_port())
    entry = [str(image / "bin" / word) if word == "toolstead" else word for word in words("ENTRYPOINT")]
    async with serving(tmp_path / "project", [*entry, *words("CMD"), "--port", port], **environ) as (program, _):
        check = [word.replace("8420", port) for word in words("HEALTHCHECK")]
        run([image / "bin" / check[0], *check[1:]], env=environ)
        assert all(json.loads(line)["message"] for line in program.stderr.splitlines())


@asynccontextmanager
async def proxying(folder: Path, config: str) -> AsyncIterator[Program]:
    """nginx with this in its `http` block, as the user of the tests."""
    folder.mkdir()
    places = "".join(
        f"{name}_temp_path {folder / name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = f"user {pwd.getpwuid(os.geteuid()).pw_name};\n"
    text = f"daemon off;\n{user}pid {folder / 'pid'};\nevents {{}}\nhttp {{\naccess_log off;\n{places}{config}\n}}\n"
    (folder / "nginx.conf").write_text(text, "utf-8")
    command = [str(machine.nginx()), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    async with running(command, errors=folder / "errors.txt") as program:
        await until(lambda: (folder / "pid").exists() or program.process.returncode is not None)
        assert program.process.returncode is None, program.stderr
        yield program


@pytest.mark.requires("nginx")
async def test_behind_the_proxy_calls_pass_events_arrive_as_they_happen_and_foreign_names_do_not(
    tmp_path: Path,
) -> None:
    key, certificate = tmp_path / "stead.key", tmp_path / "stead.pem"
    request = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=stead.example.org",
    ]
    request += ["-addext", "subjectAltName=DNS:stead.example.org", "-keyout", str(key), "-out", str(certificate)]
    run(request)
    public = free_port()
    command = [*TOOLSTEAD, "serve", "--port", "0", "--set", "server.public_url=https://stead.example.org"]
    async with serving(tmp_path / "project", command) as (_, client):
        config = block("/etc/nginx/conf.d/toolstead.conf")
        config = config.replace("127.0.0.1:8420", f"127.0.0.1:{client.port}").replace("443", f"127.0.0.1:{public}")
        config = config.replace("/etc/ssl/stead.example.org.pem", str(certificate))
        config = config.replace("/etc/ssl/stead.example.org.key", str(key))
        async with proxying(tmp_path / "nginx", config):
            trusted = ssl.create_default_context(cafile=str(certificate))
            names = {"host": "stead.example.org"}
            extensions = {"sni_hostname": "stead.example.org"}
            async with httpx2.AsyncClient(
                base_url=f"https://127.0.0.1:{public}", verify=trusted, trust_env=False, timeout=PATIENCE
            ) as browser:

                async def ask(method: str, path: str, **more: Any) -> httpx2.Response:
                    headers = {**names, **HEADERS, **more.pop("headers", {})}
                    return await browser.request(method, path, headers=headers, extensions=extensions, **more)

                assert (await ask("GET", "/api/tools", headers={"authorization": ""})).status_code == 401
                called = await ask("POST", "/api/tools/workspace-info/call", json={})
                assert called.json()["isError"] is False, called.text
                own = await ask("POST", "/api/tools/reload", json={}, headers={"origin": "https://stead.example.org"})
                assert own.status_code == 200, own.text
                foreign = await ask("POST", "/api/tools/reload", json={}, headers={"origin": "https://evil.example"})
                assert foreign.status_code == 403
                assert (await ask("GET", "/livez", headers={"host": "evil.example"})).status_code == 421

                async with browser.stream(
                    "GET", "/api/events", headers={**names, **HEADERS}, extensions=extensions
                ) as stream:
                    pieces = stream.aiter_bytes()
                    thread = (await ask("POST", "/api/threads", json={})).json()["id"]
                    content = {"content": "hello"}
                    assert (await ask("POST", f"/api/threads/{thread}/messages", json=content)).status_code in {
                        202,
                        422,
                    }
                    await ask("POST", "/api/tools/file-reader/call", json={"input": {"path": "missing.txt"}})
                    arrived = b""
                    async with asyncio.timeout(PATIENCE):
                        while b"event: tool_result" not in arrived:  # while the stream stays open
                            arrived += await anext(pieces)


@pytest.mark.requires("postgres")
async def test_servers_on_one_postgres_share_conversations_and_a_backup_brings_them_back(tmp_path: Path) -> None:
    with running_server() as place:
        programs = machine.postgres()
        for name in ("shared", "restored"):
            run([programs / "createdb", "-h", place, "-U", "postgres", name])
        shared, restored = (f"postgresql://postgres@/{name}?host={place}" for name in ("shared", "restored"))
        script = tmp_path / "script.yaml"
        script.write_text("- when: hang\n  hang: 600\n- say: Hello\n", "utf-8")
        command = [*TOOLSTEAD, "serve", "--port", "0", "--set", f"runtime.scripted.script='{script}'"]
        async with AsyncExitStack() as servers:
            (first, one), (_, two) = [
                await servers.enter_async_context(serving(tmp_path / name, command, TOOLSTEAD_DATABASE_URL=shared))
                for name in ("one", "two")
            ]

            async def ask(client: Client, method: str, path: str, body: Any = None) -> Any:
                reply = await client.ask(method, path, body, HEADERS)
                assert reply.status in {200, 201, 202}, reply.body
                return reply.json if "events" not in path else reply.body

            assert (await ask(one, "GET", "/readyz"))["status"] == "ready"
            begun = await ask(one, "POST", "/api/runs", {"prompt": "hi", "threadId": "talk"})
            assert b"event: completed" in await ask(two, "GET", f"/api/runs/{begun['runId']}/events")
            assert [each["role"] for each in (await ask(two, "GET", "/api/threads/talk"))["messages"]] == [
                "user",
                "assistant",
            ]
            hanging = await ask(one, "POST", "/api/runs", {"prompt": "hang", "threadId": "other"})
            cancelled = await ask(two, "POST", f"/api/runs/{hanging['runId']}/cancel")
            assert cancelled["status"] == "cancelled"
            first.process.terminate()
            assert await first.ended() == 0
            assert (await ask(two, "GET", "/readyz"))["status"] == "ready"

            dumped = tmp_path / "toolstead.dump"
            (dump,) = re.findall(r"^\$ (pg_dump .*)$", PAGE, re.MULTILINE)
            (restore,) = re.findall(r"^\$ (pg_restore .*)$", PAGE, re.MULTILINE)
            for line, url in ((dump, shared), (restore, restored)):
                environ = {**os.environ, "TOOLSTEAD_DATABASE_URL": url, "PATH": f"{programs}:{os.defpath}"}
                run(line, cwd=dumped.parent, env=environ)
        async with serving(tmp_path / "three", command, TOOLSTEAD_DATABASE_URL=restored) as (_, three):
            thread = await ask(three, "GET", "/api/threads/talk")
            assert thread["messages"][1]["content"] == "Hello"


@pytest.mark.requires("nginx")
async def test_the_proxy_takes_the_upstream_of_several_servers(tmp_path: Path) -> None:
    text = block("/etc/nginx/conf.d/toolstead-servers.conf")
    server = f"server {{ listen 127.0.0.1:{free_port()}; location / {{ proxy_pass http://toolstead; }} }}"
    async with proxying(tmp_path / "nginx", text + server) as program:
        assert program.process.returncode is None


def test_what_the_page_says_of_the_size_of_bodies_is_the_default() -> None:
    assert "client_max_body_size 4m;" in PAGE
    assert ServerSettings().max_body == 4 << 20
