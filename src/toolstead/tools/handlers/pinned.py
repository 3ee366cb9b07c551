"""Programs that a project brings run from the copy that was approved, not from the project's folder.

Words of a command, its folder and the values of its environment that lead into the project's own
folder are made to lead into the copy. What names the folder where no other path can be put in its
place is refused when the tool is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolstead.tools.handlers.code_places import Reading
from toolstead.tools.handlers.shell_syntax import Command, Pipeline, Script, Step, Word, make_word
from toolstead.tools.handlers.template import Piece, TemplateError

_PLAIN = re.compile(r"[\w./@+=:,-]+")
"""Code that is a path, or an assignment of paths, and can be nothing else."""
_PARTS = re.compile(r"([=:,])")
"""What stands between paths in one word: `PATH=a:b`, `--with=a,b`, `a:b`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A folder whose approved copy stands in for it.

    Attributes:
        live: The folder in the project, such as `.toolstead`.
        copy: Its approved copy.
    """

    live: Path
    copy: Path

    def pin_path(self, given: Path) -> Path:
        """A path; inside the live folder, the same place in the copy."""
        normal = Path(f"/{os.path.normpath(given).lstrip('/')}")  # two slashes at the start mean no more than one
        depth = len(self.live.parts)
        *above, own = normal.parts[:depth]
        if len(normal.parts) < depth or tuple(above) != self.live.parts[:-1] or own.casefold() != self.live.name:
            return given  # (on some systems `.Toolstead` is the same folder, and on none a place to hide in)
        return self.copy.joinpath(*normal.parts[depth:])

    def pin_script(self, script: Script, folder: Path, stdin: tuple[Piece, ...] | None = None) -> Script:
        """A command whose own words lead into the copy; values that callers give are left alone.

        Raises:
            TemplateError: The folder is named where no other path can be put in its place: in a program's
                code, behind a placeholder, or grown together with an option.
        """
        if stdin is not None and any(self._is_in(piece) for piece in stdin) and _find_reader(script[0].pipeline) >= 0:
            raise TemplateError(self._refusal_text("code"), key=("stdin",))
        return tuple(
            Step(
                after=step.after,
                pipeline=tuple(
                    self._pin_command(command, folder, feeds_code=at < last) for at, command in enumerate(step.pipeline)
                ),
            )
            for step, last in ((step, _find_reader(step.pipeline)) for step in script)
        )

    def pin_argv(self, argv: Sequence[str], folder: Path) -> list[str]:
        """The words of one command without placeholders, leading into the copy.

        Raises:
            TemplateError: As `pin_script`.
        """
        command = tuple(make_word((word,), quoted=True) for word in argv)
        [step] = self.pin_script((Step(after=";", pipeline=(command,)),), folder)
        return [word.literal or "" for word in step.pipeline[0]]

    def check_variables(self, env: Mapping[str, str], folder: Path) -> None:
        """Make sure that every value of the environment that names the folder can be made to lead into the copy.

        Raises:
            TemplateError: One cannot, such as an option with a path in it.
        """
        for name, value in env.items():
            if not self._is_moved(value, folder):
                raise TemplateError(self._refusal_text("a value"), key=("env", name))

    def pin_variable(self, value: str, folder: Path) -> str:
        """A value of the environment: a path, or several with `:` between them."""
        return "".join(self._pin_text(part, folder) for part in _PARTS.split(value))

    def _pin_command(self, command: Command, folder: Path, *, feeds_code: bool) -> Command:
        moved = tuple(self._pin_word(word, folder) for word in command)
        reading = Reading(command)
        code = {*(word for word, _ in reading.places), *(command[at] for at, _ in reading.programs)}
        for at, word in enumerate(command):
            if self._names_it(word) and (feeds_code or word in code):
                if (
                    word.literal is None
                    or not _PLAIN.fullmatch(word.literal)
                    or not self._is_moved(word.literal, folder)
                ):
                    raise TemplateError(self._refusal_text("code"))
                after_option = at > 0 and (command[at - 1].literal or "").startswith("-")
                if (feeds_code or after_option) and not _PLAIN.fullmatch(moved[at].literal or ""):
                    raise TemplateError(f"the approved copy lies in {str(self.copy)!r}, which cannot be put into code")
        return moved

    def _names_it(self, word: Word) -> bool:
        return any(self._is_in(piece) for piece in word.pieces)

    def _is_in(self, piece: Piece, before: str = ".*") -> bool:
        """Whether a text names the folder, behind what a pattern matches."""
        name = rf"{before}{re.escape(self.live.name)}(?![\w.-])"
        return isinstance(piece, str) and re.match(name, piece.casefold(), re.DOTALL) is not None

    def _is_moved(self, text: str, folder: Path) -> bool:
        """Whether every path in a text that names the folder is made to lead into the copy."""
        return all(self._pin_text(part, folder) != part for part in _PARTS.split(text) if self._is_in(part))

    def _refusal_text(self, what: str) -> str:
        name = self.live.name
        advice = (
            f"put the code into a file in {name} and run that file"
            if what == "code"
            else (f"write the path as {name}/…, as a word or a value of its own")
        )
        return f"{what} that names {name} would use what lies there now, not what was approved; {advice}"

    def _pin_word(self, word: Word, folder: Path) -> Word:
        if not self._names_it(word):
            return word
        if any(self._is_in(piece, r"\S*") for piece in word.pieces[1:]):  # every piece but the first follows a slot
            raise TemplateError(self._refusal_text("a path behind a placeholder"))
        first = word.pieces[0]
        if not isinstance(first, str):
            return word
        if first.startswith("-") and not self._is_moved(first, folder):  # such as `-I.toolstead/lib`
            raise TemplateError(self._refusal_text("an option"))
        return make_word((self.pin_variable(first, folder), *word.pieces[1:]), quoted=word.quoted)

    def _pin_text(self, text: str, folder: Path) -> str:
        if not self._is_in(text):
            return text
        there = self.pin_path(folder / text)
        if there == folder / text:
            return text
        return f"{there}/" if text.endswith("/") else str(there)


def _find_reader(pipeline: Pipeline) -> int:
    """Where the last command stands that runs what it reads, so that what is written before it is code; -1: nowhere."""
    return max((at for at, command in enumerate(pipeline) if Reading(command).find_reader() is not None), default=-1)
