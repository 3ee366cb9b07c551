"""The available runtimes and models: each is made at its first use, and shared by all conversations of a stead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.adapters.importing import import_lock
from toolstead.adapters.providers.catalogue import complete_name, default_model, find_model, vendor_states
from toolstead.app.keys import Keys
from toolstead.app.runtime_choice import absence_reason, usual_runtime
from toolstead.app.version import VERSION
from toolstead.errors import RuntimeFailureError

if TYPE_CHECKING:
    from toolstead.adapters.providers.model import ProviderModel
    from toolstead.app.settings import LimitSettings, RuntimeSettings
    from toolstead.invoker.kernel_session import Offered
    from toolstead.invoker.runtime import Runtime
    from toolstead.kernel.model import Model
    from toolstead.tools.handlers.pinned import Pinned


class Runtimes:
    """Finds a runtime by its name."""

    def __init__(
        self,
        settings: RuntimeSettings,
        limits: LimitSettings,
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
            limits: Where agents are stopped.
            project: Where files that the settings name are.
            data: Where driven programs keep their data, each in a separate folder.
            keys: Those of model APIs.
            offered: The tools of an agent.
            pinned: The approved copy of the project's folder.
            given: Runtimes of the program's own; each comes before one of ours of its name.
        """
        self._settings = settings
        self._limits = limits
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
            limits=Limits(
                turns=self._settings.kernel.max_turns,
                tokens=self._limits.token_budget,
                cost=self._limits.cost_budget,
            ),
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
