"""Foreign SDKs are imported by one worker at a time.

Some of them import themselves in circles. Two workers that import two of them at once then see halves of
modules, and what failed once stays broken: the MCP SDK did, with Claude's and Codex's first sessions.
"""

from __future__ import annotations

import importlib
import threading
from contextlib import AbstractContextManager
from types import ModuleType

_LOCK = threading.RLock()


def import_lock() -> AbstractContextManager[object]:
    """While it is held, no other worker imports. Nothing may be waited for in it that waits for an import."""
    return _LOCK


def import_module(module: str) -> ModuleType:
    """A module, whole, whatever other workers import.

    Raises:
        ImportError: It cannot be imported.
    """
    with import_lock():
        return importlib.import_module(module)
