"""Checks which models, keys, extras and runtimes can be used here, and how to enable the others.

It imports nothing heavy and sends no request to a model, so it costs nothing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from toolstead.adapters.installing import install_command, reinstall_command
from toolstead.adapters.providers.catalogue import MAIN, VENDORS, VendorState, complete_name, find_model, state_of
from toolstead.app.keys import Keys
from toolstead.app.masks import mask_value
from toolstead.app.plugin_places import is_switched_on
from toolstead.app.runtime_programs import PROGRAMS, RuntimeProgram
from toolstead.app.runtimes import (
    Choice,
    Models,
    absence_reason,
    lacking_keys,
    usual_keys,
    usual_runtime,
)
from toolstead.app.settings import RuntimeSettings, Settings
from toolstead.app.setup_steps import Lack, OllamaServer, SetupWay, find_first_steps, find_lack
from toolstead.errors import RuntimeFailureError
from toolstead.types.plugin_row import PluginRow

EXTRAS = {
    "models": ("pydantic-ai-slim", "anthropic", "openai", "google-genai"),
    "claude": ("claude-agent-sdk",),
    "codex": ("openai-codex",),
    "postgres": ("asyncpg",),
    "keyring": ("keyring",),
}
"""The packages that an extra brings."""
VALIDATION_OFF = "validation: off; `toolstead plugins enable validation` has every delegated result reviewed by a model"


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked.

    Attributes:
        name: What it is.
        good: Whether it can be used; None when it is not needed as things are.
        says: What was found.
        todo: What to type, one of these; empty when nothing needs to be done.
    """

    name: str
    good: bool | None
    says: str
    todo: tuple[str, ...] = ()


class ServerFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The running server of the project, which answers `toolstead ask` with its own environment.

    Attributes:
        url: Its address.
        runtime: Which runtime answers there; None when none can.
        why: Why this one, or what is missing.
    """

    url: str
    runtime: str | None
    why: str


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was checked.

    Attributes:
        choice: Which runtime answers, and why.
        model: Which model it asks; None when there is none.
        runtimes: What can drive a model: the programs, our own loop, a script.
        models: The APIs.
        extras: The optional parts.
        review: Who reviews delegated results, where that deserves a word; else empty.
        delegates: Agents that the settings let every agent delegate to, and that are not there: a sentence for each.
        advice: The commands that make a model answer, where none can; else empty.
        server: The running server of the project.
        database: Which database is used, and whether it answers.
    """

    choice: Choice
    model: str | None
    runtimes: list[DoctorFinding]
    models: list[DoctorFinding]
    extras: list[DoctorFinding]
    review: str = ""
    delegates: tuple[str, ...] = ()
    advice: str = ""
    server: ServerFinding | None = None
    database: str = ""

    @property
    def can_answer(self) -> bool:
        """Whether `toolstead ask` would get as far as sending a request: by the server, where one runs."""
        return self.can_answer_here if self.server is None else self.server.runtime is not None

    @property
    def can_answer_here(self) -> bool:
        """Whether this process would get as far."""
        return self.choice.name is not None and not any(item.good is False for item in self.extras)

    def to_json(self) -> dict[str, Any]:
        """The shape of `doctor --json`."""
        return {
            "good": self.can_answer,
            "runtime": self.choice.name,
            "runtimeReason": self.choice.why,
            "model": self.model,
            "runtimes": msgspec.to_builtins(self.runtimes),
            "models": msgspec.to_builtins(self.models),
            "extras": msgspec.to_builtins(self.extras),
            "review": self.review,
            "delegates": list(self.delegates),
            "server": msgspec.to_builtins(self.server),
            "database": self.database,
        }


def examine_setup(
    settings: RuntimeSettings, keys: Keys | None = None, ollama: OllamaServer | None = None
) -> DoctorReport:
    """Check everything.

    Args:
        settings: Those of `[runtime]`.
        keys: Those of the process's environment unless given.
        ollama: The Ollama that answers on this machine.
    """
    keys = Keys(os.environ) if keys is None else keys
    keys.load(lacking_keys(settings, keys))  # as a run does, so that the same runtime is chosen here
    choice, model = _chosen_runtime(settings, keys)
    keys.load(usual_keys())
    vendor_in_use = find_model(model)[0] if model is not None else None
    vendors = [vendor for vendor in VENDORS if vendor.name in MAIN or vendor is vendor_in_use or vendor.find_key(keys)]
    extras = [_examine_extra(name, packages, "models" if model else None) for name, packages in EXTRAS.items()]
    models = [_examine_api(state_of(vendor, keys), keys) for vendor in vendors]
    if ollama is not None:
        models = [*(one for one in models if one.name != "ollama"), _describe_ollama(ollama)]
    return DoctorReport(
        choice=choice,
        model=model,
        runtimes=[
            *(_examine_program(program, settings, keys) for program in PROGRAMS),
            _examine_kernel(extras[0], models),
            _examine_scripted(settings),
        ],
        models=models,
        extras=extras,
        advice=_advise_way(settings, keys, ollama) if choice.name is None else "",
    )


def _advise_way(settings: RuntimeSettings, keys: Keys, ollama: OllamaServer | None) -> str:
    """The commands that make what the settings name answer, or, where they name nothing, whatever is nearest."""
    try:
        if settings.default not in ("auto", "kernel"):
            lack = find_lack(settings.default, "", settings, keys)
        elif settings.model:
            lack = find_lack("kernel", complete_name(settings.model), settings, keys)
        else:
            lack = find_first_steps(settings.default, settings, keys, ollama)
    except RuntimeFailureError as error:
        way = SetupWay(steps=("toolstead config set runtime.model PROVIDER:NAME",), note="another model")
        lack = Lack(reason=str(error), ways=(way,))
    return lack.render_ways() if lack is not None else ""


def _describe_ollama(ollama: OllamaServer) -> DoctorFinding:
    if not ollama.models:
        return DoctorFinding(
            name="ollama", good=None, says=f"Ollama: has no model, at {ollama.url}", todo=("ollama pull qwen3",)
        )
    return DoctorFinding(name="ollama", good=True, says=f"Ollama: {', '.join(ollama.models[:3])}, at {ollama.url}")


def examine_review(settings: Settings, rows: Mapping[str, PluginRow]) -> str:
    """A sentence about reviews, where work can be delegated and no model reviews it; else empty.

    Args:
        settings: The settings.
        rows: What people switched.
    """

    def is_on(name: str) -> bool:
        stored = rows.get(name, PluginRow()).enabled
        return is_switched_on(name, stored, settings.plugins.get(name, {}), is_first_party=True)

    can_delegate = bool(settings.multi_agent.agents) or is_on("delegation")
    return VALIDATION_OFF if can_delegate and not is_on("validation") else ""


def _chosen_runtime(settings: RuntimeSettings, keys: Keys) -> tuple[Choice, str | None]:
    """The runtime that answers and its model; none with what is missing, when asking would be refused."""
    choice = usual_runtime(settings, keys)
    if choice.name is not None and (why := absence_reason(choice.name)):
        return Choice(name=None, why=f"runtime.default: {why}"), None
    if choice.name == "scripted" and not settings.scripted.script:
        return Choice(name=None, why="runtime.default is scripted, and runtime.scripted.script is not set"), None
    program = next((one for one in PROGRAMS if one.name == choice.name), None)
    if program is not None:
        found = _examine_program(program, settings, keys)
        if not found.good:
            return Choice(name=None, why=f"{choice.why or f'runtime.default is {program.name}'}; {found.says}"), None
        unfit = _unfit_reason(program, settings.model)
        return (Choice(name=None, why=unfit) if unfit else choice), None
    if choice.name != "kernel":
        return choice, None
    try:
        model = Models(keys).resolve_model(settings.model)
    except RuntimeFailureError as error:
        return Choice(name=None, why=str(error)), None
    state = state_of(find_model(model)[0], keys)
    if not state.usable:
        return Choice(name=None, why=f"for {model} {state.advice}"), None
    return choice, model


def _unfit_reason(program: RuntimeProgram, model: str) -> str:
    """Why a program cannot ask the model of the settings; empty when it can, or may know it where we do not."""
    try:
        vendor = find_model(model)[0] if model else None
    except RuntimeFailureError as error:
        return "" if program.name == "codex" else str(error)
    if vendor is None or vendor.name == program.vendor:
        return ""
    return f"runtime.model is {model}, a model of {vendor.title}, and {program.title} cannot ask it"


def _examine_program(program: RuntimeProgram, settings: RuntimeSettings, keys: Keys) -> DoctorFinding:
    name, title = program.name, program.title
    if not program.is_installed:
        own = program.find_own(keys("PATH"))
        says = (
            f"{title}: not installed"
            if own is None
            else f"{title} is here ({own}); what Toolstead drives it with is not"
        )
        return DoctorFinding(name=name, good=None, says=says, todo=(install_command(name),))
    login = getattr(settings, name).login
    if fault := program.find_fault():
        wanted = settings.default in ("auto", name) and (login or keys(program.key))
        return DoctorFinding(
            name=name,
            good=False if wanted else None,
            says=f"{title} cannot be started: {fault}",
            todo=(reinstall_command(program.brought_by),),
        )
    if login:
        return DoctorFinding(
            name=name,
            good=True,
            says=f"{title}: with your own login, which is not checked. If there is none:",
            todo=(f"{shlex.quote(str(program.file))} {program.log_in}",),
        )
    if keys(program.key):
        return DoctorFinding(name=name, good=True, says=f"{title}: {program.key} from {keys.origin_of(program.key)}")
    return DoctorFinding(
        name=name,
        good=None,
        says=f"{title}: no key, and no login allowed",
        todo=(f"toolstead keys set {program.vendor}", f"toolstead config set runtime.{name}.login true"),
    )


def _examine_kernel(extra: DoctorFinding, models: list[DoctorFinding]) -> DoctorFinding:
    """Our own loop: it needs the extra, and a model that can be asked."""
    usable = next((model.name for model in models if model.good), None)
    if extra.todo:
        return DoctorFinding(name="kernel", good=extra.good, says=f"our own loop: {extra.says}", todo=extra.todo)
    if usable is None:
        return DoctorFinding(name="kernel", good=None, says="our own loop: no key of a model, see below")
    return DoctorFinding(name="kernel", good=True, says=f"our own loop: can ask {usable}")


def _examine_scripted(settings: RuntimeSettings) -> DoctorFinding:
    if script := settings.scripted.script:
        return DoctorFinding(name="scripted", good=True, says=f"a script instead of a model: {script}")
    return DoctorFinding(
        name="scripted",
        good=None,
        says="a script instead of a model: none is set",
        todo=("toolstead ask --set runtime.scripted.script=FILE …",),
    )


def _examine_api(state: VendorState, keys: Keys) -> DoctorFinding:
    vendor = state.vendor
    if not state.usable:
        missing = state.advice.removeprefix("set ").partition(" or ")[0]
        kept = (f"toolstead keys set {vendor.name}",) if missing in vendor.keys else ()
        return DoctorFinding(
            name=vendor.name, good=None, says=f"{vendor.title}: no key", todo=(*kept, f"export {missing}=…")
        )
    says = f"{state.source} from {keys.origin_of(state.source)}" if state.source else "needs no key"
    address = vendor.find_address(keys)
    elsewhere = f", at {mask_value((), address)}" if address != vendor.url or not vendor.needs_key else ""
    return DoctorFinding(name=vendor.name, good=True, says=f"{vendor.title}: {says}{elsewhere}")


def _examine_extra(name: str, packages: tuple[str, ...], needed: str | None) -> DoctorFinding:
    try:
        return DoctorFinding(
            name=name, good=True, says=", ".join(f"{package} {version(package)}" for package in packages)
        )
    except PackageNotFoundError as error:
        return DoctorFinding(
            name=name,
            good=False if name == needed else None,
            says=f"{error.name} is not installed",
            todo=(install_command(name),),
        )
