"""Which runtime answers when nobody says, and what is said about one that cannot be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.installing import install_command
from toolstead.app.keys import Keys
from toolstead.app.runtime_programs import PROGRAMS, RuntimeProgram
from toolstead.app.runtimes import (
    NAMES,
    Choice,
    Runtimes,
    absence_reason,
    lacking_keys,
    usual_runtime,
)
from toolstead.app.settings import ProgramSettings, RuntimeSettings, ScriptedSettings
from toolstead.errors import RuntimeFailureError

SCRIPTED = ScriptedSettings(script="script.yaml")
NO_KEY = "no model key is set (ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY), and no runtime.model that needs none"
CLAUDE = "ANTHROPIC_API_KEY is set, Claude Code is installed"
CODEX = "OPENAI_API_KEY is set, Codex is installed"
MAIN_KEYS = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"]


def runtimes(settings: RuntimeSettings, environ: dict[str, str], project: Path) -> Runtimes:
    return Runtimes(settings, project=project, data=project, keys=Keys(environ), offered=lambda _: ())


@pytest.mark.requires("claude", "codex")
@pytest.mark.parametrize(
    ("settings", "environ", "name", "why"),
    [
        ({}, {}, None, NO_KEY),
        ({}, {"ANTHROPIC_API_KEY": " "}, None, NO_KEY),
        ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, None, NO_KEY),
        ({}, {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "claude", CLAUDE),
        ({}, {"OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"}, "codex", CODEX),
        ({"model": "sonnet"}, {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "claude", CLAUDE),
        ({"model": "gpt-6.1-terra"}, {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "codex", CODEX),
        (
            {"model": "openai-chat:x"},
            {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"},
            "kernel",
            "runtime.model is set",
        ),
        ({"claude": ProgramSettings(login=True)}, {"OPENAI_API_KEY": "o"}, "claude", "runtime.claude.login is set"),
        ({"codex": ProgramSettings(login=True)}, {"GEMINI_API_KEY": "g"}, "codex", "runtime.codex.login is set"),
        ({}, {"GEMINI_API_KEY": "g"}, "kernel", "GEMINI_API_KEY is set"),
        ({}, {"GROQ_API_KEY": "q"}, None, NO_KEY),
        ({"scripted": SCRIPTED}, {"ANTHROPIC_API_KEY": "a"}, "scripted", "runtime.scripted.script is set"),
        ({"model": "ollama:x"}, {}, "kernel", "runtime.model is set"),
        ({"model": "vllm:x"}, {}, None, "runtime.model is set, and for vLLM set VLLM_BASE_URL"),
        ({"model": "groq:x"}, {}, None, "runtime.model is set, and for Groq set GROQ_API_KEY"),
        ({"model": "gemini-9"}, {}, None, "runtime.model is set, and for Google set GOOGLE_API_KEY or GEMINI_API_KEY"),
        ({"model": "groq:x"}, {"GROQ_API_KEY": "q"}, "kernel", "runtime.model is set"),
        ({"default": "kernel"}, {}, "kernel", ""),
        ({"default": "scripted"}, {"ANTHROPIC_API_KEY": "a"}, "scripted", ""),
    ],
)
def test_the_usual_runtime_is_chosen_by_the_settings_then_by_a_key(
    settings: dict[str, Any], environ: dict[str, str], name: str | None, why: str
) -> None:
    assert usual_runtime(RuntimeSettings(**settings), Keys(environ)) == Choice(name=name, why=why)


def test_a_model_that_nobody_knows_is_named_with_the_nearest() -> None:
    choice = usual_runtime(RuntimeSettings(model="antropic:x"), Keys({"ANTHROPIC_API_KEY": "a"}))
    assert choice.name is None
    assert choice.why.startswith("runtime.model: model 'antropic:x': there is no provider 'antropic'; did you mean 'an")


@pytest.mark.parametrize(
    ("settings", "environ", "names"),
    [
        ({}, {}, MAIN_KEYS),
        ({"default": "kernel"}, {}, MAIN_KEYS),
        ({"default": "kernel", "scripted": SCRIPTED}, {}, MAIN_KEYS),
        ({}, {"OPENAI_API_KEY": "o"}, []),
        ({"model": "groq:x"}, {"OPENAI_API_KEY": "o"}, ["GROQ_API_KEY"]),
        ({"model": "groq:x"}, {"GROQ_API_KEY": "q"}, []),
        ({"model": "ollama:x"}, {}, []),
        ({"model": "no such"}, {}, []),
        ({"scripted": SCRIPTED}, {}, []),
        ({"default": "scripted"}, {}, []),
    ],
)
def test_a_keyring_is_asked_only_for_what_nobody_answers_without(
    settings: dict[str, Any], environ: dict[str, str], names: list[str]
) -> None:
    assert lacking_keys(RuntimeSettings(**settings), Keys(environ)) == names


@pytest.mark.parametrize("name", ["", "auto", "kernel"])
def test_the_kernel_is_one_object_and_answers_with_the_usual_model(name: str, tmp_path: Path) -> None:
    found = runtimes(RuntimeSettings(), {"GOOGLE_API_KEY": "g"}, tmp_path)
    assert found(name) is found("kernel")
    assert (found(name).name, found(name).owns_process) == ("kernel", False)
    assert found(name).resolve_model("") == "google:gemini-3.8-flash"


@pytest.mark.requires("claude", "codex")
def test_the_model_that_is_wanted_has_a_say_in_what_is_chosen(tmp_path: Path) -> None:
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "GOOGLE_API_KEY": "g"}
    found = runtimes(RuntimeSettings(), keys, tmp_path)
    wanted = {
        "": "claude",
        "opus": "claude",
        "gpt-6.1-terra": "codex",
        "gemini-3.8-flash": "kernel",
        "ollama:x": "kernel",
    }
    assert {model: found("", model).name for model in wanted} == wanted
    assert found("kernel", "opus").name == "kernel"  # who names a runtime gets it


def test_without_any_key_a_model_that_needs_none_can_still_be_named(tmp_path: Path) -> None:
    found = runtimes(RuntimeSettings(), {}, tmp_path)("")
    assert found.resolve_model("ollama:qwen") == "ollama:qwen"
    with pytest.raises(RuntimeFailureError, match=r"no model is set up: no key is set .*`toolstead doctor`"):
        found.resolve_model("")


async def test_a_set_model_without_its_key_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    found = runtimes(RuntimeSettings(model="groq:x"), {"OPENAI_API_KEY": "o"}, tmp_path)
    wanted = (
        r"^groq:x needs a key of Groq; nothing was asked\. Do this:\n  toolstead keys set groq\nMore: toolstead doctor$"
    )
    with pytest.raises(RuntimeFailureError, match=wanted):
        await found.check_ready("kernel", "groq:x")
    with pytest.raises(RuntimeFailureError, match=wanted):
        found("")  # the keyring has been asked by now


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nope", "^the runtime 'nope' is unknown; the runtimes are kernel, claude, codex, scripted$"),
        ("cluade", "^the runtime 'cluade' is unknown; did you mean 'claude'\\? The runtimes are kernel, claude, "),
        ("scripted", "set runtime.scripted.script to its file"),
    ],
)
def test_a_runtime_that_cannot_be_had_is_refused_in_words(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailureError, match=says):
        runtimes(RuntimeSettings(), {}, tmp_path)(name)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_that_is_not_installed_is_refused_with_the_command_before_anything_is_stored(
    program: RuntimeProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = runtimes(RuntimeSettings(), {}, tmp_path)
    monkeypatch.setattr(RuntimeProgram, "is_installed", property(lambda _self: False))
    monkeypatch.setattr("toolstead.app.runtimes.find_spec", lambda _package: None)
    with pytest.raises(RuntimeFailureError) as refused:
        found(program.name)
    assert str(refused.value) == f"{program.title} is not installed: {install_command(program.name)}"
    monkeypatch.setattr("toolstead.app.runtimes.find_spec", lambda _package: "it is there by now")
    assert found(program.name).name == program.name


def test_what_is_called_absent_is_exactly_what_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("- say: hello", encoding="utf-8")
    found = runtimes(RuntimeSettings(scripted=SCRIPTED), {}, tmp_path)
    for name in NAMES:
        if absence_reason(name):
            with pytest.raises(RuntimeFailureError):
                found(name)
        else:
            assert found(name).name == name
