"""Where a command would run a value as code: applies the rules of `code_rules`.

A placeholder in such a place is refused when the file is loaded, unless the tool's author names the
parameter in `allowScript`. Where a command can be read in two ways, both count.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from toolstead.tools.handlers.code_rules import RISKY_VARIABLE, RULES, Rule
from toolstead.tools.handlers.shell_syntax import Command, Word, make_word

_OptionKind = Literal["flag", "never", "code", "beside", "values", "unknown"]
_NOTHING = make_word(("",))
_STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LONGEST_NAME = 64
_STEM = re.compile(r"[^\d.]*")
_VERSION = re.compile(r"(?:[.-]?\d[\d._]*[a-z]?)?(?:-.*|\.so.*)?")
_VARIANT = re.compile(r"(.*)[.-](?:static|dbg|debug|multiarch|exe|basic|tiny|nox|gtk3?|athena|openbsd|traditional)")


class Reading(msgspec.Struct):
    """What a command runs, in every way to read it.

    Attributes:
        programs: Where a program or a subcommand stands, and the name of its rule.
        places: The words whose placeholders would be filled with code, and why.
        decided: Up to here each word has its place: one more or less would change what runs.
    """

    programs: list[tuple[int, str]]
    places: list[tuple[Word, str]]
    decided: int = 0

    def find_marks(self, at: int) -> set[str]:
        """What the argument at this place may not begin with."""
        return {mark for start, key in self.programs if start < at and key in RULES for mark in RULES[key].marks}

    def ends_options(self, at: int) -> bool:
        """Whether the `--` at this place ends the options of the program that reads what follows it."""
        start, key = max(self.programs)
        return at > start and not (key in RULES and "relays" in RULES[key].also)

    def refuse(self, words: Iterable[Word], reason: str) -> None:
        """Count words as code."""
        self.places += [(word, reason) for word in words if word.slots]


def read_command(command: Command) -> Reading:
    """What a command runs, and which of its placeholders are code."""
    names = [_find_family(word.literal) if word.literal else "" for word in command]
    if RULES.keys().isdisjoint(names):  # only the place of the program itself can be code
        return Reading([(0, "")], [] if command[0].literal else [(command[0], "it would choose the program")])
    reading = Reading([], [])
    waiting = {(0, names[0])}
    while waiting:
        at, key = waiting.pop()
        reading.programs.append((at, key))
        reading.decided = max(reading.decided, at)
        if command[at].literal is None:
            reading.refuse(command[at : at + 1], "it would choose the program")
        elif key in RULES:
            waiting |= {*_apply_rule(reading, key, command, at)} - {*reading.programs}
    if len(reading.programs) < len(names) - names.count(""):
        started = [at for at, _ in reading.programs]
        for at, name in enumerate(names):  # what runs it may be a wrapper that is not in the table
            if name in RULES and at not in started:
                _refuse_code_values(reading, RULES[name], name, command[at + 1 :], is_started=False)
    return reading


def _apply_rule(reading: Reading, key: str, command: Command, at: int) -> Iterator[tuple[int, str]]:
    """Find what is code for one program; yields what it starts: where, and the name of the rule."""
    rule, words, called = RULES[key], command[at + 1 :], key.replace("/", " ")
    if rule.code or rule.beside:
        _refuse_code_values(reading, rule, called, words, is_started=True)
    if rule.kind in ("none", "options"):
        options = [word.literal for word in words if word.literal] if rule.never else []
        if rule.kind == "none":
            reading.decided = len(command)
            reading.refuse(_leave_out_data(rule, words), f"{called} would run it")
    else:
        deciders, refused, options, _ = _read_own(rule, words)
        reading.refuse(refused, f"it may decide what {called} runs")
        for decider in deciders:
            word, start = words[decider], at + 1 + decider
            reading.decided = max(reading.decided, start)
            if rule.kind == "starts":
                yield start, _find_family(word.literal or "")
            elif rule.kind == "first":
                reading.decided = max(reading.decided, start + 1)
                reading.refuse(words[decider + 1 :], f"{called} would run it")
            elif word.literal is None:
                reading.refuse([word], f"{called} would run it")
            elif rule.kind == "command":
                options.append(word.literal)
                yield start, f"{key}/{word.literal}"
        if "module" in rule.also:
            yield from _find_modules(rule, command, at)
    if rule.never and any(option in rule.never or _read_option(rule, option)[0] == "never" for option in options):
        reading.refuse(words, f"{called} would run it, with the option or the subcommand that is there")


def _find_modules(rule: Rule, command: Command, at: int) -> Iterator[tuple[int, str]]:
    """What `-m` names, which is a program of its own, in the same word or in the next one."""
    for start, word in enumerate(command[at + 1 :], start=at + 1):
        if (word.literal or "").startswith("-") and "m" in (word.literal or ""):
            kind, joined = _read_option(rule, word.literal or "")
            named = joined or (command[start + 1].literal if start + 1 < len(command) else None)
            if kind == "code" and named:
                yield start + (not joined), _find_family(named)


class _Own(NamedTuple):
    """A program's own words."""

    deciders: set[int]  # where the script, the program, the subcommand or the first operand may stand
    refused: list[Word]  # words before it that may be no data
    options: list[str]  # the options before it
    is_open: bool  # whether all words can be read without finding it


def _read_own(rule: Rule, words: Command) -> _Own:
    """Read what stands between a program and what decides, in every way: a state is a place, and what was met."""
    deciders: set[int] = set()
    refused: list[Word] = []
    options: list[str] = []
    waiting = {(0, skip, False, False) for skip in rule.skip}
    if "dashes" in rule.also:
        waiting |= {(at + 1, 0, True, False) for at, word in enumerate(words) if word.literal == "--"}
    seen: set[tuple[int, int, bool, bool]] = set()
    is_open = False
    while waiting:
        at, skip, is_ended, is_given = state = waiting.pop()
        seen.add(state)
        if at >= len(words):
            is_open = is_open or not is_given
            continue
        word, steps = words[at], {1}
        if not is_ended and word.literal == "--":
            is_ended = True
        elif not is_ended and _is_option(rule, word):
            kind, joined = _read_option(rule, word.literal or word.start)
            if word.literal is None:
                refused += [] if _is_joined_data(rule, word.start) else [word]
            else:
                options.append(word.literal)
                is_given = is_given or (kind == "code" and rule.kind == "script")
                if kind != "flag" and joined is None:
                    refused += words[at + 1 : at + 2] if kind != "values" else ()
                    steps = {1, 2} if kind in ("never", "unknown") else {2}
        elif "assigns" in rule.also and _ASSIGNMENT.match(word.start):
            refused += [word] if RISKY_VARIABLE.match(word.start) else []
        elif skip:
            refused += [word] if "fixed" in rule.also else []
            skip -= 1
        elif not is_given:
            deciders.add(at)
            continue
        else:
            continue
        waiting |= {(at + step, skip, is_ended, is_given) for step in steps} - seen
    return _Own(deciders, refused, options, is_open)


def _is_option(rule: Rule, word: Word) -> bool:
    is_dash = word.start.startswith("-") and (word.literal != "-" or "-" in rule.flags)
    return is_dash or (word.start.startswith("+") and "+" in rule.flags)


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
def _is_joined_data(rule: Rule, start: str) -> bool:
    """Whether a placeholder after this text is the value of an option that takes only data."""
    return start.startswith("-") and _read_option(rule, start)[0] == "values" and ("=" in start or start[1] != "-")


def _leave_out_data(rule: Rule, words: Command) -> Iterator[Word]:
    """The words that are not the value of an option that takes only data."""
    for before, word in itertools.pairwise((_NOTHING, *words)):
        option = before.literal or ""
        follows = option.startswith("-") and _read_option(rule, option) == ("values", None)
        if not follows and not _is_joined_data(rule, word.start):
            yield word


def _refuse_code_values(reading: Reading, rule: Rule, called: str, words: Command, *, is_started: bool) -> None:
    """Refuse what options take as code: the next word, what follows `=`, or what is joined to a short option."""
    if is_started and "bundle" in rule.also and words and not words[0].start.startswith("-"):
        is_code = any(f"-{letter}" in rule.code for letter in words[0].start)
        reading.refuse(words if is_code else words[:1], f"{called} would take options from it")
    is_running = False
    for word, following in itertools.pairwise((*words, _NOTHING)):
        if word.literal is None:
            if is_running or _begins_code(rule, word.start, is_started):
                reading.refuse([word], f"{called} {word.start.partition('=')[0]} would run it")
        elif is_running:
            is_running = word.literal not in (";", "+")
        elif word.literal[:1] in ("-", "+") and _takes_code_next(rule, word.literal, is_started):
            is_running = "until" in rule.also
            reading.refuse([following], f"{called} {word.literal} would run it")


@functools.lru_cache(maxsize=4_096)
def _takes_code_next(rule: Rule, literal: str, is_started: bool) -> bool:  # noqa: FBT001 (a key of the cache)
    kind, joined = _read_option(rule, literal)
    if kind in ("code", "beside") or literal in rule.code:
        return joined is None
    letters = literal[-1:] if is_started else literal[1:]
    return literal[1:].isalnum() and any(f"-{letter}" in rule.code | rule.beside for letter in letters)


@functools.lru_cache(maxsize=4_096)
def _begins_code(rule: Rule, start: str, is_started: bool) -> bool:  # noqa: FBT001 (a key of the cache)
    """Whether the text before a placeholder makes its value code: `--eval=`, `-e`, `-le`, `--ev`, or a mere dash."""
    options = rule.code | rule.beside
    name = start.partition("=")[0]
    if not start.startswith(("-", "+")) or any(option.startswith(name) for option in options):
        return start.startswith(("-", "+"))
    kind, _ = _read_option(rule, name)
    adds_letters = is_started and name == start and start[1:].isalnum() and any(len(option) == 2 for option in options)
    return kind in ("code", "beside") or (adds_letters and kind != "values")


def reads_code(command: Command) -> str | None:
    """What a program does that would run what it reads from stdin, or make arguments of it: "sh runs"."""
    for at, key in read_command(command).programs:
        rule = RULES.get(key)
        if rule is not None and "feeds" in rule.also:
            return f"{key} makes arguments, options too, of"
        if rule is not None and _runs_stdin(rule, command[at + 1 :]):
            return f"{key} runs"
    return None


def _runs_stdin(rule: Rule, words: Command) -> bool:
    """Whether a program with these arguments runs its stdin; what a placeholder fills is no such argument."""
    given: list[str] = []
    for word, following in itertools.pairwise((*words, _NOTHING)):
        kind, joined = _read_option(rule, word.literal) if (word.literal or "").startswith("-") else ("unknown", None)
        given += [(following.literal or "") if joined is None else joined] if kind in ("code", "beside") else []
    if not _STDIN_NAMES.isdisjoint(given):
        return True
    if "stdin" not in rule.also or rule.kind in ("none", "options"):
        return "stdin" in rule.also and (rule.kind == "none" or not given)
    own = _read_own(rule, words)
    if rule.kind == "first":
        return own.is_open or len(words) - 1 in own.deciders
    asked = "+" in rule.flags and any("s" in option for option in own.options if not option.startswith("--"))  # `sh -s`
    return asked or own.is_open or any(words[at].literal in _STDIN_NAMES for at in own.deciders)


@functools.lru_cache(maxsize=4_096)
def _find_family(literal: str) -> str:
    """The name that a program is known by: without its folder, its version and what it was built with."""
    name = literal.rpartition("/")[2].lower()
    if name in RULES or len(name) > _LONGEST_NAME:
        return name
    variant = _VARIANT.fullmatch(name)
    name = variant[1] if variant else name
    stem = _STEM.match(name)
    known = stem[0].rstrip("-") if stem else ""
    return known if known in RULES and stem and _VERSION.fullmatch(name, stem.end()) else name
