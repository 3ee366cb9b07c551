"""The generated section of an agent's instructions: which sub-agents and tools of its own it has, and when to use them.

The same input gives the same text, so that the prompt caches of model APIs stay warm.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

from toolstead.types.agent import Agent, PromptTool

MOST_BYTES = 6_000
"""Of the whole section, about 2,000 tokens: it is sent with every request."""
LONGEST_LINE = 400
"""Bytes of one description."""
_BETWEEN = "\n\n"
_LONGEST_NUMBER = 10

_Described = tuple[str, str]
"""A name and its description."""


def describe_helpers(agents: Sequence[Agent], tools: Sequence[PromptTool]) -> str:
    """The section; empty when there is nothing to describe.

    Args:
        agents: The agents that this one may delegate to.
        tools: Its own tools that are offered to it.
    """
    if not agents and not tools:
        return ""
    return _write_sections(
        tuple([(agent.name, agent.description) for agent in agents]),
        tuple([(tool.name, tool.description) for tool in tools]),
    )


@lru_cache(maxsize=64)  # every turn of an agent asks for the same text
def _write_sections(agents: Sequence[_Described], tools: Sequence[_Described]) -> str:
    sections = [
        (title, [_describe(*one) for one in sorted(described, key=itemgetter(0))])
        for title, described in (
            ("## Agents you can delegate to\nGive work to the one that fits best, with all it needs to know.", agents),
            (
                "## Tools that are agents of your own\nEach call starts an agent that knows only what you pass to it.",
                tools,
            ),
        )
        if described
    ]
    parts: dict[str, str] = {}
    room = MOST_BYTES
    # The shorter one first: each has half of the room, and the longer one also what the other does not need.
    for title, lines in sorted(sections, key=lambda section: sum(map(len, section[1]))):
        parts[title] = _fit_lines(title, lines, room // (len(sections) - len(parts)))
        room -= len(parts[title].encode()) + len(_BETWEEN)
    return _BETWEEN.join(parts[title] for title, _ in sections)


def _describe(name: str, description: str) -> str:
    text = " ".join(description.split())
    cut = text.encode()[:LONGEST_LINE].decode(errors="ignore")
    return f"- {name}: {cut if cut == text else f'{cut}…'}" if text else f"- {name}"


def _fit_lines(title: str, lines: Sequence[str], room: int) -> str:
    """The title and as many lines as there is room for; the last line counts those that are left out."""
    note = "- (and {:,} more)"
    room -= len(title.encode()) + len(note) + _LONGEST_NUMBER
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    left_out = len(lines) - len(kept)
    return "\n".join([title, *kept, *([note.format(left_out)] if left_out else [])])
