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


class Health:
    """The state of one plugin, and why.

    Attributes:
        plugin: Its name.
    """

    __slots__ = ("_failure", "_failures", "_on_change", "_reported", "_seen", "_stage", "plugin")

    def __init__(self, plugin: str, on_change: Callable[[Health], None] = lambda _: None) -> None:
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
        self._failures: dict[str, tuple[int, str]] = {}  # of each hook: how many in a row, and why
        self._seen = self.state, self.error

    @property
    def state(self) -> State:
        """The current state."""
        in_use = self._stage in {"loaded", "running"}
        return "degraded" if in_use and (self._failures or self._reported is not None) else self._stage

    @property
    def error(self) -> str | None:
        """Why it is degraded or failed, each hook by its name; None when nothing is wrong."""
        if self._stage == "disabled":
            return None
        parts = [self._failure, *(self._hook_text(hook) for hook in self._failures), self._reported]
        return "; ".join(part for part in parts if part is not None) or None

    def failed_hook(self, hook: str, reason: str) -> bool:
        """Record a failure of a hook; whether it is cut off by it, after `FAILURES_UNTIL_CUT_OFF` in a row."""
        if self.is_cut_off(hook):  # a call that was under way meanwhile: what cut it off stays the reason
            return False
        count, _ = self._failures.get(hook, (0, ""))
        self._failures[hook] = count + 1, reason
        self._notify_change()
        return self.is_cut_off(hook)

    def succeeded_hook(self, hook: str) -> None:
        """Record a success of a hook: clear its failures, unless it is cut off already."""
        if hook in self._failures and not self.is_cut_off(hook):
            del self._failures[hook]
            self._notify_change()

    def is_cut_off(self, hook: str) -> bool:
        """Whether a hook failed too often to be called again."""
        return hook in self._failures and self._failures[hook][0] >= FAILURES_UNTIL_CUT_OFF

    def report_status(self, status: Status, message: str = "") -> None:
        """Set the status that the plugin reports: `degraded` with a reason, `running` to take it back.

        Raises:
            ValueError: It is no such status.
        """
        if status not in get_args(Status):
            raise ValueError(f"plugin {self.plugin!r}: a plugin reports 'running' or 'degraded', not {status!r}")
        self._reported = None if status == "running" else str(message) or "reported by the plugin, without a reason"
        self._notify_change()

    def set_state(self, stage: Stage, failure: str | None = None) -> None:
        """Move on to another state, with the reason where it is `failed`; failures of hooks stay."""
        self._stage, self._failure = stage, failure
        self._notify_change()

    def _hook_text(self, hook: str) -> str:
        count, reason = self._failures[hook]
        if self.is_cut_off(hook):
            return f"{hook}: {reason} ({count} in a row: cut off until the plugin is enabled again)"
        return f"{hook}: {reason}" + (f" ({count} in a row)" if count > 1 else "")

    def _notify_change(self) -> None:
        if (seen := (self.state, self.error)) != self._seen:
            self._seen = seen
            self._on_change(self)
