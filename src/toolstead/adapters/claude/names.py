"""Names of our tools in Claude Code: prefixed with the name of their server."""

from __future__ import annotations

SERVER = "toolstead"
_PREFIX = f"mcp__{SERVER}__"


def is_ours(name: str) -> bool:
    """Whether a tool, by the name that Claude has for it, is one of ours."""
    return name.startswith(_PREFIX)
