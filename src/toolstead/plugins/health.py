"""How a plugin is: one `Health` for each plugin that is enabled, told of everything that goes well or wrong.

A new enabling makes a new one, and so forgets what was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from toolstead.plugins.ports import Status

State = Literal["loaded", "running", "degraded", "failed", "disabled"]
"""`degraded` is a plugin that is in use while something about it is wrong."""
Stage = Literal["loaded", "running", "failed", "disabled"]
"""Where it is in its life; only a plugin in use, `loaded` or `running`, can be degraded."""

FAILURES_UNTIL_CUT_OFF = 5
"""After so many failures in a row a hook is not called any more."""


def _tell_nobody(_: Health) -> None:
    """Nobody wants to know."""


class Health:
    """The state of one plugin, and why.

    Attributes:
        plugin: Its name.
    """

    __slots__ = ("_counts", "_failure", "_on_change", "_reasons", "_reported", "_stage", "plugin")

    def __init__(self, plugin: str, on_change: Callable[[Health], None] = _tell_nobody) -> None:
        """A plugin that is loaded, with nothing wrong.

        Args:
            plugin: Its name.
            on_change: Called whenever `state` or `error` has become another. Must not raise.
        """
        self.plugin = plugin
        self._on_change = on_change
        self._stage: Stage = "loaded"
        self._failure: str | None = None
        self._reported: str | None = None
        self._counts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}

    @property
    def state(self) -> State:
        """How it is."""
        in_use = self._stage in {"loaded", "running"}
        return "degraded" if in_use and (self._counts or self._reported is not None) else self._stage

    @property
    def error(self) -> str | None:
        """Why it is degraded or failed, each hook by its name; None when nothing is wrong."""
        if self._stage == "disabled":
            return None
        parts = [] if self._failure is None else [self._failure]
        parts += [self._hook_text(hook) for hook in self._counts]
        parts += [] if self._reported is None else [self._reported]
        return "; ".join(parts) or None

    def failed_hook(self, hook: str, reason: str) -> None:
        """A hook failed; after `FAILURES_UNTIL_CUT_OFF` in a row it is cut off."""
        if self.is_cut_off(hook):  # a call that was under way meanwhile: what cut it off stays the reason
            return
        before = self._visible_state()
        self._counts[hook] = self._counts.get(hook, 0) + 1
        self._reasons[hook] = reason
        self._notify_change(before)

    def succeeded_hook(self, hook: str) -> None:
        """A hook went well: its failures are forgotten, unless it is cut off already."""
        if hook not in self._counts or self.is_cut_off(hook):
            return
        before = self._visible_state()
        del self._counts[hook], self._reasons[hook]
        self._notify_change(before)

    def is_cut_off(self, hook: str) -> bool:
        """Whether a hook failed too often to be called again."""
        return self._counts.get(hook, 0) >= FAILURES_UNTIL_CUT_OFF

    def report_status(self, status: Status, message: str = "") -> None:
        """The plugin's own word: `degraded` with a reason, `running` to take it back.

        Raises:
            ValueError: It is no such status.
        """
        if status not in get_args(Status):
            raise ValueError(f"plugin {self.plugin!r}: a plugin reports 'running' or 'degraded', not {status!r}")
        before = self._visible_state()
        self._reported = None if status == "running" else str(message) or "the plugin says so, without a reason"
        self._notify_change(before)

    def note_failure(self, reason: str) -> None:
        """It cannot be used: it was not loaded, registered or started."""
        before = self._visible_state()
        self._stage, self._failure = "failed", reason
        self._notify_change(before)

    def set_state(self, stage: Literal["loaded", "running", "disabled"]) -> None:
        """It came further in its life; a failure before is over. What is wrong with hooks stays wrong."""
        before = self._visible_state()
        self._stage, self._failure = stage, None
        self._notify_change(before)

    def _hook_text(self, hook: str) -> str:
        count, text = self._counts[hook], f"{hook}: {self._reasons[hook]}"
        if count >= FAILURES_UNTIL_CUT_OFF:
            return f"{text} ({count} in a row: cut off until the plugin is enabled again)"
        return f"{text} ({count} in a row)" if count > 1 else text

    def _visible_state(self) -> tuple[State, str | None]:
        return self.state, self.error

    def _notify_change(self, before: tuple[State, str | None]) -> None:
        if self._visible_state() != before:
            self._on_change(self)
