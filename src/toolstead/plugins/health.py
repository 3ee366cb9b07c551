"""The health of a plugin: one `Health` for each enabled plugin, which records successes and failures.

Enabling a plugin again makes a new one without earlier failures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from toolstead.plugins.ports import Status

State = Literal["loaded", "running", "degraded", "failed", "disabled"]
"""`degraded` is a plugin that is in use while something about it is wrong."""
Stage = Literal["loaded", "running", "failed", "disabled"]
"""The step of its life cycle; only a plugin in use, `loaded` or `running`, can be degraded."""

FAILURES_UNTIL_CUT_OFF = 5
"""After so many failures in a row a hook is not called any more."""


def _tell_nobody(_: Health) -> None:
    """Ignore the change."""


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
        """The current state."""
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
        """Record a failure of a hook; after `FAILURES_UNTIL_CUT_OFF` in a row it is cut off."""
        if self.is_cut_off(hook):  # a call that was under way meanwhile: what cut it off stays the reason
            return
        before = self._visible_state()
        self._counts[hook] = self._counts.get(hook, 0) + 1
        self._reasons[hook] = reason
        self._notify_change(before)

    def succeeded_hook(self, hook: str) -> None:
        """Record a success of a hook: clear its failures, unless it is cut off already."""
        if hook not in self._counts or self.is_cut_off(hook):
            return
        before = self._visible_state()
        del self._counts[hook], self._reasons[hook]
        self._notify_change(before)

    def is_cut_off(self, hook: str) -> bool:
        """Whether a hook failed too often to be called again."""
        return self._counts.get(hook, 0) >= FAILURES_UNTIL_CUT_OFF

    def report_status(self, status: Status, message: str = "") -> None:
        """Set the status that the plugin reports: `degraded` with a reason, `running` to take it back.

        Raises:
            ValueError: It is no such status.
        """
        if status not in get_args(Status):
            raise ValueError(f"plugin {self.plugin!r}: a plugin reports 'running' or 'degraded', not {status!r}")
        before = self._visible_state()
        self._reported = None if status == "running" else str(message) or "reported by the plugin, without a reason"
        self._notify_change(before)

    def note_failure(self, reason: str) -> None:
        """Record that loading, registering or starting the plugin failed."""
        before = self._visible_state()
        self._stage, self._failure = "failed", reason
        self._notify_change(before)

    def set_state(self, stage: Literal["loaded", "running", "disabled"]) -> None:
        """Move on to another state and clear an earlier failure; failures of hooks stay."""
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
