"""Chooses the default runtime, with the reason; loads nothing and sends no request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import (
    MAIN,
    VENDORS,
    Lookup,
    Vendor,
    default_model,
    find_model,
    state_of,
    vendor_states,
)
from toolstead.app.settings import RuntimeSettings
from toolstead.errors import RuntimeFailureError, suggest
from toolstead.invoker.runtime import Runtime

NAMES = ("kernel", "claude", "codex", "scripted", "demo")
_LATER = ("demo",)
"""Names that the settings know and that this version does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProgram:
    """A coding agent that can be driven.

    Attributes:
        name: Its runtime's name, its section of the settings, and its extra.
        title: Its name in messages.
        package: What must be importable.
        vendor: Whose models it asks.
        key: The environment's name of that vendor's key.
        brought_by: The distribution that has the program itself.
        inside: The program's place: the package that it lies in, and the path there.
        log_in: What is typed after the program to make a login.
        found_on_path: Whether one on PATH is taken where that file is missing.
    """

    name: str
    title: str
    package: str
    vendor: str
    key: str
    brought_by: str
    inside: tuple[str, str]
    log_in: str
    found_on_path: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return _is_there(self.package)

    @property
    def file(self) -> Path | None:
        """Where the program is that comes with the extra, or would be; None when its package is not there."""
        package, path = self.inside
        found = find_spec(package)
        return Path(found.origin).parent / path if found is not None and found.origin is not None else None

    def find_fault(self) -> str:
        """Why the program that comes with the extra cannot be started, as far as its file shows; else empty."""
        file, shown = self.file, "/".join(self.inside)
        if file is None:
            return f"{self.brought_by} is not installed"
        if not file.is_file():
            return "" if self.found_on_path and which(self.name) else f"{shown} is missing"
        return "" if os.access(file, os.X_OK) else f"{shown} may not be executed"


PROGRAMS = (
    RuntimeProgram(
        name="claude",
        title="Claude Code",
        package="claude_agent_sdk",
        vendor="anthropic",
        key="ANTHROPIC_API_KEY",
        brought_by="claude-agent-sdk",
        inside=("claude_agent_sdk", "_bundled/claude"),
        log_in="auth login",
        found_on_path=True,
    ),
    RuntimeProgram(
        name="codex",
        title="Codex",
        package="openai_codex",
        vendor="openai",
        key="OPENAI_API_KEY",
        brought_by="openai-codex-cli-bin",
        inside=("codex_cli_bin", "bin/codex"),
        log_in="login",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The default runtime.

    Attributes:
        name: The runtime; None when none is available.
        why: Why this one, empty when the settings name it; or what would be needed for one.
    """

    name: str | None
    why: str


def usual_runtime(settings: RuntimeSettings, lookup: Lookup, given: Sequence[Runtime] = (), model: str = "") -> Choice:
    """Choose a runtime as the settings say.

    Args:
        settings: Those of `[runtime]`.
        lookup: Gives keys.
        given: Runtimes that the program brings.
        model: The model that is wanted, instead of the settings'.
    """
    if settings.default != "auto":
        return Choice(name=settings.default, why="")
    if given:
        return Choice(name=given[0].name, why="the program brings it")
    if settings.scripted.script:
        return Choice(name="scripted", why="runtime.scripted.script is set")
    vendor: Vendor | None = None
    if wanted := model or settings.model:
        try:
            vendor = find_model(wanted)[0]
        except RuntimeFailureError as error:
            return Choice(name=None, why=str(error) if model else f"runtime.model: {error}")
    for program in PROGRAMS:
        if program.is_installed and (vendor is None or vendor.name == program.vendor):
            if getattr(settings, program.name).login:
                return Choice(name=program.name, why=f"runtime.{program.name}.login is set")
            if lookup(program.key):
                return Choice(name=program.name, why=f"{program.key} is set, {program.title} is installed")
    return _choose_kernel(vendor, lookup, "the model" if model else "runtime.model")


def _choose_kernel(vendor: Vendor | None, lookup: Lookup, what: str) -> Choice:
    """The kernel, where a model is available."""
    if vendor is not None:
        state = state_of(vendor, lookup)
        why = "is set" if state.usable else f"is set, and for {vendor.title} {state.advice}"
        return Choice(name="kernel" if state.usable else None, why=f"{what} {why}")
    usable = next((state for state in vendor_states(lookup) if state.usable), None)
    if usable is not None:
        return Choice(name="kernel", why=f"{usable.source} is set")
    needed = ", ".join(key for state in vendor_states(lookup) for key in state.vendor.keys[:1])
    return Choice(name=None, why=f"no model key is set ({needed}), and no runtime.model that needs none")


def usual_keys() -> list[str]:
    """The names of the keys that are looked up automatically."""
    return [key for vendor in VENDORS if vendor.name in MAIN for key in vendor.keys]


def lacking_keys(settings: RuntimeSettings, lookup: Lookup) -> list[str]:
    """The names of keys without which no runtime is available; a keyring may have one of them."""
    program = next((one for one in PROGRAMS if one.name == settings.default), None)
    if program is not None:
        return [] if getattr(settings, program.name).login or lookup(program.key) else [program.key]
    if settings.default not in ("auto", "kernel") or (settings.default == "auto" and settings.scripted.script):
        return []
    if not settings.model:
        return [] if default_model(lookup) else usual_keys()
    try:
        state = state_of(find_model(settings.model)[0], lookup)
    except RuntimeFailureError:
        return []  # a run refuses it, with the nearest name
    return [] if state.usable else list(state.vendor.keys)


def absence_reason(name: str) -> str:
    """Why there is no runtime of this name; empty when there is one."""
    program = next((one for one in PROGRAMS if one.name == name), None)
    if (
        program is not None and not program.is_installed and find_spec(program.package) is None
    ):  # it may be there by now
        return f"{program.title} is not installed: {install_command(name)}"
    if program is not None or name in ("kernel", "scripted"):
        return ""
    known = [one for one in NAMES if one not in _LATER]
    hint = suggest(name, known)
    hint = f"{hint} T" if hint else "t"
    why = "is not part of this version" if name in _LATER else "is unknown"
    return f"the runtime {name[:100]!r} {why}; {hint}he runtimes are {', '.join(known)}"


@cache
def _is_there(package: str) -> bool:
    return find_spec(package) is not None
