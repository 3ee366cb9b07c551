"""The parameters of a Codex thread, from a session's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.adapters.codex.own_tools import hook_settings
from toolstead.adapters.codex.program import SHELL
from toolstead.adapters.codex.tool_endpoint import NAME
from toolstead.invoker.runtime import SessionSpec, instructions_of


def settings_of(spec: SessionSpec, endpoint: Mapping[str, Any], *, hooked: bool) -> dict[str, Any]:
    """The parameters of a thread, to start or resume it.

    Args:
        spec: The session's specification.
        endpoint: How the MCP server with our tools is reached.
        hooked: Whether Codex calls our hook for its built-in tools.
    """
    shell = "shell" in spec.permissions
    settings: dict[str, Any] = {
        "cwd": str(spec.cwd),
        # Not "untrusted", which asks about every command: an approved one that fails in the sandbox is run again
        # without it. The hooks call our gates, and no command leaves the sandbox.
        "approvalPolicy": "never",
        "sandbox": "read-only",
        "config": {
            # By dotted names: a whole table would replace the settings from the command line.
            f"mcp_servers.{NAME}": endpoint,
            **{f"features.{name}": shell for name in SHELL},
            "features.hooks": hooked,
            **({"hooks": hook_settings(NAME), "bypass_hook_trust": True} if hooked else {}),
        },
        # Codex's own instructions mention tools that are missing, unless it may run commands.
        "developerInstructions" if shell else "baseInstructions": (instructions_of(spec)),
    }
    model = spec.model.removeprefix("openai:")
    return settings | ({"model": model} if model else {})


def surroundings_of(spec: SessionSpec) -> dict[str, Any]:
    """No environment, unless it may run commands. A resumed thread loses this setting, so each turn sends it."""
    return {} if "shell" in spec.permissions else {"environments": []}


def input_items(text: str) -> list[dict[str, Any]]:
    """A text as the input of a turn."""
    return [{"type": "text", "text": text}]
