"""The runtimes that can be had here, made when they are first asked for; and which one answers when nobody says.

Above: the wiring of conversations, `doctor`. Below: the adapters, each imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolyard.adapters.providers.catalogue import MAIN, VENDORS, Lookup, default_model, find, state_of, states
from toolyard.app.keys import Keys
from toolyard.app.models import Models
from toolyard.app.settings import LimitSettings, RuntimeSettings
from toolyard.errors import RuntimeFailureError
from toolyard.invoker.kernel_session import Offered
from toolyard.invoker.runtime import Runtime
from toolyard.tools.handlers.pinned import Pinned

NAMES = ("kernel", "claude", "codex", "scripted", "demo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What answers where nothing else is said.

    Attributes:
        name: The runtime; None when none can be had.
        why: Why this one, empty when the settings name it; or what would be needed for one.
    """

    name: str | None
    why: str


def usual_runtime(settings: RuntimeSettings, lookup: Lookup, given: Sequence[Runtime] = ()) -> Choice:
    """Choose a runtime as the settings say. Nothing is loaded, and nobody is asked."""
    if settings.default != "auto":
        return Choice(name=settings.default, why="")
    if given:
        return Choice(name=given[0].name, why="the program brings it")
    if settings.scripted.script:
        return Choice(name="scripted", why="runtime.scripted.script is set")
    if settings.model:
        try:
            state = state_of(find(settings.model)[0], lookup)
        except RuntimeFailureError as error:
            return Choice(name=None, why=f"runtime.model: {error}")
        why = "is set" if state.usable else f"is set, and for {state.vendor.title} {state.advice}"
        return Choice(name="kernel" if state.usable else None, why=f"runtime.model {why}")
    usable = next((state for state in states(lookup) if state.usable), None)
    if usable is not None:
        return Choice(name="kernel", why=f"{usable.source} is set")
    needed = ", ".join(key for state in states(lookup) for key in state.vendor.keys[:1])
    return Choice(name=None, why=f"no model key is set ({needed}), and no runtime.model that needs none")


def usual_keys() -> list[str]:
    """The names of the keys that are looked for by themselves."""
    return [key for vendor in VENDORS if vendor.name in MAIN for key in vendor.keys]


def lacking_keys(settings: RuntimeSettings, lookup: Lookup) -> list[str]:
    """The names of keys without which nobody answers as the settings are; a keyring may have one of them."""
    if settings.default not in ("auto", "kernel") or (settings.default == "auto" and settings.scripted.script):
        return []
    if not settings.model:
        return [] if default_model(lookup) else usual_keys()
    try:
        state = state_of(find(settings.model)[0], lookup)
    except RuntimeFailureError:
        return []  # it is refused when somebody asks, with the nearest name
    return [] if state.usable else list(state.vendor.keys)


def absence(name: str) -> str:
    """Why there is no runtime of this name; empty when there is one."""
    if name in ("kernel", "scripted"):
        return ""
    known = f"the runtimes are {', '.join(NAMES)}"
    return f"the runtime {name!r} {'is not part of this version' if name in NAMES else f'is unknown; {known}'}"


class Runtimes:
    """Finds a runtime by its name."""

    def __init__(
        self,
        settings: RuntimeSettings,
        limits: LimitSettings,
        *,
        project: Path,
        keys: Keys,
        offered: Offered,
        pinned: Pinned | None = None,
        given: Sequence[Runtime] = (),
    ) -> None:
        """Decide what can be had.

        Args:
            settings: Which one is usual, and how each is set.
            limits: Where agents are stopped.
            project: Where files that the settings name are.
            keys: Those of model APIs.
            offered: The tools of an agent.
            pinned: The approved copy of the project's folder.
            given: Runtimes of the program's own; each comes before one of ours of its name.
        """
        self._settings = settings
        self._limits = limits
        self._project = project
        self._keys = keys
        self._offered = offered
        self._pinned = pinned
        self._models = Models(keys)
        self._given = given
        self._made: dict[str, Runtime] = {runtime.name: runtime for runtime in given}

    def __call__(self, name: str) -> Runtime:
        """The runtime of this name; an empty one means the settings' choice.

        Raises:
            RuntimeFailureError: There is none of this name, or it cannot be had; what to do is said.
        """
        wanted = self._usual() if name in ("", "auto") else name
        if wanted not in self._made:
            self._made[wanted] = self._make(wanted)
        return self._made[wanted]

    async def aclose(self) -> None:
        """Close what the runtimes share: connections to model APIs."""
        await self._models.aclose()

    def _usual(self) -> str:
        choice = usual_runtime(self._settings, self._keys, self._given)
        if choice.name is not None:
            return choice.name
        if not self._settings.model:
            return "kernel"  # the caller may name a model that needs no key; without one it says what is missing
        raise RuntimeFailureError(f"no runtime can be had: {choice.why}; `toolyard doctor` says what to do")

    def _make(self, name: str) -> Runtime:
        if name == "kernel":
            return self._kernel()
        if name == "scripted":
            return self._scripted()
        raise RuntimeFailureError(absence(name))

    def _kernel(self) -> Runtime:
        from toolyard.invoker.kernel_runtime import KernelRuntime
        from toolyard.kernel.activation import Limits

        return KernelRuntime(
            connect=self._models.connect,
            resolve=self._models.resolve,
            offered=self._offered,
            limits=Limits(
                turns=self._settings.kernel.max_turns,
                tokens=self._limits.token_budget,
                cost=self._limits.cost_budget,
            ),
        )

    def _scripted(self) -> Runtime:
        from toolyard.adapters.scripted.runtime import ScriptedRuntime
        from toolyard.adapters.scripted.script_file import load_script

        script = self._settings.scripted.script
        if not script:
            raise RuntimeFailureError("the scripted runtime needs a script: set runtime.scripted.script to its file")
        # A script in the project's own folder counts as it was approved, like everything there.
        path = self._project / Path(script).expanduser()
        path = path if self._pinned is None else self._pinned.path(path)
        kept = self._settings.scripted.folder
        return ScriptedRuntime(load_script(path), folder=self._project / Path(kept).expanduser() if kept else None)
