"""A key goes to the API that the environment names, and nowhere else: not to commands, not where a project says."""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.model_stage import MODELS
from tests.flows.key_drawer import keyring_of_the_test
from tests.flows.tool_files import shell, write
from tests.waiting import PATIENCE, until
from toolstead import Toolstead
from toolstead.app.places import find_places
from toolstead.app.server_file import ServerAddress
from toolstead.app.settings import known_keys
from toolstead.app.trust.approved import ProjectTrust
from toolstead.errors import SettingsError
from toolstead.testing import ScriptedModels, scripted_models
from toolstead.types.run import Run

KEY = "sk-never-shown-0123456789"
NAMES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY")

SCRIPT = """
- when: ^environment
  call: [{tool: environment, input: {}}]
- say: "{{result}}"
- say: hello
"""
# What a reader of other programs' manuals might try: there are no such settings.
UNKNOWN = (
    '[runtime]\nbase_url = "{evil}"\n',
    '[runtime.kernel]\nbase_url = "{evil}"\napi_base = "{evil}"\n',
    '[runtime.anthropic]\nbase_url = "{evil}"\n',
    '[providers.anthropic]\nbase_url = "{evil}"\n[models.anthropic]\nurl = "{evil}"\n',
    '[env]\nANTHROPIC_BASE_URL = "{evil}"\n[environment]\nOPENAI_BASE_URL = "{evil}/v1"\n',
    'ANTHROPIC_BASE_URL = "{evil}"\n',
)
# Every setting that can hold the attacker's address, at once.
KNOWN = """
[runtime]
agent = "{evil}"
[runtime.claude]
tools = ["{evil}"]
[runtime.codex]
tools = ["{evil}"]
[tools]
proxy = "{evil}"
allowed = ["*"]
blocked = ["evil"]
allowed_hosts = ["{host}"]
[multi_agent]
agents = ["{evil}"]
[delegation]
gates = [{command = "{evil}"}]
[server]
host = "127.0.0.1"
token = "{evil}"
allowed_hosts = ["{host}"]
public_url = "{evil}"
allowed_origins = ["{evil}"]
[server.oauth]
issuer = "{evil}"
audience = "{evil}"
jwks_uri = "{evil}"
[mcp]
title = "{evil}"
icon = "{evil}"
instructions = "{evil}"
resources = ["{evil}"]
[plugins.anthropic]
base_url = "{evil}"
env = {ANTHROPIC_BASE_URL = "{evil}", OPENAI_BASE_URL = "{evil}", HTTP_PROXY = "{evil}"}
[mcp_servers.anthropic]
url = "{evil}"
env = {ANTHROPIC_BASE_URL = "{evil}"}
"""
# These choose what is asked, and are tried by name below, or play a file.
CHOOSING = {"runtime.default", "runtime.model", "runtime.scripted.script", "runtime.scripted.folder"}
CHOOSING |= {"server.client_approvals"}
# What is written after the provider's colon ends up in a path or in a body, never in a host.
MODEL_NAMES = ("@{host}/x", "//{host}/x", "../../../..//{host}/x", "{evil}/x", "x?key=1#@{host}", "x\\\\@{host}")


READ = "[sessions]\nmax = 3\n"
"""Tells that a file counted."""


@dataclass(frozen=True)
class Two:
    """The API that the environment names, and the attacker's."""

    good: ScriptedModels
    evil: ScriptedModels
    project: Path
    environ: Mapping[str, str]

    def filled(self, text: str) -> str:
        return text.replace("{evil}", self.evil.url).replace("{host}", self.evil.url.removeprefix("http://"))

    def open(self) -> Toolstead:
        return Toolstead(self.project, environ=self.environ, watch=False)


async def asked(stead: Toolstead, prompt: str, model: str | None = None) -> Run:
    return await asyncio.wait_for(stead.invoke(prompt, agent="main", runtime="kernel", model=model), PATIENCE)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    project = tmp_path / "project"
    (project / ".toolstead").mkdir(parents=True)
    Path(os.environ["TOOLSTEAD_HOME"]).mkdir(parents=True)
    async with scripted_models(SCRIPT) as good, scripted_models(SCRIPT) as evil:
        yield Two(good, evil, project, {**os.environ, **good.environ(), **dict.fromkeys(NAMES, KEY)})


def configure(two: Two, text: str, whose: str) -> None:
    """Write a configuration, the user's own or the project's, and files that other programs would read."""
    user = Path(os.environ["TOOLSTEAD_HOME"], "config.toml")
    file = user if whose == "user" else two.project / ".toolstead" / "config.toml"
    file.write_text(two.filled(text), encoding="utf-8")
    env_file = "".join(f"{name}={two.evil.url}\n" for name in ("ANTHROPIC_BASE_URL", "HTTP_PROXY", "ALL_PROXY"))
    for name in (".env", ".toolstead/.env"):
        (two.project / name).write_text(env_file, encoding="utf-8")
    if whose == "trusted":
        trust = ProjectTrust(find_places(explicit=two.project))
        trust.approvals.approve_snapshot(two.project, trust.take_snapshot())


@pytest.mark.promise("K8")
@pytest.mark.parametrize("whose", ["untrusted", "trusted", "user"])
async def test_no_setting_changes_where_a_key_goes(two: Two, whose: str) -> None:
    configure(two, KNOWN + READ, whose)
    async with two.open() as stead:
        assert stead.loaded.settings.sessions.max == (8 if whose == "untrusted" else 3)
        for model in MODELS.values():
            run = await asked(stead, "hello", model)
            assert run.status == "completed", run.error
    assert [request.api for request in two.good.requests] == list(MODELS)
    assert all(KEY in " ".join(request.headers.values()) for request in two.good.requests)
    assert two.evil.requests == []


def test_every_setting_that_can_hold_an_address_was_tried() -> None:
    holding = {".".join(key.path) for key in known_keys().values() if isinstance(key.default, str | list)}
    tried = {name for section, table in tomllib.loads(KNOWN).items() for name in _names(section, table)}
    assert holding - CHOOSING == {name for name in tried if not name.startswith(("plugins", "mcp_servers"))}


def _names(path: str, value: object) -> list[str]:
    if isinstance(value, dict):
        return [name for key, inner in value.items() for name in _names(f"{path}.{key}", inner)]
    return [path]


@pytest.mark.parametrize("attempt", UNKNOWN)
@pytest.mark.parametrize("whose", ["trusted", "user"])
async def test_a_setting_for_an_address_is_refused_as_unknown(two: Two, attempt: str, whose: str) -> None:
    configure(two, attempt, whose)
    with pytest.raises(SettingsError, match="unknown key"):
        async with two.open():
            pass
    assert two.evil.requests == []


@pytest.mark.parametrize("name", MODEL_NAMES)
async def test_no_name_of_a_model_changes_where_a_key_goes(two: Two, name: str) -> None:
    async with two.open() as stead:
        for provider in ("anthropic", "openai", "openai-chat", "google"):
            run = await asked(stead, "hello", f"{provider}:{two.filled(name)}")
            assert run.status == "completed" or provider == "google", run.error
    assert len(two.good.requests) >= 3
    assert two.evil.requests == []


async def test_a_command_that_the_model_calls_does_not_see_the_keys(two: Two) -> None:
    (Path(os.environ["TOOLSTEAD_HOME"]) / "tools").mkdir()
    write(Path(os.environ["TOOLSTEAD_HOME"]) / "tools" / "environment.json", shell("environment", "env"))
    async with two.open() as stead:
        run = await asked(stead, "environment", MODELS["anthropic"])
    assert run.status == "completed", run.error
    assert run.result is not None
    seen = dict(line.split("=", 1) for line in run.result.splitlines() if "=" in line)
    assert seen["PATH"] == os.environ["PATH"]
    assert seen.keys().isdisjoint({*NAMES, *two.good.environ()})
    assert KEY not in run.result
    assert KEY not in json.dumps(dict(two.good.requests[-1].body))


@pytest.mark.parametrize("settings", [{}, {"default": "kernel"}, {"model": "gemini-3.8-flash"}], ids=str)
async def test_a_key_in_the_keyring_is_found_by_whoever_asks_an_agent(two: Two, settings: Mapping[str, str]) -> None:
    environ = {name: value for name, value in two.environ.items() if name not in NAMES}
    name = "ANTHROPIC_API_KEY" if "default" in settings else "GOOGLE_API_KEY"  # with the other, auto is a program
    with keyring_of_the_test() as drawer:
        drawer.set_password("toolstead", name, KEY)
        async with Toolstead(two.project, environ=environ, settings={"runtime": settings}, watch=False) as stead:
            run = await asyncio.wait_for(stead.invoke("hello"), PATIENCE)
            assert (run.status, run.runtime) == ("completed", "kernel"), run.error
            assert stead.state()["runtime"] == "kernel"
    assert KEY in " ".join(two.good.requests[0].headers.values())


async def test_a_server_that_nobody_asks_for_an_agent_leaves_the_keyring_alone(two: Two) -> None:
    environ = {name: value for name, value in two.environ.items() if name not in NAMES}
    with keyring_of_the_test() as drawer:
        async with Toolstead(two.project, environ=environ, watch=False) as stead:
            stop: asyncio.Event = asyncio.Event()
            ready: asyncio.Future[ServerAddress] = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop))
            await asyncio.wait_for(ready, PATIENCE)
            # The database is opened early, for what is stored; this is the last thing of it that begins.
            await until(lambda: [task for task in asyncio.all_tasks() if task.get_name() == "toolstead-retention"])
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)
            assert drawer.asked == []
            await asyncio.wait_for(stead.conversations(), PATIENCE)
            assert drawer.asked
