"""Programs that a project brings run from the copy that was approved, not from the project's folder.

Words of a command, its folder and the values of its environment that lead into the project's own
folder are made to lead into the copy. Above: the shell and file-read handlers. Nothing is below
but the command's words.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from toolyard.tools.handlers.interpreters import code_places
from toolyard.tools.handlers.shell_syntax import Command, Script, Step, Word
from toolyard.tools.handlers.template import Slot, TemplateError

_PATH = re.compile(r"[\w./@+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A folder whose approved copy stands in for it.

    Attributes:
        live: The folder in the project, such as `.toolyard`.
        copy: Its approved copy.
    """

    live: Path
    copy: Path

    def path(self, given: Path) -> Path:
        """A path; inside the live folder, the same place in the copy."""
        normal = Path(os.path.normpath(given))
        return self.copy / normal.relative_to(self.live) if normal.is_relative_to(self.live) else given

    def script(self, script: Script, folder: Path) -> Script:
        """A command whose own words lead into the copy; values that callers give are left alone.

        Raises:
            TemplateError: A program's code names the folder, where no other path can be put in its place.
        """
        return tuple(
            Step(after=step.after, pipeline=tuple(self._command(command, folder) for command in step.pipeline))
            for step in script
        )

    def variable(self, value: str, folder: Path) -> str:
        """A value of the environment: a path, or several with `:` between them."""
        if self.live.name not in value:
            return value
        return ":".join(self._text(part, folder) for part in value.split(":"))

    def _command(self, command: Command, folder: Path) -> Command:
        if not any(self._names_it(word) for word in command):
            return command
        for at, word in enumerate(command):
            if self._names_it(word) and not _is_path(word) and _is_code(command, at):
                raise TemplateError(
                    f"code that names {self.live.name} would run what lies there now, not what was approved;"
                    f" put the code into a file in {self.live.name} and run that file"
                )
        return tuple(self._word(word, folder) for word in command)

    def _names_it(self, word: Word) -> bool:
        return any(isinstance(piece, str) and self.live.name in piece for piece in word.pieces)

    def _word(self, word: Word, folder: Path) -> Word:
        first = word.pieces[0] if word.pieces else None
        if not isinstance(first, str) or self.live.name not in first:
            return word
        option, equals, value = first.partition("=") if first.startswith("-") else ("", "", first)
        moved = f"{option}{equals}{self._text(value, folder)}"
        return Word((moved, *word.pieces[1:]), quoted=word.quoted)

    def _text(self, text: str, folder: Path) -> str:
        if self.live.name not in text:
            return text
        there = self.path(folder / text)
        if there == folder / text:
            return text
        return f"{there}/" if text.endswith("/") else str(there)


def _is_path(word: Word) -> bool:
    return word.literal is not None and _PATH.fullmatch(word.literal) is not None


def _is_code(command: Command, at: int) -> bool:
    """Whether a program would run this word as code: asked as if it were a placeholder."""
    probe = Word((Slot("?"),), quoted=True)
    return any(place.parameter == "?" for place in code_places((*command[:at], probe, *command[at + 1 :])))
