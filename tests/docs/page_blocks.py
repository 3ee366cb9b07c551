"""The blocks of a page: what language each is in, and what the comment above it says about running it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(
    r"(?:^[ ]*<!-- (?P<note>(?:run|not run|file): .*?) -->\n\s*)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w+)\n(?P<text>.*?)^[ ]*```$",
    re.MULTILINE | re.DOTALL,
)
_NAMED = re.compile(r"(?:#|//) (?P<path>~?[\w./-]+\.\w+)$")
_OPTION = re.compile(r"(\w+)(?:=(\S+))?")

LANGUAGES = ("console", "python", "json", "yaml", "toml", "markdown")
"""What is run, or is a file; a block in another language only shows something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a page.

    Attributes:
        line: Where it begins on the page.
        path: The file it is, where it names one.
        options: What the comment `<!-- run: … -->` above it says.
        skipped: Why it is not run, from `<!-- not run: … -->`.
    """

    language: str
    text: str
    line: int
    path: str = ""
    options: dict[str, str] = field(default_factory=dict[str, str])
    skipped: str = ""

    @property
    def needs(self) -> list[str]:
        """What its commands need besides Toolstead: `claude-code`, `model`, `sqlite3`."""
        return [need for need in self.options.get("needs", "").split(",") if need]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line of a block, and what is shown below it."""

    line: str
    shown: list[str]


def read_blocks(page: Path) -> Iterator[Block]:
    """Every block of a page that is run or is a file, in order."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        if found["language"] not in LANGUAGES:
            continue
        kind, _, note = (found["note"] or "").partition(": ")
        body = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        named = _NAMED.match(body.partition("\n")[0])
        yield Block(
            language=found["language"],
            text=body,
            line=text.count("\n", 0, found.start("language")) + 1,
            path=note if kind == "file" else named["path"] if named else "",
            options={name: value or "yes" for name, value in _OPTION.findall(note)} if kind == "run" else {},
            skipped=note if kind == "not run" else "",
        )


def read_commands(block: Block) -> Iterator[Command]:
    """The commands of a console block; `> ` continues one, as in a shell."""
    line, shown = "", list[str]()
    for text in block.text.splitlines():
        if text.startswith("$ "):
            if line:
                yield Command(line=line, shown=shown)
            line, shown = text[2:], []
        elif text.startswith("> ") and not shown:
            line += f"\n{text[2:]}"
        else:
            shown.append(text)
    if line:
        yield Command(line=line, shown=shown)
