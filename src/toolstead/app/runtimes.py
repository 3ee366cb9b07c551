"""The available runtimes and models: which one is the default, and why; each is made at its first use.

Choosing loads nothing and sends no request. All conversations of a stead share what is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.adapters.importing import import_lock
from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import (
    MAIN,
    VENDORS,
    Vendor,
    complete_name,
    default_model,
    find_model,
    state_of,
    vendor_states,
)
from toolstead.app.keys import Keys
from toolstead.app.runtime_programs import PROGRAMS
from toolstead.app.setup_steps import find_first_steps, find_lack, find_local_models, find_needed_keys, find_ollama
from toolstead.app.version import VERSION
from toolstead.errors import MissingModelError, RuntimeFailureError
from toolstead.nearest_names import suggest

if TYPE_CHECKING:
    from toolstead.adapters.providers.model import ProviderModel
    from toolstead.app.settings import RuntimeSettings
    from toolstead.invoker.kernel_runtime import Recall
    from toolstead.invoker.runtime import Offered, Runtime
    from toolstead.kernel.model import Model
    from toolstead.tools.handlers.pinned import Pinned

NAMES = ("kernel", "claude", "codex", "scripted")
_NO_LIMIT = 10**12
"""Of the kernel itself: each turn brings the budgets of its agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The default runtime.

    Attributes:
        name: The runtime; None when none is available.
        why: Why this one, empty when the settings name it; or what would be needed for one.
        model: The model that it asks, where that is known.
    """

    name: str | None
    why: str
    model: str = ""

    def to_json(self) -> dict[str, Any]:
        """What health says of it."""
        return {"runtime": self.name, "runtimeReason": self.why, "model": self.model}


def usual_runtime(settings: RuntimeSettings, lookup: Keys, given: Sequence[Runtime] = (), model: str = "") -> Choice:
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
                return Choice(
                    name=program.name, why=f"{lookup.describe_set(program.key)}, {program.title} is installed"
                )
    return _choose_kernel(vendor, lookup, "the model" if model else "runtime.model")


def choose_ready(settings: RuntimeSettings, lookup: Keys, given: Sequence[Runtime] = (), model: str = "") -> Choice:
    """The runtime that would answer for a model; none, with what is missing, where asking would be refused."""
    choice = choose_for_model(settings, lookup, given, model)
    if choice.name is None or any(runtime.name == choice.name for runtime in given):
        return choice
    if why := absence_reason(choice.name):
        return Choice(name=None, why=f"runtime.default: {why}")
    if choice.name == "kernel" and not (model or settings.model or default_model(lookup)):
        return Choice(name=None, why=_explain_no_key(lookup))
    try:
        wanted = model or settings.model or default_model(lookup) or ""
        lack = find_lack(choice.name, complete_name(wanted) if choice.name == "kernel" else "", settings, lookup)
    except RuntimeFailureError as error:
        return Choice(name=None, why=str(error))
    if lack is not None:
        return Choice(name=None, why=lack.reason)
    return replace(choice, model=complete_name(wanted) if choice.name == "kernel" else model or settings.model)


def choose_for_model(settings: RuntimeSettings, lookup: Keys, given: Sequence[Runtime] = (), model: str = "") -> Choice:
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


def _choose_kernel(vendor: Vendor | None, lookup: Keys, what: str) -> Choice:
    """The kernel, where a model is available."""
    if vendor is not None:
        state = state_of(vendor, lookup)
        why = "is set" if state.usable else f"is set, and for {vendor.title} {state.advice}"
        return Choice(name="kernel" if state.usable else None, why=f"{what} {why}")
    usable = next((state for state in vendor_states(lookup) if state.usable), None)
    if usable is not None:
        return Choice(name="kernel", why=lookup.describe_set(usable.source))
    return Choice(name=None, why=_explain_no_key(lookup))


def _explain_no_key(lookup: Keys) -> str:
    needed = ", ".join(key for state in vendor_states(lookup) for key in state.vendor.keys[:1])
    return f"no model key is set ({needed}), and no runtime.model that needs none"


def usual_keys() -> list[str]:
    """The names of the keys that are looked up automatically."""
    return [key for vendor in VENDORS if vendor.name in MAIN for key in vendor.keys]


def lacking_keys(settings: RuntimeSettings, lookup: Keys) -> list[str]:
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
    hint = suggest(name, NAMES)
    hint = f"{hint} T" if hint else "t"
    return f"the runtime {name[:100]!r} is unknown; {hint}he runtimes are {', '.join(NAMES)}"


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
        recall: Recall | None = None,
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
            recall: Gives the kernel the stored conversation of a thread.
        """
        self._settings, self._recall = settings, recall
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

    async def check_ready(self, name: str, model: str) -> None:
        """Refuse a runtime that could not ask its model, before anything is stored. It may wait for the keyring.

        Args:
            name: The runtime.
            model: The full name of the model; empty where the runtime has its own choice.

        Raises:
            RuntimeFailureError: A key or a package is missing; the text has the command that helps.
        """
        if any(runtime.name == name for runtime in self._given):
            return
        needed = find_needed_keys(name, model, self._settings)
        if not any(map(self._keys, needed)) and (unasked := self._keys.find_unasked(needed)):
            await asyncio.to_thread(self._keys.load, unasked)
        if (lack := find_lack(name, model, self._settings, self._keys)) is not None:
            raise RuntimeFailureError(lack.explain())

    async def explain_first_steps(self, name: str) -> str:
        """What to do where no model is named and no key is set; it looks for what is on this machine.

        Args:
            name: The runtime that was asked for; empty for any.
        """
        ollama = await asyncio.to_thread(find_ollama, self._keys)
        local = await asyncio.to_thread(find_local_models, self._keys)
        return find_first_steps(name, self._settings, self._keys, ollama, local).explain()

    async def aclose(self) -> None:
        """Close what sessions share: connections to model APIs."""
        await self._models.aclose()

    def _usual_runtime(self, model: str) -> str:
        choice = usual_runtime(self._settings, self._keys, self._given, model)
        if choice.name is not None:
            return choice.name
        # The caller may name a model that needs no key, and the keyring may have one; else it says what is missing.
        wanted = model or self._settings.model
        if not wanted or self._keys.find_unasked(find_needed_keys("kernel", wanted, self._settings)):
            return "kernel"
        lack = find_lack("kernel", complete_name(wanted), self._settings, self._keys)
        raise RuntimeFailureError(f"no runtime is available: {choice.why}" if lack is None else lack.explain())

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
            recall=self._recall,
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
        self._connected: dict[str, tuple[str | None, ProviderModel]] = {}
        self._outdated: list[ProviderModel] = []

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
            raise MissingModelError(
                f"no model is set up: no key is set ({keys}), and no model is named that needs none;"
                " `toolstead doctor` says what to do"
            )
        return usual

    async def connect(self, name: str) -> Model:
        """The model of a full name, the same object every time, unless its key changes.

        Raises:
            RuntimeFailureError: It is unavailable; the text says what to do.
        """
        if (found := self._find_connected(name)) is not None:  # it does not wait while another one is being connected
            return found
        async with self._connecting:
            if (found := self._find_connected(name)) is None:
                if name in self._connected:  # a request may still use it
                    self._outdated.append(self._connected.pop(name)[1])
                found = await asyncio.to_thread(self._connect, name)
                self._connected[name] = self._find_key(name), found
            return found

    def _find_connected(self, name: str) -> ProviderModel | None:
        key, model = self._connected.get(name, (None, None))
        return model if model is not None and key == self._find_key(name) else None

    def _find_key(self, name: str) -> str | None:
        return find_model(name)[0].find_key(self._keys)

    def _connect(self, name: str) -> ProviderModel:
        """Not on the event loop: importing an SDK takes most of a second, and a keyring may ask a person."""
        self._keys.load(find_model(name)[0].keys)
        with import_lock():
            from toolstead.adapters.providers.connect import connect

            return connect(name, self._keys, origin_of=self._keys.origin_of)

    async def aclose(self) -> None:
        """Close every connection."""
        open_models = [*self._outdated, *(model for _, model in self._connected.values())]
        self._outdated, self._connected = [], {}
        for model in open_models:
            await model.aclose()
