"""The available runtimes and models: which one is the default, and why; each is made at its first use.

Choosing loads nothing and sends no request. All conversations of a stead share what is made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import msgspec

from toolstead.adapters.importing import import_lock
from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import (
    MAIN,
    VENDORS,
    Lookup,
    Vendor,
    complete_name,
    default_model,
    find_model,
    state_of,
    vendor_states,
)
from toolstead.app.keys import Keys
from toolstead.app.version import VERSION
from toolstead.errors import RuntimeFailureError, suggest

if TYPE_CHECKING:
    from toolstead.adapters.providers.model import ProviderModel
    from toolstead.app.settings import RuntimeSettings
    from toolstead.invoker.runtime import Offered, Runtime
    from toolstead.kernel.model import Model
    from toolstead.tools.handlers.pinned import Pinned

NAMES = ("kernel", "claude", "codex", "scripted", "demo")
_NO_LIMIT = 10**12
"""Of the kernel itself: each turn brings the budgets of its agent."""
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


def choose_for_model(
    settings: RuntimeSettings, lookup: Lookup, given: Sequence[Runtime] = (), model: str = ""
) -> Choice:
    """The runtime of an agent with a model of its own: as the settings say, or one that runs the model."""
    choice = usual_runtime(settings, lookup, given, model)
    brought = next((one for one in given if one.name == choice.name), None)
    program = next((one for one in PROGRAMS if one.name == choice.name), None)
    try:
        if brought is not None:
            brought.resolve_model(model)
            return choice
        if not model or program is None or find_model(model)[0].name == program.vendor:
            return choice
    except RuntimeFailureError:
        if brought is None:
            return choice
    other = usual_runtime(msgspec.structs.replace(settings, default="auto"), lookup, (), model)
    return Choice(name=other.name, why=f"{choice.name} does not run {model}; {other.why}")


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


class Runtimes:
    """Finds a runtime by its name."""

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        project: Path,
        data: Path,
        keys: Keys,
        offered: Offered,
        pinned: Pinned | None = None,
        given: Sequence[Runtime] = (),
    ) -> None:
        """Decide which runtimes are available.

        Args:
            settings: Which one is usual, and how each is set.
            project: Where files that the settings name are.
            data: Where driven programs keep their data, each in a separate folder.
            keys: Those of model APIs.
            offered: The tools of an agent.
            pinned: The approved copy of the project's folder.
            given: Runtimes of the program's own; each comes before one of ours of its name.
        """
        self._settings = settings
        self._project = project
        self._data = data
        self._keys = keys
        self._offered = offered
        self._pinned = pinned
        self._models = Models(keys)
        self._given = given
        self._made: dict[str, Runtime] = {runtime.name: runtime for runtime in given}

    def __call__(self, name: str, model: str = "") -> Runtime:
        """The runtime of this name; an empty one means the settings' choice for this model.

        Raises:
            RuntimeFailureError: There is none of this name, or it is unavailable; the text says what to do.
        """
        wanted = self._usual_runtime(model) if name in ("", "auto") else name
        if wanted not in self._made:
            self._made[wanted] = self._make_runtime(wanted)
        return self._made[wanted]

    def find_for_model(self, model: str) -> Runtime:
        """The runtime that runs this model, whichever the settings prefer.

        Raises:
            RuntimeFailureError: None does; the text says what is missing.
        """
        choice = usual_runtime(msgspec.structs.replace(self._settings, default="auto"), self._keys, (), model)
        if choice.name is None:
            raise RuntimeFailureError(f"no runtime is available for {model!r}: {choice.why}")
        return self(choice.name)

    async def aclose(self) -> None:
        """Close what sessions share: connections to model APIs."""
        await self._models.aclose()

    def _usual_runtime(self, model: str) -> str:
        choice = usual_runtime(self._settings, self._keys, self._given, model)
        if choice.name is not None:
            return choice.name
        if not self._settings.model:
            return "kernel"  # the caller may name a model that needs no key; without one it says what is missing
        raise RuntimeFailureError(f"no runtime is available: {choice.why}; `toolstead doctor` says what to do")

    def _make_runtime(self, name: str) -> Runtime:
        if why := absence_reason(name):
            raise RuntimeFailureError(why)
        ways = {
            "kernel": self._make_kernel,
            "scripted": self._make_scripted,
            "claude": self._make_claude,
            "codex": self._make_codex,
        }
        return ways[name]()

    def _make_kernel(self) -> Runtime:
        from toolstead.invoker.kernel_runtime import KernelRuntime
        from toolstead.kernel.activation import Limits

        return KernelRuntime(
            connect=self._models.connect,
            resolve=self._models.resolve_model,
            offered=self._offered,
            limits=Limits(turns=self._settings.kernel.max_turns, tokens=_NO_LIMIT, cost=_NO_LIMIT),
        )

    def _make_claude(self) -> Runtime:
        from toolstead.adapters.claude.runtime import ClaudeRuntime

        own = self._settings.claude
        return ClaudeRuntime(
            environ=self._keys.environ,
            lookup=self._keys,
            offered=self._offered,
            folder=self._data / "claude",
            tools=own.tools,
            login=own.login,
            max_turns=own.max_turns,
        )

    def _make_codex(self) -> Runtime:
        from toolstead.adapters.codex.runtime import CodexRuntime

        own = self._settings.codex
        return CodexRuntime(
            offered=self._offered,
            folder=self._data / "codex",
            lookup=self._keys,
            login=own.login,
            tools=own.tools,
            max_turns=own.max_turns,
            version=VERSION,
        )

    def _make_scripted(self) -> Runtime:
        from toolstead.adapters.scripted.runtime import ScriptedRuntime
        from toolstead.adapters.scripted.script_file import load_script

        script = self._settings.scripted.script
        if not script:
            raise RuntimeFailureError("the scripted runtime needs a script: set runtime.scripted.script to its file")
        # A script in the project's own folder counts as it was approved, like everything there.
        path = self._project / Path(script).expanduser()
        kept = self._settings.scripted.folder
        return ScriptedRuntime(
            load_script(path if self._pinned is None else self._pinned.pin_path(path)),
            folder=self._project / Path(kept).expanduser() if kept else None,
        )


class Models:
    """Connects to model APIs by name."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._connecting = asyncio.Lock()
        self._connected: dict[str, ProviderModel] = {}

    def resolve_model(self, name: str) -> str:
        """The full name of a model; an empty one means the usual model of the first API with a key.

        Raises:
            RuntimeFailureError: There is no such model, or no key at all.
        """
        if name:
            return complete_name(name)
        usual = default_model(self._keys)
        if usual is None:
            keys = ", ".join(state.vendor.keys[0] for state in vendor_states(self._keys))
            raise RuntimeFailureError(
                f"no model is available: no key is set ({keys}), and no model is named that needs none; `toolstead"
                " doctor` says what to do. Without a model, a script can answer: --set"
                ' runtime.scripted.script=demo.yaml with "- say: Hello" in it'
            )
        return usual

    async def connect(self, name: str) -> Model:
        """The model of a full name, the same object every time.

        Raises:
            RuntimeFailureError: It is unavailable; the text says what to do.
        """
        if name in self._connected:  # it does not wait while another one is being connected
            return self._connected[name]
        async with self._connecting:
            if name not in self._connected:
                self._connected[name] = await asyncio.to_thread(self._connect, name)
            return self._connected[name]

    def _connect(self, name: str) -> ProviderModel:
        """Not on the event loop: importing an SDK takes most of a second, and a keyring may ask a person."""
        self._keys.load(find_model(name)[0].keys)
        with import_lock():
            from toolstead.adapters.providers.connect import connect

            return connect(name, self._keys)

    async def aclose(self) -> None:
        """Close every connection."""
        connected, self._connected = self._connected, {}
        for model in connected.values():
            await model.aclose()
