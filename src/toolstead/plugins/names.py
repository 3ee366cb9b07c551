"""The names of what plugins bring: a plugin's tools and prompts stand behind its own name."""

from __future__ import annotations

import re

LONGEST_TOOL_NAME = 64
NAME = re.compile(r"[a-zA-Z0-9_-]+")
BETWEEN = "__"
"""Stands between a plugin's name and its tool's."""


def qualify_name(plugin: str, own: str, *, bare: bool = False) -> str:
    """What a model or a client calls a plugin's tool or prompt."""
    return own if bare else f"{plugin}{BETWEEN}{own}"
