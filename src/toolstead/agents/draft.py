"""The first version of an agent's file, with comments for the person who edits it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_PLAIN = re.compile(r"[a-zA-Z][a-zA-Z0-9_*-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that some readers of YAML take for something else than text."""


def draft_agent(name: str, *, description: str = "", model: str = "", tools: Sequence[str] = ()) -> str:
    """A file that loads as it is, and shows what else can be written.

    Args:
        name: The agent's name.
        description: When to use it; else a sentence to be replaced.
        model: Its model; else the settings' one.
        tools: Names and patterns of the tools that it may use; else all of them.
    """
    purpose = description or f"Use {name} when … (say when, for people and for other agents)"
    listed = ", ".join(_write_text(tool) for tool in tools)
    return f"""\
---
name: {_write_text(name)}
description: {_write_text(purpose)}
{f"model: {_write_text(model)}" if model else "# model: sonnet                # by default that of the settings"}
{f"tools: [{listed}]" if tools else '# tools: [git-status, "web_*"]  # by default every tool'}
# disallowed_tools: [web_fetch]
# max_turns: 20
# limits: {{run_timeout: 600, cost_budget: 1.0}}
#
# A tool of its own, which is a prompt: an item of `tools`, beside names or alone.
#   - name: summarize
#     description: Summarize a document into key points
#     parameters:
#       text: {{type: string, description: The text, required: true}}
#     prompt: "Summarize:\\n\\n{{{{text}}}}"
---
You are {name}. Say here what to do, in which order, and what a good answer looks like.
"""


def _write_text(text: str) -> str:
    """A text as YAML has it in any place: a plain word as it is, anything else as a JSON string."""
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)
