"""`toolstead doctor`: what can be used here, what to type about the rest, and never a key."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.surfaces.talking_project import Finished, Project
from toolstead.adapters import installing
from toolstead.adapters.installing import required_by
from toolstead.app.doctor import examine_setup
from toolstead.app.keys import Keys
from toolstead.app.runtime_programs import PROGRAMS, RuntimeProgram
from toolstead.app.settings import ProgramSettings, RuntimeSettings, ScriptedSettings

KEY = "sk-never-shown-0123456789"
UNTRIED = [
    "No request was sent, so this was free. To find out whether it answers, for the",
    "price of one short request:",
    '  toolstead ask "hello"',
]
EXTRAS = ["models", "claude", "codex", "postgres", "keyring"]


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    folder, user = tmp_path / "project", home / ".config" / "toolstead"
    (folder / ".toolstead").mkdir(parents=True)
    user.mkdir(parents=True)
    return Project(folder, user)


def run(project: Project, *arguments: str, **environ: str) -> Finished:
    # As in an activated environment, whose `pip` is the one beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    nowhere = "127.0.0.1:9"  # whatever this machine runs
    done = project.command("doctor", *arguments, **{"PATH": path, "OLLAMA_HOST": nowhere, **environ})
    assert done.stderr == ""
    assert KEY not in done.stdout
    assert "\x1b" not in done.stdout
    if "--json" not in arguments:
        assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    return done


def test_without_a_key_it_says_what_to_type_and_exits_with_1(project: Project) -> None:
    done = run(project)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("runtime   none: no model key is set (ANTHROPIC_API_KEY, ")
    for name in ("ANTHROPIC", "OPENAI", "GOOGLE"):
        at = next(at for at, line in enumerate(lines) if line.strip() == f"export {name}_API_KEY=…")
        assert lines[at - 2].endswith(": no key")
        assert lines[at - 1].strip() == f"→ toolstead keys set {name.lower()}"
    assert "  · kernel    our own loop: no key of a model, see below" in lines
    assert lines[-2:] == ["No agent can answer yet. Do this:", "  toolstead keys set anthropic  # or openai, google"]


@pytest.mark.parametrize(
    ("name", "vendor", "model"),
    [
        ("GOOGLE_API_KEY", "google", "google:gemini-3.8-flash"),
        ("GEMINI_API_KEY", "google", "google:gemini-3.8-flash"),
    ],
)
def test_a_key_is_named_and_not_shown_and_exits_with_0(project: Project, name: str, vendor: str, model: str) -> None:
    done = run(project, **{name: KEY})
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"runtime   kernel: {name} is set", f"model     {model}"]
    found = next(line for line in lines if line.startswith(f"  ✓ {vendor} "))
    assert found.endswith(f": {name} from the environment")
    assert lines[-3:] == UNTRIED
    assert f"  ✓ kernel    our own loop: can ask {vendor}" in lines


@pytest.mark.parametrize(
    ("runtime", "key", "title"), [("claude", "ANTHROPIC_API_KEY", "Claude Code"), ("codex", "OPENAI_API_KEY", "Codex")]
)
def test_a_program_is_taken_before_the_kernel_where_it_is_installed(
    project: Project, runtime: str, key: str, title: str
) -> None:
    done = run(project, **{key: KEY})
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"runtime   {runtime}: {key} is set, {title} is installed"
    assert next(line for line in lines if line.startswith(f"  ✓ {runtime} ")).endswith(
        f"{title}: {key} from the environment"
    )
    assert "✗" not in done.stdout  # what else is missing is not needed
    assert lines[-3:] == UNTRIED  # what is chosen may be wrong all the same, and to find out costs something


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_login_is_not_looked_at_and_the_command_that_makes_one_is_told(
    program: RuntimeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RuntimeProgram, "is_installed", property(lambda _self: True))
    monkeypatch.setattr(RuntimeProgram, "file", property(lambda _self: Path(sys.executable)))
    logins = {"claude": RuntimeSettings(claude=ProgramSettings(login=True))}
    logins["codex"] = RuntimeSettings(codex=ProgramSettings(login=True))
    report = examine_setup(logins[program.name], Keys({}))
    assert (report.choice.name, report.choice.why) == (program.name, f"runtime.{program.name}.login is set")
    found = next(one for one in report.runtimes if one.name == program.name)
    assert found.good
    assert "with your own login, which is not checked" in found.says
    assert found.todo == (f"{shlex.quote(sys.executable)} {program.log_in}",)


@pytest.mark.parametrize(("mode", "why"), [(0o600, "may not be executed"), (None, "is missing")])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_that_cannot_be_started_is_told_with_the_command_that_mends_it(
    program: RuntimeProgram, mode: int | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / program.name
    if mode is not None:
        file.touch(mode)
    monkeypatch.setattr(RuntimeProgram, "is_installed", property(lambda _self: True))
    monkeypatch.setattr(RuntimeProgram, "file", property(lambda _self: file))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    report = examine_setup(RuntimeSettings(), Keys({program.key: KEY}))
    told = f"{program.title} cannot be started: {'/'.join(program.inside)} {why}"
    assert (report.can_answer, report.choice.name) == (False, None)
    assert report.choice.why == f"{program.key} is set, {program.title} is installed; {told}"
    found = next(one for one in report.runtimes if one.name == program.name)
    assert (found.good, found.says) == (False, told)
    assert found.todo == (f"pip install --force-reinstall --no-deps {program.brought_by}",)
    for unused in (
        examine_setup(RuntimeSettings(), Keys({})),
        examine_setup(RuntimeSettings(default="kernel"), Keys({program.key: KEY})),
    ):
        assert next(one for one in unused.runtimes if one.name == program.name).good is None


@pytest.mark.parametrize(("program", "good"), [("claude", True), ("codex", False)])
def test_of_the_programs_only_claude_is_also_taken_from_the_path(
    program: str, good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / program).touch(0o700)
    monkeypatch.setattr(RuntimeProgram, "is_installed", property(lambda _self: True))
    monkeypatch.setattr(RuntimeProgram, "file", property(lambda _self: tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = next(one for one in PROGRAMS if one.name == program)
    assert examine_setup(RuntimeSettings(), Keys({asked.key: KEY})).can_answer is good


def test_a_program_is_looked_for_where_its_extra_puts_it() -> None:
    for program in PROGRAMS:
        if program.is_installed:
            assert program.file is not None
            assert program.find_fault() == ""


def test_the_command_installs_beside_this_toolstead_and_not_where_another_pip_would(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(RuntimeProgram, "is_installed", property(lambda _self: False))

    def todo() -> str:
        return examine_setup(RuntimeSettings(), Keys({})).runtimes[0].todo[0]

    claude = " ".join(f'"{one}"' for one in required_by("claude"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my venv" / "python"))
    assert todo() == f"'{tmp_path}/my venv/python' -m pip install {claude}"
    monkeypatch.setattr(installing, "which", lambda _name: str(tmp_path / "my venv" / "pip"))
    assert todo() == f"pip install {claude}"
    monkeypatch.setattr(installing, "which", lambda _name: "/usr/bin/pip")
    monkeypatch.setattr(installing, "find_spec", lambda _name: None)
    assert todo() == f"uv pip install --python '{tmp_path}/my venv/python' {claude}"


def test_an_address_of_ones_own_is_shown_without_the_password_in_it(project: Project) -> None:
    done = run(project, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"https://me:{KEY}@models.example/v1")
    assert done.returncode == 0
    assert "https://********@models.example/v1" in done.stdout


def test_a_provider_that_nobody_knows_leads_to_the_command_that_sets_another(project: Project) -> None:
    done = run(project, "--set", "runtime.model=nosuch:x")
    assert done.returncode == 1
    assert "✗" not in done.stdout
    assert done.stdout.splitlines()[-2:] == [
        "No agent can answer yet. Do this:",
        "  toolstead config set runtime.model PROVIDER:NAME  # another model",
    ]


def test_a_model_of_ones_own_needs_no_key(project: Project) -> None:
    done = run(project, "--set", "runtime.model=ollama:qwen")
    assert done.returncode == 0
    assert "runtime   kernel: runtime.model is set\nmodel     ollama:qwen\n" in done.stdout
    assert "✓ ollama     Ollama: needs no key, at http://localhost:9/v1\n" in done.stdout


def test_json_has_everything_in_one_shape(project: Project) -> None:
    done = run(project, "--json", "--set", "runtime.default=kernel", OPENAI_API_KEY=KEY)
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert list(report) == [
        "good",
        "runtime",
        "runtimeReason",
        "model",
        "runtimes",
        "models",
        "extras",
        "review",
        "delegates",
        "server",
        "database",
    ]
    shown = (report["good"], report["runtime"], report["runtimeReason"], report["model"])
    assert shown == (True, "kernel", "", "openai:gpt-6.1-terra")
    assert [(one["name"], one["good"]) for one in report["runtimes"]] == [
        ("claude", None),
        ("codex", True),
        ("kernel", True),
        ("scripted", None),
    ]
    assert [(one["name"], one["good"]) for one in report["models"]] == [
        ("anthropic", None),
        ("openai", True),
        ("google", None),
        ("openai-chat", True),
    ]
    assert [one["name"] for one in report["extras"]] == EXTRAS
    for one in (*report["runtimes"], *report["models"], *report["extras"]):
        assert list(one) == ["name", "good", "says", "todo"]
    assert report["models"][0]["todo"] == [
        "toolstead keys set anthropic",
        "export ANTHROPIC_API_KEY=…",
    ]
    bad = run(project, "--json")
    assert (bad.returncode, json.loads(bad.stdout)["good"], json.loads(bad.stdout)["model"]) == (1, False, None)


# The package is taken away from the program by a module that Python imports first.
_WITHOUT = """
import importlib.metadata as metadata
usual = metadata.version
def version(name):
    if name == "pydantic-ai-slim":
        raise metadata.PackageNotFoundError(name)
    return usual(name)
metadata.version = version
"""


@pytest.mark.parametrize(("environ", "mark"), [({"GOOGLE_API_KEY": KEY}, "✗"), ({}, "·")])
def test_a_missing_extra_is_named_with_the_command_that_brings_it(
    project: Project, environ: Mapping[str, str], mark: str, tmp_path: Path
) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(_WITHOUT, encoding="utf-8")
    places = os.pathsep.join([str(tmp_path / "first"), os.environ.get("PYTHONPATH", "")])
    done = run(project, PYTHONPATH=places, **environ)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert f"  {mark} kernel    our own loop: pydantic-ai-slim is not installed" in lines
    at = lines.index(f"  {mark} models    pydantic-ai-slim is not installed")
    assert lines[at + 1].strip() == f'→ pip install "{required_by("models")[0]}"'
    broken = "No agent can answer yet: follow the → below each ✗."
    assert (lines[-1] == broken) is bool(environ)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (RuntimeSettings(default="claude"), "runtime.default is claude; Claude Code: no key, and no login allowed"),
        (
            RuntimeSettings(default="claude", model="gemini-3.8-flash", claude=ProgramSettings(login=True)),
            "runtime.model is gemini-3.8-flash, a model of Google, and Claude Code cannot ask it",
        ),
        (
            RuntimeSettings(default="claude", model="opsu", claude=ProgramSettings(login=True)),
            "model 'opsu' has no provider; did you mean 'opus'?",
        ),
        (RuntimeSettings(default="scripted"), "runtime.default is scripted, and runtime.scripted.script is not set"),
        (RuntimeSettings(default="kernel"), "no model is set up: no key is set (ANTHROPIC_API_KEY, "),
        (RuntimeSettings(default="kernel", model="groq:x"), "for groq:x set GROQ_API_KEY"),
        (RuntimeSettings(default="kernel", model="sonet"), "model 'sonet' has no provider; did you mean 'sonnet'?"),
        (RuntimeSettings(model="groq:x"), "runtime.model is set, and for Groq set GROQ_API_KEY"),
    ],
)
def test_it_is_not_good_where_asking_would_be_refused(settings: RuntimeSettings, why: str) -> None:
    report = examine_setup(settings, Keys({}))
    assert (report.can_answer, report.choice.name, report.model) == (False, None, None)
    assert report.choice.why.startswith(why)


def test_codex_may_know_a_model_that_nobody_else_knows() -> None:
    settings = RuntimeSettings(default="codex", model="codex-of-its-own", codex=ProgramSettings(login=True))
    assert examine_setup(settings, Keys({})).choice.name == "codex"


def test_a_script_is_good_without_any_model() -> None:
    report = examine_setup(RuntimeSettings(scripted=ScriptedSettings(script="x.yaml")), Keys({}))
    assert (report.can_answer, report.choice.name, report.model) == (True, "scripted", None)
    assert json.loads(json.dumps(report.to_json()))["runtimes"][-1] == {
        "name": "scripted",
        "good": True,
        "says": "a script instead of a model: x.yaml",
        "todo": [],
    }


def test_a_key_in_the_keyring_does_not_change_what_the_environment_chooses() -> None:
    """As for whoever asks an agent: the keyring is asked before the choice only when nobody could answer without."""

    class Kept(Keys):
        def load(self, names: object) -> None:
            assert isinstance(names, list)
            if "ANTHROPIC_API_KEY" in names:
                self._kept["ANTHROPIC_API_KEY"] = KEY

    report = examine_setup(RuntimeSettings(), Kept({"GOOGLE_API_KEY": KEY}))
    assert (report.choice.why, report.model) == ("GOOGLE_API_KEY is set", "google:gemini-3.8-flash")
    assert report.models[0].says == "Anthropic: ANTHROPIC_API_KEY from the keyring"
    alone = examine_setup(RuntimeSettings(default="kernel"), Kept({}))
    assert (alone.choice.name, alone.model) == ("kernel", "anthropic:claude-sonnet-5-5")


def test_that_nobody_reviews_delegated_results_is_told_where_there_are_any(project: Project) -> None:
    told = "`toolstead plugins enable validation` has every"

    def review(*settings: str) -> str:
        return json.loads(run(project, "--json", *settings).stdout)["review"]

    never = ("--set", "plugins.delegation.enabled=false")
    named = (*never, "--set", 'multi_agent.agents=["coder"]')
    assert review(*never) == "", "nothing can be delegated"
    for delegating in ((), named):
        assert told in run(project, *delegating).stdout
        assert told in review(*delegating)
        assert review(*delegating, "--set", "plugins.validation.enabled=true") == ""
    assert project.command("plugins", "enable", "validation").returncode == 0
    assert review(*named) == ""
    assert project.command("plugins", "disable", "validation").returncode == 0
    assert told in review(*named, "--set", "plugins.validation.enabled=true")
