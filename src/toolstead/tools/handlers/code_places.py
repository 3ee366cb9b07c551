"""Where a command would run a value as code: applies the rules of `code_rules`.

A placeholder in such a place is refused when the file is loaded, unless the tool's author names the
parameter in `allowScript`. Where a command can be read in two ways, both count.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from toolstead.tools.handlers.code_rules import RISKY_VARIABLE, RULES, Rule
from toolstead.tools.handlers.shell_syntax import Command, Word, make_word
from toolstead.tools.handlers.template import Placeholder

CodePlace = tuple[Word, str]
"""A word whose placeholders would be filled with code, and why."""
_OptionKind = Literal["code", "beside", "values", "flag", "unknown"]

_STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LONGEST_NAME = 64
_STEM = re.compile(r"[^\d.]*")
_VERSION = re.compile(r"(?:[.-]?\d[\d._]*[a-z]?)?(?:-.*|\.so.*)?")
_VARIANT = re.compile(r"(.*)[.-](?:static|dbg|debug|multiarch|exe|basic|tiny|nox|gtk\d?|athena|openbsd|traditional|real)")


@dataclass(slots=True)
class Reading:
    """What a command runs, in every way to read it.

    Attributes:
        places: The words that would be run; only those with placeholders matter.
        programs: Where a program or a subcommand stands, and the name of its rule.
        decided: Up to here each word has its place: one more or less would change what runs.
    """

    places: list[CodePlace] = field(default_factory=list[CodePlace])
    programs: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    decided: int = 0

    def find_marks(self, at: int) -> frozenset[str]:
        """What the argument at this place may not begin with."""
        rules = [RULES[key] for start, key in self.programs if start < at and key in RULES]
        return frozenset().union(*(rule.marks for rule in rules))

    def ends_options(self, at: int) -> bool:
        """Whether the `--` at this place ends the options of the program that reads what follows it."""
        start, key = max(self.programs)
        return at > start and not (key in RULES and "relays" in RULES[key].also)


@dataclass(slots=True)
class _Own:
    """A program's own words, up to what decides.

    Attributes:
        deciders: Where the script, the program, the subcommand or the first operand may stand.
        refused: Placeholders before it that are no data for sure.
        options: The options before it.
        modules: What `-m` names, and where.
        is_open: Whether all words can be read without finding one.
    """

    deciders: set[int] = field(default_factory=set[int])
    refused: list[Word] = field(default_factory=list[Word])
    options: list[str] = field(default_factory=list[str])
    modules: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    is_open: bool = False


def read_command(command: Command) -> Reading:
    """What a command runs, and which of its words are code."""
    names = [_find_family(word.literal) if word.literal else "" for word in command]
    reading = Reading()
    if RULES.keys().isdisjoint(names):  # only the place of the program itself can be one
        reading.programs.append((0, ""))
        if command[0].literal is None:
            reading.places.append((command[0], "it would choose the program"))
        return reading
    waiting = {(0, names[0])}
    while waiting:
        at, key = waiting.pop()
        reading.programs.append((at, key))
        reading.decided = max(reading.decided, at)
        if command[at].literal is None:
            reading.places.append((command[at], "it would choose the program"))
        elif (rule := RULES.get(key)) is not None:
            found = _apply_rule(reading, rule, key, command, at)
            waiting |= {(start, names[start] if then is None else then) for start, then in found}
            waiting -= set(reading.programs)
    started = {at for at, _ in reading.programs}
    for at, name in enumerate(names):  # what runs it may be a wrapper that is not in the table
        if at not in started and (rule := RULES.get(name)) is not None:
            reading.places += _find_code_values(rule, name, command[at + 1 :], is_started=False)
    return reading


def reads_code(command: Command) -> str | None:
    """What a program does that would run what it reads from stdin, or make arguments of it: "sh runs"."""
    for at, key in read_command(command).programs:
        rule, words = RULES.get(key), command[at + 1 :]
        if rule is None:
            continue
        if "feeds" in rule.also and not _feeds_only_data(rule, words):
            return f"{key} makes arguments, options too, of"
        if _runs_stdin(rule, words):
            return f"{key} runs"
    return None


def _apply_rule(reading: Reading, rule: Rule, key: str, command: Command, at: int) -> Iterator[tuple[int, str | None]]:
    """Find the places of one program's code; yields what it starts: where, and the rule, if it is not the word's own."""
    words = command[at + 1 :]
    called = key.replace("/", " ")
    reading.places += _find_code_values(rule, called, words, is_started=True)
    is_barred = False
    if rule.kind == "none":
        reading.decided = len(command)
        reading.places += [(word, f"{called} would run it") for word in _leave_out_data(rule, words)]
    elif rule.kind == "options":
        is_barred = any(_is_barred(rule, word.literal) for word in words if word.literal)
    else:
        own = _read_own(rule, words)
        reading.places += [(word, f"it may decide what {called} runs") for word in own.refused]
        is_barred = any(_is_barred(rule, option) for option in own.options)
        yield from ((at + 1 + start, module) for start, module in own.modules)
        for decider in own.deciders:
            word, start = words[decider], at + 1 + decider
            reading.decided = max(reading.decided, start)
            if rule.kind == "starts":
                yield start, None
            elif rule.kind == "first":
                reading.decided = max(reading.decided, start + 1)
                reading.places += [(later, f"{called} would run it") for later in words[decider + 1 :]]
            else:
                reading.places.append((word, f"{called} would run it"))
            if rule.kind == "command" and word.literal is not None:
                is_barred = is_barred or word.literal in rule.never
                called = f"{called} {word.literal}" if word.literal in rule.never else called
                yield start, f"{key}/{word.literal}"
    if is_barred:
        reading.places += [(word, f"{called} would run it") for word in words]


def _read_own(rule: Rule, words: Command) -> _Own:
    """Read what stands between a program and what decides, in every way."""
    own = _Own()
    waiting = [(0, int(skip), False, False) for skip in rule.skip]
    if "dashes" in rule.also:
        waiting += [(at + 1, 0, True, False) for at, word in enumerate(words) if word.literal == "--"][:1]
    seen: set[tuple[int, int, bool, bool]] = set()
    while waiting:
        state = waiting.pop()
        at, skip, is_ended, is_given = state
        if state in seen:
            continue
        seen.add(state)
        if at >= len(words):
            own.is_open = own.is_open or not is_given
            continue
        word = words[at]
        if not is_ended and word.literal == "--":
            waiting.append((at + 1, skip, True, is_given))
        elif not is_ended and _looks_like_option(rule, word):
            if word.literal is None:
                own.refused += [] if _is_joined_data(rule, word.start) else [word]
                waiting.append((at + 1, skip, is_ended, is_given))
                continue
            own.options.append(word.literal)
            kind, joined = _read_option(rule, word.literal)
            if kind == "code" and rule.kind == "script":
                is_given = True
                if "module" in rule.also and (joined or word.literal.endswith("m")):
                    name = joined or (words[at + 1].literal if at + 1 < len(words) else None)
                    own.modules += [(at + (joined is None), _find_family(name))] if name else []
            if kind in ("flag", "unknown") or joined is not None:
                waiting.append((at + 1, skip, is_ended, is_given))
            if kind != "flag" and joined is None:
                own.refused += words[at + 1 : at + 2] if kind != "values" else ()
                waiting.append((at + 2, skip, is_ended, is_given))
        elif "assigns" in rule.also and _ASSIGNMENT.match(word.start):
            own.refused += [word] if RISKY_VARIABLE.match(word.start) else []
            waiting.append((at + 1, skip, is_ended, is_given))
        elif skip:
            own.refused += [word] if "fixed" in rule.also else []
            waiting.append((at + 1, skip - 1, is_ended, is_given))
        elif not is_given:
            own.deciders.add(at)
    return own


def _looks_like_option(rule: Rule, word: Word) -> bool:
    return (word.start.startswith("-") and (word.literal != "-" or "-" in rule.flags)) or (
        "apart" in rule.also and word.start.startswith("+")
    )


@functools.lru_cache(maxsize=4_096)
def _read_option(rule: Rule, literal: str) -> tuple[_OptionKind, str | None]:
    """What an option is, and the value that is joined to it; none is where the next word is, or may be, its value."""
    groups: tuple[tuple[_OptionKind, frozenset[str]], ...] = (
        ("code", rule.code),
        ("beside", rule.beside),
        ("values", rule.values),
    )
    if literal in rule.flags:
        return "flag", None
    name, equals, value = literal.partition("=")
    for kind, options in groups:
        if name in options:
            return kind, value if equals else None
    if literal.startswith("--"):
        for kind, options in groups[:2]:
            if len(name) > 2 and any(option.startswith(name) for option in options):
                return kind, value if equals else None
        return ("flag" if equals else "unknown"), None
    for at, letter in enumerate(literal[1:], start=2):
        if f"-{letter}*" in rule.flags:
            return "flag", None
        for kind, options in groups:
            if f"-{letter}" in options and f"-{letter}" not in rule.flags:
                both = kind == "code" and literal[at:].isalpha() and f"-{literal[-1]}" in options  # `node -pe CODE`
                return kind, None if both else literal[at:] or None
        if f"-{letter}" not in rule.flags and not letter.isdigit():
            return "unknown", None
    return "flag", None


def _is_joined_data(rule: Rule, start: str) -> bool:
    """Whether a placeholder after this text is the value of an option that takes only data."""
    kind, joined = _read_option(rule, start)
    return kind == "values" and ("=" in start or not start.startswith("--")) and (joined is None or len(joined) > 0)


def _is_barred(rule: Rule, literal: str) -> bool:
    """Whether an option lets no value stand anywhere."""
    if not rule.never or not literal.startswith("-"):
        return False
    name = literal.partition("=")[0]
    if name in rule.never or (len(name) > 2 and name[:2] == "--" and any(o.startswith(name) for o in rule.never)):
        return True
    letters = itertools.takewhile(
        lambda letter: _read_option(rule, f"-{letter}")[0] in ("flag", "unknown") or f"-{letter}" in rule.never,
        "" if literal.startswith("--") else literal[1:],
    )
    return any(f"-{letter}" in rule.never for letter in letters)


def _leave_out_data(rule: Rule, words: Command) -> Iterator[Word]:
    """The words that are not the value of an option that takes only data."""
    for before, word in itertools.pairwise((make_word(("",)), *words)):
        follows = (before.literal or "").startswith("-") and _read_option(rule, before.literal or "") == ("values", None)
        if not follows and not (word.start.startswith("-") and _is_joined_data(rule, word.start)):
            yield word


def _find_code_values(rule: Rule, called: str, words: Command, *, is_started: bool) -> Iterator[CodePlace]:
    """Values of options that take code: in the next word, after `=`, or joined to a short option."""
    if is_started and "bundle" in rule.also and words and not words[0].start.startswith("-"):
        if words[0].literal is None:
            yield words[0], f"it would be options of {called}"
        elif any(f"-{letter}" in rule.code for letter in words[0].literal):
            yield from ((word, f"{called} {words[0].literal} would run it") for word in words)
    if not rule.code and not rule.beside:
        return
    is_running = False
    for at, word in enumerate(words):
        literal = word.literal
        if literal is None:
            if is_running or (word.start and _begins_code(rule, word.start, is_started=is_started)):
                yield word, f"{called} {word.start.partition('=')[0]} would run it"
        elif is_running:
            is_running = literal not in (";", "+")
        elif literal.startswith(("-", "+")) and len(literal) > 1 or literal == "+":
            is_apart = "apart" in rule.also and literal[1] != "-" and "c" in literal[1:]
            if is_apart or _takes_code_next(rule, literal):
                is_running = "until" in rule.also
                for following in words[at + 1 :]:
                    yield following, f"{called} {literal} would run it"
                    if not is_apart or not (following.literal or "").startswith(("-", "+")):
                        break


def _takes_code_next(rule: Rule, literal: str) -> bool:
    kind, joined = _read_option(rule, literal)
    if kind == "unknown" and literal[1:].isalnum():
        return f"-{literal[-1]}" in rule.code or f"-{literal[-1]}" in rule.beside
    return kind in ("code", "beside") and joined is None


def _begins_code(rule: Rule, start: str, *, is_started: bool) -> bool:
    """Whether the text before a placeholder makes its value code: `--eval=`, `-e`, `-le`, or a mere dash."""
    options = rule.code | rule.beside
    name = start.partition("=")[0]
    if start.startswith("+"):
        return "+" in options
    if not start.startswith("-"):
        return False
    if name in options or start in ("-", "--"):
        return True
    if len(name) > 1 and any(len(option) > 2 and option.startswith(name) for option in options):
        return True  # shortened, or to be made whole by the value
    if start.startswith("--"):
        return False
    kind, joined = _read_option(rule, name)
    if kind in ("code", "beside"):
        return True
    adds_letters = is_started and name == start and name[1:].isalnum() and any(len(option) == 2 for option in options)
    return adds_letters and kind != "values" and (joined is None)


def _feeds_only_data(rule: Rule, words: Command) -> bool:
    """Whether what `xargs` makes of its stdin can be no option and no code: after a `--`, where values may stand."""
    own = _read_own(rule, words)
    if rule.kind != "starts" or own.is_open or not own.deciders:
        return False
    mark = _find_replaced_text([word.literal or "" for word in words[: max(own.deciders)]])
    for start in own.deciders:
        fed: list[Word] = []
        for word in words[start:]:
            before, found, after = (word.literal or "").partition(mark) if mark else ("", "", "")
            pieces = [piece for piece in (before, Placeholder(""), after) if piece]
            fed.append(make_word(tuple(pieces)) if found else word)
        fed += [] if mark else [make_word((Placeholder(""),))]
        reading = read_command(tuple(fed))
        first = next((at for at, word in enumerate(fed) if "" in word.slots), len(fed))
        separators = [at for at, word in enumerate(fed[:first]) if word.literal == "--"]
        if (
            any("" in word.slots for word, _ in reading.places)
            or first <= reading.decided
            or reading.find_marks(len(fed))
            or not any(reading.ends_options(at) for at in separators)
        ):
            return False
    return True


def _find_replaced_text(options: list[str]) -> str:
    """What `xargs` replaces in its command, where it does: `{}` unless `-I` gives another text."""
    for option, following in itertools.pairwise([*options, ""]):
        if option.startswith("--replace"):
            return option.partition("=")[2] or "{}"
        if option.startswith("-i"):
            return option[2:] or "{}"
        if option.startswith("-") and not option.startswith("--") and "I" in option:
            return option.partition("I")[2] or following
    return ""


def _runs_stdin(rule: Rule, words: Command) -> bool:
    """Whether a program with these arguments runs its stdin; what a placeholder fills is no such argument."""
    literals = [word.literal or "" for word in words]
    given = False
    for literal, following in itertools.pairwise([*literals, ""]):
        kind, joined = _read_option(rule, literal) if literal.startswith("-") else ("unknown", None)
        if kind in ("code", "beside"):
            given = True
            if (following if joined is None else joined) in _STDIN_NAMES:
                return True
    if "stdin" not in rule.also:
        return False
    if rule.kind == "none":
        return True
    if rule.kind == "options":
        return not given
    own = _read_own(rule, words)
    if "apart" in rule.also and any(option[1:2] != "-" and "s" in option for option in own.options):
        return True
    if rule.kind == "first":
        return own.is_open or len(words) - 1 in own.deciders
    return own.is_open or any(literals[at] in _STDIN_NAMES for at in own.deciders)


@functools.lru_cache(maxsize=4_096)
def _find_family(literal: str) -> str:
    """The name that a program is known by: without its folder, its version and what it was built with."""
    name = literal.rpartition("/")[2].lower()
    if name in RULES or len(name) > _LONGEST_NAME:
        return name
    if (variant := _VARIANT.fullmatch(name)) is not None:
        name = variant[1]
    stem = _STEM.match(name)
    known = stem[0].rstrip("-") if stem else ""
    return known if known in RULES and stem and _VERSION.fullmatch(name, stem.end()) else name
