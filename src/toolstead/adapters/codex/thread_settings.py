"""What a Codex thread is built with, in Codex's words: from a session's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.adapters.codex.own_tools import hook_settings
from toolstead.adapters.codex.program import SHELL
from toolstead.adapters.codex.tool_endpoint import NAME
from toolstead.invoker.instructions import instructions_of
from toolstead.invoker.runtime import SessionSpec


def settings_of(spec: SessionSpec, endpoint: Mapping[str, Any], *, hooked: bool) -> dict[str, Any]:
    """The parameters of a thread, for its beginning and for taking it up again.

    Args:
        spec: What was asked for.
        endpoint: How the MCP server with our tools is reached.
        hooked: Whether Codex is to ask about its own tools.
    """
    shell = "shell" in spec.permissions
    settings: dict[str, Any] = {
        "cwd": str(spec.cwd),
        # Not "untrusted", which asks about every command: one that was granted and fails in the sandbox is run again
        # without it. Our gates are asked by the hooks, and nothing leads out of the sandbox.
        "approvalPolicy": "never",
        "sandbox": "read-only",
        "config": {
            # By dotted names: a whole table would take the place of what the program was started with.
            f"mcp_servers.{NAME}": endpoint,
            **{f"features.{name}": shell for name in SHELL},
            "features.hooks": hooked,
            **({"hooks": hook_settings(NAME), "bypass_hook_trust": True} if hooked else {}),
        },
        # Codex's own instructions speak of tools that are not there, unless it may run commands.
        "developerInstructions" if shell else "baseInstructions": (instructions_of(spec)),
    }
    model = spec.model.removeprefix("openai:")
    return settings | ({"model": model} if model else {})


def surroundings_of(spec: SessionSpec) -> dict[str, Any]:
    """No machine to work on, unless it may run commands. A thread taken up again forgets this: said with each turn."""
    return {} if "shell" in spec.permissions else {"environments": []}


def input_items(text: str) -> list[dict[str, Any]]:
    """A text as a turn takes it."""
    return [{"type": "text", "text": text}]
