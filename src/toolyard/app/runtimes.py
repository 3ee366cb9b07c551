"""The runtimes that can be had here, made when they are first asked for.

Above: the wiring of conversations. Below: the adapters, each imported only when it is used.
"""

from __future__ import annotations

from pathlib import Path

from toolyard.app.settings import RuntimeSettings
from toolyard.errors import RuntimeFailureError
from toolyard.invoker.runtime import Runtime
from toolyard.tools.handlers.pinned import Pinned

NAMES = ("kernel", "claude", "codex", "scripted", "demo")


def usual_runtime(settings: RuntimeSettings) -> str | None:
    """The name of what answers where nothing else is said; None when none can be had. Nothing is loaded."""
    if settings.default != "auto":
        return settings.default
    return "scripted" if settings.scripted.script else None


class Runtimes:
    """Finds a runtime by its name."""

    def __init__(self, settings: RuntimeSettings, *, project: Path, pinned: Pinned | None = None) -> None:
        self._settings = settings
        self._project = project
        self._pinned = pinned
        self._made: dict[str, Runtime] = {}

    def __call__(self, name: str) -> Runtime:
        """The runtime of this name; an empty one means the settings' choice.

        Raises:
            RuntimeFailureError: There is none of this name, or it cannot be had; what to do is said.
        """
        wanted = name or self._settings.default
        wanted = self._automatic() if wanted == "auto" else wanted
        if wanted not in self._made:
            self._made[wanted] = self._make(wanted)
        return self._made[wanted]

    def add(self, runtime: Runtime) -> None:
        """Use this one under its name, such as a double in a test."""
        self._made[runtime.name] = runtime

    def _automatic(self) -> str:
        if self._made:
            return next(iter(self._made))
        if self._settings.scripted.script:
            return "scripted"
        raise RuntimeFailureError(
            "no runtime can be had: this version plays scripts only; set runtime.scripted.script to a script,"
            ' such as --set runtime.scripted.script=demo.yaml with "- say: Hello" in it'
        )

    def _make(self, name: str) -> Runtime:
        if name == "scripted":
            return self._scripted()
        known = f"the runtimes are {', '.join(NAMES)}"
        what = "is not part of this version" if name in NAMES else f"is unknown; {known}"
        raise RuntimeFailureError(f"the runtime {name!r} {what}")

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
