"""The health of a plugin: one `Health` for each enabled plugin, which records successes and failures.

Enabling a plugin again makes a new one without earlier failures. `describe_crash` makes the reason of a failure out of
what the plugin's own code raised.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Literal, get_args

from toolstead.errors import PluginError
from toolstead.nearest_names import suggest
from toolstead.plugins.contract import Hooks, Plugin
from toolstead.plugins.ports import Status
from toolstead.schema.visible import escape_unseen

State = Literal["loaded", "running", "degraded", "failed", "disabled"]
"""`degraded` is a plugin that is in use while something about it is wrong."""
Stage = Literal["loaded", "running", "failed", "disabled"]
"""The step of its life cycle; only a plugin in use, `loaded` or `running`, can be degraded."""

FAILURES_UNTIL_CUT_OFF = 5
"""After so many failures in a row a hook is not called any more."""

_LONGEST = 500
_UNKNOWN_FIELD = re.compile(r"(Hooks|Plugin)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_MACHINERY = ("toolstead.plugins.", "importlib.", "asyncio.")


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


def describe_crash(error: BaseException, origin: str = "") -> str:
    """Kind, text and place: `ValueError: boom (plugins/shouty.py:12)`; short, in one line, with nothing unseen.

    Args:
        error: What was raised.
        origin: The plugin's file, or its `module:attribute`: a line there helps its author more than one further in.
    """
    if isinstance(error, PluginError):
        return f"{error.field}: {error.reason}"
    if isinstance(error, SyntaxError) and error.filename:
        line = f":{error.lineno}" if error.lineno else ""
        return f"{type(error).__name__}: {_shorten_text(error.msg)} ({escape_unseen(error.filename)}{line})"
    text = _shorten_text(_error_text(error))
    where = _crash_place(error.__traceback__, origin)
    place = f" ({where})" if where else ""
    if isinstance(error, TypeError) and (misspelled := _UNKNOWN_FIELD.match(text)) is not None:
        return f"{_explain_field(*misspelled.groups())}{place}"
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"


def _explain_field(kind: str, name: str) -> str:
    """What is wrong with a field that Plugin(…) or Hooks(…) does not have, as a sentence."""
    known = [field.name for field in dataclasses.fields(Hooks if kind == "Hooks" else Plugin)]
    what = f"there is no hook {name!r}" if kind == "Hooks" else f"Plugin(…) has no field {name!r}"
    return f"{what}; {suggest(name, known, otherwise='there are ' + ', '.join(known))}"


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the author's own `__str__`
        return "its message cannot be read"


def _shorten_text(text: str) -> str:
    line = escape_unseen(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _crash_place(trace: TracebackType | None, origin: str) -> str:
    """The innermost line in the plugin itself, else the innermost that is neither ours nor of the import machinery."""
    module = origin.partition(":")[0]
    elsewhere = ""
    for frame, line in reversed(list(traceback.walk_tb(trace))):
        file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        if file == origin or (module and name == module):
            return f"{escape_unseen(file)}:{line}"
        if not elsewhere and not name.startswith(_MACHINERY) and not file.startswith("<frozen"):
            elsewhere = f"{escape_unseen(file)}:{line}"
    return elsewhere
