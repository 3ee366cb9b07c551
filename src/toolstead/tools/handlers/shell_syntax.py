"""The syntax of a command template: POSIX quoting and four operators, nothing else.

A template is cut into words first, and placeholders are filled inside words later, so a value can
never become a word, an operator or an option of its own making. No shell is ever started: what
only a shell could do (redirection, globs, variables, substitution) is refused here.
"""

from __future__ import annotations

import functools
import itertools
import re
from typing import Literal, cast

import msgspec

from toolstead.tools.handlers.template import Piece, Placeholder, TemplateError, cut_template, slot_name

_LONGEST_REMEMBERED = 80

_REFUSED = {
    ">": "redirection (`>`) is not supported: the output is the tool's answer",
    "<": 'redirection (`<`) is not supported: give the text with "stdin"',
    "*": "globs (`*`) are not expanded: quote it as '*' to pass it on, or list the files with find",
    "?": "globs (`?`) are not expanded: quote it as '?' to pass it on",
    "[": "globs (`[`) are not expanded: quote it as '[' to pass it on",
    "$": "variables and substitution (`$`) are not supported: use a {{parameter}}, \"env\", or quote it as '$'",
    "`": "substitution (`) is not supported: use a pipe, or quote it in single quotes",
    "(": "subshells (`(`) are not supported: quote it as '('",
    ")": "subshells (`)`) are not supported: quote it as ')'",
    "#": "comments (`#`) are not supported: quote it as '#' to pass it on",
    "&": "background jobs (`&`) are not supported: use && or ;",
    "\n": "a line break is not supported: join commands with ; or &&, or quote it",
    "~": "`~` is not expanded in commands: write the path, or quote it as '~'",
    "{": "`{{` is never closed; a placeholder looks like {{name}}",
    "'": "a single quote (') is never closed",
    "\\": "a backslash at the end escapes nothing; remove it, or quote it as '\\'",
    '"': 'a double quote (") is never closed',
    ";;": "a command is missing between `;` and `;`",
    "|&": "`|&` is not supported: stderr always goes to the log",
}
_ITEM = re.compile(
    r"""
      [^\s'"\\|;&{]++ (?![^ \t\r|;])  # a whole word of nothing else: most are
    | (?:
          [^\s'"\\|;&{]++
        | \{\{[^{}]*\}\}
        | '[^']*'
        | "(?:[^"\\$`]|\\.)*["$`]?
        | \\.
        | (?!&&)[^ \t\r|;]
      )++
    | \|\||&&|;;|\|&|[|;]
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = frozenset({"|", "||", "&&", ";", ";;", "|&"})
_TOKEN = re.compile(
    r"""
      (?P<plain>[^\s'"\\|;&<>*?\[$`()\#{~]+)
    | \{\{(?P<slot>[^{}]*)\}\}
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\.)*)"
    | (?P<continued>\\\n)
    | \\(?P<escaped>.)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED_IN_DOUBLE = re.compile(r'"(?:[^"\\$`]|\\.)*+([$`])', re.DOTALL)
_ESCAPED_IN_DOUBLE = re.compile(r'\\(?:\n|(["\\$`]))')


class Word(msgspec.Struct, frozen=True):
    """One argument of a command: literal text and slots, with what the checks ask about it again and again.

    Attributes:
        pieces: The text and the slots, in order.
        quoted: Whether any of it was quoted.
        literal: The text, where no slot is in it.
        only_slot: The parameter's name, where the word is one placeholder and nothing else.
        slots: The names of all its placeholders.
        start: The text before its first placeholder.
    """

    pieces: tuple[Piece, ...]
    quoted: bool
    literal: str | None
    only_slot: str | None
    slots: tuple[str, ...]
    start: str


def make_word(pieces: tuple[Piece, ...], *, quoted: bool = False) -> Word:
    """A word of these pieces."""
    first = pieces[0] if pieces else ""
    start = first if isinstance(first, str) else ""
    slots = tuple([piece.name for piece in pieces if isinstance(piece, Placeholder)])
    only_slot = slots[0] if slots and len(pieces) == 1 else None
    return Word(pieces, quoted, None if slots else start, only_slot, slots, start)


Command = tuple[Word, ...]
Pipeline = tuple[Command, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline, and when it runs: after `;` always, after `&&` on success, after `||` on failure."""

    after: Literal[";", "&&", "||"]
    pipeline: Pipeline


Script = tuple[Step, ...]


def parse(template: str) -> Script:
    """Parse a command template.

    Raises:
        TemplateError: It has what only a shell could do, an open quote, or a missing command.
    """
    steps: list[Step] = []
    after: Literal[";", "&&", "||"] = ";"
    pipeline: list[Command] = []
    command: list[Word] = []
    for raw in _ITEM.findall(template):
        if raw not in _OPERATORS:
            word = _remembered_word(raw) if len(raw) <= _LONGEST_REMEMBERED else _read_word(raw)
            command += () if word is None else (word,)
            continue
        if raw in _REFUSED:
            raise TemplateError(_REFUSED[raw])
        if not command:
            raise TemplateError(f"a command is missing before `{raw}`")
        pipeline.append(tuple(command))
        command = []
        if raw != "|":
            steps.append(Step(after=after, pipeline=tuple(pipeline)))
            pipeline, after = [], cast('Literal[";", "&&", "||"]', raw)
    if command:
        pipeline.append(tuple(command))
        steps.append(Step(after=after, pipeline=tuple(pipeline)))
    elif pipeline or after != ";":
        raise TemplateError(f"a command is missing after `{'|' if pipeline else after}`")
    if not steps:
        raise TemplateError('the command is empty; write a program and its arguments, such as "rg -n {{pattern}}"')
    return tuple(steps)


def _read_word(raw: str) -> Word | None:
    """Parse one word; None where it has only line continuations."""
    pieces: list[Piece] = []
    begun = quoted = False
    for token in _TOKEN.finditer(raw):
        kind, inside = token.lastgroup, token.group(token.lastindex or 0)
        match kind:
            case "plain" if len(inside) == len(raw):  # most words; the other way takes three times as long
                return Word((raw,), False, raw, None, (), raw)
            case "plain" | "escaped":
                pieces.append(inside)
            case "slot":
                pieces.append(Placeholder(slot_name(inside)))
            case "single":
                pieces.extend(cut_template(inside))
            case "double":
                pieces.extend(_in_double(inside))
            case "continued":  # a line that goes on: nothing is there, not even a blank
                continue
            case _:
                pieces.append(_read_other(raw, token.start(), begun=begun))
        begun, quoted = True, quoted or kind in ("single", "double", "escaped")
    return make_word(_join_pieces(pieces), quoted=quoted) if begun else None


_remembered_word = functools.lru_cache(maxsize=4_096)(_read_word)
"""Options and placeholders recur in thousands of templates; a longer text hardly does, and would be kept."""


def _in_double(inside: str) -> tuple[Piece, ...]:
    """What stands in double quotes: placeholders, four characters that a backslash escapes, lines that go on."""
    return tuple(
        _ESCAPED_IN_DOUBLE.sub(r"\1", piece) if isinstance(piece, str) else piece for piece in cut_template(inside)
    )


def _join_pieces(pieces: list[Piece]) -> tuple[Piece, ...]:
    """The pieces of a word with adjacent texts joined, and empty ones left out."""
    joined: list[Piece] = []
    for is_slot, group in itertools.groupby(pieces, key=lambda piece: isinstance(piece, Placeholder)):
        found = [*group]
        joined += found if is_slot else ["".join(cast("list[str]", found))]
    return tuple([piece for piece in joined if piece])


def _read_other(text: str, at: int, *, begun: bool) -> str:
    """A character that is neither text, quote nor operator: taken literally, or refused with the reason."""
    character = text[at]
    if (character == "{" and not text.startswith("{{", at)) or (character == "~" and begun):
        return character
    in_quotes = _REFUSED_IN_DOUBLE.match(text, at)
    refused = in_quotes.group(1) if in_quotes else character
    raise TemplateError(_REFUSED.get(refused, f"{refused!r} is not supported: quote it"))
