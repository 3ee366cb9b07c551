"""What a plain `pip install` of a server library runs on."""

from __future__ import annotations

import sys


def without_extras() -> None:
    """Hide uvloop and httptools, which are here for the best mode and which neither mcp nor fastmcp bring along."""
    sys.modules["uvloop"] = None
    sys.modules["httptools"] = None
