"""One state of the registry, never changed once built. A call in flight keeps the one it began with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolyard.errors import UnknownToolError
from toolyard.tools.definition import RegisteredTool
from toolyard.tools.visibility import Visibility
from toolyard.types.tool import Changes, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Names → tools, in listing order.

    Attributes:
        number: Counts up from 1.
        tools: What can be listed and called.
        held: Every holder of a name, hidden ones included, in the order they were taken.
        hidden: Why a held tool is not in `tools`.
        problems: What was set aside, and why.
    """

    number: int = 0
    tools: Mapping[str, RegisteredTool] = field(default_factory=dict[str, RegisteredTool])
    held: Mapping[str, RegisteredTool] = field(default_factory=dict[str, RegisteredTool])
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[Problem, ...] = ()

    def find(self, name: str) -> RegisteredTool:
        """The tool of this name.

        Raises:
            UnknownToolError: There is none, or it is hidden; names like it are suggested.
        """
        try:
            return self.tools[name]
        except (KeyError, TypeError):
            raise self.unknown(name) from None

    def unknown(self, name: str) -> UnknownToolError:
        """The error for a name that cannot be called here."""
        return UnknownToolError(str(name), tuple(difflib.get_close_matches(str(name)[:64], self.tools, n=2)))


def next_generation(
    before: Generation,
    *,
    held: Mapping[str, RegisteredTool],
    visibility: Visibility,
    problems: Iterable[Problem],
) -> Generation:
    """The generation after `before`: the same rules, applied to what is held now."""
    hidden = {name: reason for name in held if (reason := visibility.hides(name)) is not None}
    tools = {name: tool for name, tool in held.items() if name not in hidden} if hidden else dict(held)
    return Generation(number=before.number + 1, tools=tools, held=held, hidden=hidden, problems=tuple(problems))


def differences(before: Generation, after: Generation) -> Changes:
    """What a caller would notice between two generations."""
    return Changes(
        added=tuple(name for name in after.tools if name not in before.tools),
        removed=tuple(name for name in before.tools if name not in after.tools),
        changed=tuple(
            name for name, tool in after.tools.items() if name in before.tools and not tool.same_as(before.tools[name])
        ),
    )
