"""The content of a tool file, and the protocol of its reader.

Apart from the reader itself, which needs every kind of handler: where there is no file, nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from toolstead.tools.definition import RegisteredTool
    from toolstead.types.tool import Problem

LARGEST_FILE = 4_194_304


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """An example of a tool, for `toolstead tools test`."""

    input: Mapping[str, Any]
    expect: Any = None
    run: bool = True


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds.

    Attributes:
        path: The file.
        tools: Its good tools.
        problems: What is wrong in it.
        examples: The examples of its good tools, by name.
    """

    path: Path
    tools: tuple[RegisteredTool, ...] = ()
    problems: tuple[Problem, ...] = ()
    examples: Mapping[str, Sequence[Example]] = msgspec.field(default_factory=dict[str, Sequence[Example]])


class Reader(Protocol):
    """Reads tool files."""

    def read(self, path: Path, data: bytes) -> LoadedFile:
        """Read a file's content. Never raises for what is in it."""
        ...
