"""Where a command would run a value as code, by the rules of `code_rules`.

A placeholder there is refused when the file is loaded, unless the tool's author names it in `allowScript`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from toolstead.tools.handlers.code_rules import RISKY_VARIABLE, RULES, Rule
from toolstead.tools.handlers.shell_syntax import Command, Word

_OptionKind = Literal["flag", "never", "code", "beside", "values", "unknown"]
_STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NUMBER = re.compile(r"[\d.]")
_VERSION = re.compile(
    r"-?\.?\d[\d_]*+(?:\.\d[\d_]*+)*+[a-z]?(?:[-.].*)?|\.(?:so.*|exe|basic|tiny|nox|gtk3?|athena|openbsd)"
)


class _Own(msgspec.Struct):
    """The own words of all programs of one rule, up to the script, the program, the subcommand or the first operand."""

    start: int  # where the first of them stands
    deciders: list[int] = []  # where that may stand
    seen: set[tuple[int, int, bool, bool]] = set()  # how far it was read, and how
    is_open: bool = False  # whether it may be missing, so that stdin is read
    is_barred: bool = False  # whether an option or the subcommand lets no value stand anywhere


class Reading:
    """What a command runs, in every way to read it. This takes a time that grows with the number of words alone.

    Attributes:
        places: The words that would be run as code, and why.
        programs: Where programs and subcommands stand, and the names of their rules.
        decided: Up to here each word has its place: one more or less would change what runs.
    """

    __slots__ = ("_command", "_own", "_started", "decided", "places", "programs")

    def __init__(self, command: Command) -> None:
        names = [_find_family(word.literal) if word.literal and word.literal[0] != "-" else "" for word in command]
        self.places: list[tuple[Word, str]] = []
        self.programs = [(0, names[0])]
        self.decided = 0
        self._own: dict[str, _Own] = {}
        if command[0].literal is None:
            self._refuse(command[:1], "it would choose the program")
        if not any(names):
            return
        self._command = command
        self._started = {*self.programs}
        for at, key in self.programs:  # it grows
            if (rule := RULES.get(key)) is not None:
                own = self._own.setdefault(key, _Own(at))
                own.start = min(own.start, at)
                if rule.decides:
                    self._read_own(rule, key, own, at)
        read, self.places = self.places, []  # what an option runs comes first: it is the better reason
        listed = [(at, name) for at, name in enumerate(names) if name]  # also what an unlisted wrapper may start
        first = {(name, (at, name) in self._started): at for at, name in reversed(listed)}
        for (name, is_started), at in first.items():
            self._refuse_code_values(RULES[name], name, command[at + 1 :], is_started=is_started)
        self.places += read
        for key, own in self._own.items():
            self._refuse_own(RULES[key], key, own)

    def find_marks(self) -> set[str]:
        """What no value may begin with."""
        return {mark for key in self._own for mark in RULES[key].marks}

    def find_last(self) -> int | None:
        """Where the program stands after which a `--` ends the options; None where it ends none."""
        at, key = max(self.programs)
        return None if key in RULES and "relays" in RULES[key].also else at

    def find_reader(self) -> str | None:
        """What a program does that would run what it reads from stdin, or make arguments of it: "sh runs"."""
        for key, own in self._own.items():
            if "feeds" in RULES[key].also:
                return f"{key} makes arguments, options too, of"
            if self._runs_stdin(RULES[key], own):
                return f"{key} runs"
        return None

    def _refuse(self, words: Iterable[Word], reason: str) -> None:
        self.places += [(word, reason) for word in words]

    def _start(self, at: int, key: str) -> None:
        if (at, key) not in self._started and (key in RULES or "/" not in key):
            self._started.add((at, key))
            self.programs.append((at, key))
            if self._command[at].literal is None:
                self._refuse([self._command[at]], "it would choose the program")

    def _read_own(self, rule: Rule, key: str, own: _Own, program: int) -> None:  # noqa: PLR0912 - one state machine
        """Read a program's own words in every way, and find what it starts.

        A state is a place, the operands to skip, whether `--` ended the options, and whether an option gave the code.
        """
        words = self._command
        refused: list[Word] = []
        waiting = [(program + 1, skip, False, False) for skip in rule.skip]
        if "dashes" in rule.also and not own.seen:
            waiting += [(at + 1, 0, True, False) for at, word in enumerate(words) if word.literal == "--"][:1]
        while waiting:
            state = at, skip, is_ended, is_given = waiting.pop()
            if at >= len(words) or state in own.seen:
                own.is_open = own.is_open or (at >= len(words) and not is_given)
                continue
            own.seen.add(state)
            word = words[at]
            if not is_ended and word.literal == "--":
                is_ended = True
            elif not is_ended and word.start[:1] in rule.signs and (word.literal != "-" or "-" in rule.flags):
                kind, joined = _read_option(rule, word.literal or word.start)
                own.is_barred = own.is_barred or kind == "never"
                reads_stdin = "+" in rule.signs and "s" in word.start and word.start[1] != "-"  # `sh -s`
                own.is_open = own.is_open or reads_stdin
                if word.literal is None:
                    refused += () if is_given or _is_data(rule, "", word.start) else (word,)
                elif kind != "flag":
                    if kind == "code" and "module" in rule.also and "m" in word.literal:  # a program of its own
                        named = joined or "".join(following.literal or "" for following in words[at + 1 : at + 2])
                        self._start(at + (not joined and at + 1 < len(words)), _find_family(named))
                    was_given, is_given = is_given, is_given or (kind == "code" and rule.kind == "script")
                    if joined is None:
                        refused += words[at + 1 : at + 2] if kind != "values" and not was_given else ()
                        waiting.append((at + 2, skip, is_ended, is_given))
                        if kind not in ("never", "unknown"):
                            continue
            elif "assigns" in rule.also and _ASSIGNMENT.match(word.start):
                refused += [word] if RISKY_VARIABLE.match(word.start) else []
            elif skip:
                refused += [word] if "fixed" in rule.also else []
                skip -= 1
            else:
                if not is_given:
                    own.deciders.append(at)
                    if rule.kind == "starts":
                        self._start(at, _find_family(word.literal or ""))
                    elif rule.kind == "command":
                        own.is_barred = own.is_barred or word.literal in rule.never
                        self._start(at, f"{key}/{word.literal}")
                continue
            waiting.append((at + 1, skip, is_ended, is_given))
        if refused:
            self._refuse(refused, f"it may decide what {key.replace('/', ' ')} runs")

    def _refuse_own(self, rule: Rule, key: str, own: _Own) -> None:
        command = self._command
        reason = f"it would choose the subcommand of {key}" if rule.kind == "command" else f"{key} would run it"
        if own.deciders:
            self.decided = max(self.decided, max(own.deciders) + (rule.kind == "first"))
        if rule.kind in ("script", "command"):
            self._refuse([command[at] for at in own.deciders], reason)
        elif rule.kind == "first" and own.deciders:
            self._refuse(command[min(own.deciders) + 1 :], reason)
        elif rule.kind == "none":
            self.decided = len(command)
            pairs = itertools.pairwise(command[own.start :])
            code = [word for before, word in pairs if not _is_data(rule, before.literal or "", word.start)]
            self._refuse(code, reason)
        elif rule.kind == "options" and rule.never:
            texts = [word.literal for word in command[own.start + 1 :] if word.literal]
            own.is_barred = any(_read_option(rule, text)[0] == "never" for text in texts)
        if own.is_barred:
            self._refuse(command[own.start + 1 :], f"{key} would run it, with the option or subcommand that is there")

    def _refuse_code_values(self, rule: Rule, called: str, words: Command, *, is_started: bool) -> None:
        """Refuse what options take as code: the next word, what follows `=`, or what is joined to a short option."""
        if is_started and "bundle" in rule.also and words and not words[0].start.startswith("-"):
            is_code = any(f"-{letter}" in rule.code for letter in words[0].start)
            self._refuse(words if is_code else words[:1], f"{called} would take options from it")
        is_running = False
        for at, word in enumerate(words):
            if word.literal is None:
                if is_running or (word.start and _begins_code(rule, word.start, is_started)):
                    self._refuse([word], f"{called} {word.start.partition('=')[0]} would run it")
            elif is_running:
                is_running = word.literal not in (";", "+")
            elif word.literal[:1] in ("-", "+") and _takes_code_next(rule, word.literal, is_started):
                is_running = "until" in rule.also
                self._refuse(words[at + 1 : at + 2], f"{called} {word.literal} would run it")

    def _runs_stdin(self, rule: Rule, own: _Own) -> bool:
        """Whether a program with these arguments runs its stdin; what a placeholder fills is no such argument."""
        literals = [word.literal or "" for word in self._command[own.start + 1 :]]
        pairs = [pair for pair in itertools.pairwise([*literals, ""]) if pair[0].startswith("-")]
        read = [(*_read_option(rule, option), following) for option, following in pairs]
        given = [joined or following for kind, joined, following in read if kind in ("code", "beside")]
        if "stdin" not in rule.also or not _STDIN_NAMES.isdisjoint(given):
            return not _STDIN_NAMES.isdisjoint(given)
        if rule.kind in ("none", "options"):
            return rule.kind == "none" or not given
        if rule.kind == "first":
            return own.is_open or len(self._command) - 1 in own.deciders
        return own.is_open or any(self._command[at].literal in _STDIN_NAMES for at in own.deciders)


@functools.lru_cache(maxsize=4_096)
def _read_option(rule: Rule, literal: str) -> tuple[_OptionKind, str | None]:
    """What an option is, and the value that is joined to it; where none is, the next word is, or may be, its value."""
    name, equals, value = literal.partition("=")
    groups: tuple[tuple[_OptionKind, frozenset[str]], ...]
    groups = (("never", rule.never), ("code", rule.code), ("beside", rule.beside), ("values", rule.values))
    if literal in rule.flags:
        return "flag", None
    for kind, options in groups:
        shortened = len(name) > 2 and name.startswith("--") and kind != "values"
        if name in options or (shortened and any(option.startswith(name) for option in options)):
            return kind, value if equals else None
    for at, letter in enumerate("" if literal.startswith("--") else literal[1:], start=2):
        option = f"-{letter}"
        for kind, options in groups:
            if option in options and option not in rule.flags:
                both = kind == "code" and literal[at:].isalpha() and f"-{literal[-1]}" in options  # `node -pe CODE`
                return kind, None if both else literal[at:] or None
        if f"{option}*" in rule.flags:
            return "flag", None
        if option not in rule.flags and not letter.isdigit():
            return "unknown", None
    return ("unknown" if literal.startswith("--") and not equals else "flag"), None


@functools.lru_cache(maxsize=4_096)
def _is_data(rule: Rule, before: str, start: str) -> bool:
    """Whether a placeholder is the value of an option that takes only data: joined to it, or in the next word."""
    if start.startswith("-"):
        return _read_option(rule, start)[0] == "values" and ("=" in start or start[1:2] != "-")
    return before.startswith("-") and _read_option(rule, before) == ("values", None)


@functools.lru_cache(maxsize=4_096)
def _takes_code_next(rule: Rule, literal: str, is_started: bool) -> bool:
    kind, joined = _read_option(rule, literal)
    if kind in ("code", "beside") or literal in rule.code:
        return joined is None
    letters = literal[-1:] if is_started else literal[1:]
    return literal[1:].isalnum() and any(f"-{letter}" in rule.code | rule.beside for letter in letters)


@functools.lru_cache(maxsize=4_096)
def _begins_code(rule: Rule, start: str, is_started: bool) -> bool:
    """Whether the text before a placeholder makes its value code: `--eval=`, `-e`, `-le`, `--ev`, or a mere dash."""
    options = rule.code | rule.beside
    name = start.partition("=")[0]
    if not start.startswith(("-", "+")) or any(option.startswith(name) for option in options):
        return start.startswith(("-", "+"))
    kind, _ = _read_option(rule, name)
    adds_letters = is_started and name == start and start[1:].isalnum() and any(len(option) == 2 for option in options)
    return kind in ("code", "beside") or (adds_letters and kind != "values")


@functools.lru_cache(maxsize=4_096)
def _find_family(literal: str) -> str:
    """The name that a program has in the table: without its folder, its version and what it was built with."""
    name = literal.rpartition("/")[2].lower()
    if name in RULES:
        return name
    family = _NUMBER.split(name, maxsplit=1)[0].rstrip("-")
    return family if family in RULES and _VERSION.fullmatch(name, len(family)) else ""
