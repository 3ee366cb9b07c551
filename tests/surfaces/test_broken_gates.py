"""A plugin with a gate that cannot be loaded, configured or registered: no later process runs a call unchecked."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.talking_project import Finished, Project

GUARD = """
from dataclasses import dataclass
from toolstead import Deny, Hooks, Plugin

@dataclass(frozen=True)
class Settings:
    limit: int = 3

async def register(ctx):
    async def on_before_tool(call):
        return Deny("never that zone") if call.input.get("timezone") == "Asia/Tokyo" else None
    return Hooks(on_before_tool=on_before_tool)

plugin = Plugin(name="guard", version="1.0.0", register=register, settings=Settings)
"""
BROKEN = {
    "unknown key": (GUARD, "limt = 3", "did you mean 'limit'?"),
    "wrong type": (GUARD, "limit = 'many'", "limit: it must be a whole number"),
    "syntax": (GUARD + "def x(", "", "SyntaxError"),
    "import": ("import no_such_module\n" + GUARD, "", "ModuleNotFoundError"),
    "register raises": (
        GUARD.replace("    async def on_b", "    raise OSError('no list')\n    async def on_b"),
        "",
        "no list",
    ),
    "forgotten return": (GUARD.replace("    return Hooks(", "    Hooks("), "", "end it with `return Hooks(…)`"),
    "gate gone": (
        GUARD.replace("Hooks(on_before_tool=on_before_tool)", "Hooks()"),
        "",
        "it had this gate when it last ran, and has it no more",
    ),
    "register gone": (
        GUARD.replace("register=register, ", ""),
        "",
        "it had this gate when it last ran, and has it no more",
    ),
    "misspelled hook": (
        GUARD.replace("Hooks(on_before_tool=", "Hooks(on_befor_tool="),
        "",
        "no hook 'on_befor_tool'; did you mean 'on_before_tool'?",
    ),
    "unreadable": (None, "", "cannot be read"),
}


@pytest.fixture
def users(home: Path) -> Path:
    return Path(os.environ["TOOLSTEAD_HOME"])


@pytest.fixture
def project(tmp_path: Path, home: Path, users: Path) -> Project:
    folder = tmp_path / "project"
    (folder / ".toolstead").mkdir(parents=True)
    (users / "plugins").mkdir(parents=True)
    (users / "plugins" / "guard.py").write_text(GUARD)
    return Project(folder, home)


def tell_time(project: Project) -> Finished:
    return project.command("tools", "call", "time__current_time", "timezone=Europe/Paris")


def gates_of(users: Path) -> Any:
    return json.loads((users / "data" / "state.json").read_text())["gates"]


@pytest.mark.parametrize("fault", BROKEN)
def test_a_gate_that_worked_once_denies_every_call_while_its_plugin_is_broken(
    project: Project, users: Path, fault: str
) -> None:
    code, settings, why = BROKEN[fault]
    file = users / "plugins" / "guard.py"
    assert tell_time(project).returncode == 0
    if code is None:
        file.unlink()
        os.mkfifo(file)
    else:
        file.write_text(code)
    (users / "config.toml").write_text(f"[plugins.guard]\n{settings}\n")

    denied = tell_time(project)
    assert (denied.returncode, denied.stdout) == (1, "")
    assert "time__current_time was refused: plugin 'guard' has to check it first and cannot: " in denied.stderr
    assert why in denied.stderr
    assert "toolstead plugins enable guard" in denied.stderr or "`toolstead plugins disable guard`" in denied.stderr
    assert len(gates_of(users)) == 1  # it is still remembered for the next process


def test_a_gate_that_went_denies_until_a_person_confirms_that_it_is_gone(project: Project, users: Path) -> None:
    assert tell_time(project).returncode == 0
    assert "hooks: on_before_tool" in project.command("plugins", "list").stdout
    (users / "plugins" / "guard.py").write_text(GUARD.replace("Hooks(on_before_tool=on_before_tool)", "Hooks()"))
    listed = project.command("plugins", "list").stdout
    assert "guard       1.0.0    failed" in listed
    assert "toolstead plugins enable guard" in listed
    assert tell_time(project).returncode == 1
    enabled = project.command("plugins", "enable", "guard")
    assert (enabled.returncode, "guard is enabled: running" in enabled.stderr) == (0, True)
    assert (tell_time(project).returncode, gates_of(users)) == (0, [])


def test_a_person_does_without_a_broken_gate_by_disabling_its_plugin(project: Project, users: Path) -> None:
    assert tell_time(project).returncode == 0
    (users / "config.toml").write_text("[plugins.guard]\nlimt = 3\n")
    assert project.command("plugins", "disable", "guard").returncode == 0
    assert (tell_time(project).returncode, gates_of(users)) == (0, [])
    again = project.command("plugins", "enable", "guard")  # forgotten: it may have a gate, as any plugin that never ran
    assert (again.returncode, "did you mean 'limit'?" in again.stderr) == (1, True)
    denied = tell_time(project)
    assert denied.returncode == 1
    assert "it may have a gate (`on_before_tool`), so it denies every call" in denied.stderr


def test_a_plugin_that_never_ran_here_denies_every_call_and_one_known_without_a_gate_none(
    project: Project, users: Path
) -> None:
    file = users / "plugins" / "guard.py"
    file.write_text(BROKEN["import"][0])
    denied = tell_time(project)
    assert (denied.returncode, denied.stdout) == (1, "")
    assert "time__current_time was refused: plugin 'guard' has to check it first and cannot" in denied.stderr
    assert "load: ModuleNotFoundError" in denied.stderr

    file.write_text("import no_such_module\nfrom toolstead import Plugin\nplugin = Plugin(name='guard', version='1')\n")
    assert tell_time(project).returncode == 0, "its text registers nothing, so it has no gate"
    file.write_text("from toolstead import Plugin\nplugin = Plugin(name='guard', version='1')\n")
    assert tell_time(project).returncode == 0
    file.write_text("oops(")
    harmless = tell_time(project)
    assert harmless.returncode == 0
    assert "if it has a gate (`on_before_tool`), that gate checks nothing" in harmless.stderr


def test_a_reset_and_a_removed_file_forget_a_gate_and_one_that_works_is_remembered_again(
    project: Project, users: Path
) -> None:
    file = users / "plugins" / "guard.py"
    assert tell_time(project).returncode == 0
    written = (users / "data" / "state.json").stat().st_mtime_ns
    assert tell_time(project).returncode == 0
    assert (users / "data" / "state.json").stat().st_mtime_ns == written  # only changes are written
    file.write_text("oops(")
    assert tell_time(project).returncode == 1
    assert project.command("plugins", "reset", "guard").returncode == 1
    assert (tell_time(project).returncode, gates_of(users)) == (0, [])  # its text registers nothing
    file.write_text(GUARD)
    assert (tell_time(project).returncode, len(gates_of(users))) == (0, 1)
    assert (project.command("plugins", "reset", "guard").returncode, len(gates_of(users))) == (0, 1)
    file.unlink()
    gone = project.command("-v", "tools", "call", "time__current_time")
    assert (gone.returncode, gates_of(users)) == (0, [])
    assert "plugin 'guard'" in gone.stderr
    assert "is gone, and its gate with it" in gone.stderr


async def test_an_mcp_server_that_starts_with_a_broken_gate_denies(project: Project, users: Path) -> None:
    assert (await asyncio.to_thread(tell_time, project)).returncode == 0
    (users / "config.toml").write_text("[plugins.guard]\nlimt = 3\n")
    messages = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "time__current_time", "arguments": {}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    served = await asyncio.to_thread(lambda: project.command("mcp", stdin=lines))
    answers = {answer["id"]: answer for answer in map(json.loads, served.stdout.splitlines()) if "id" in answer}
    assert answers[2]["result"]["isError"] is True
    assert "has to check it first and cannot" in answers[2]["result"]["content"][0]["text"]
