"""Describes an exception of a plugin's own code in one line."""

from __future__ import annotations

import traceback
from types import TracebackType

from toolstead.errors import PluginError
from toolstead.schema.visible import escape_unseen

_LONGEST = 500
_MACHINERY = ("toolstead.plugins.", "importlib.", "asyncio.")


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
    return f"{type(error).__name__}{f': {text}' if text else ''}{f' ({where})' if where else ''}"


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
