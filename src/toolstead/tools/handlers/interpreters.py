"""Where a program would run a value as code: the list cannot be complete, and the docs say so.

A placeholder in such a place is refused when the file is loaded, unless the tool's author names the
parameter in `allowScript`. Where a command can be read in two ways, both count.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator

from toolstead.tools.handlers.interpreter_table import FINDERS, INTERPRETERS, RISKY_VARIABLE, WRAPPERS, Interpreter
from toolstead.tools.handlers.shell_syntax import Command, Word, make_word
from toolstead.tools.handlers.template import Placeholder

_LISTED = frozenset({*INTERPRETERS, *WRAPPERS, *FINDERS})

MAKES_ARGUMENTS = frozenset({"xargs", "parallel"})
_ASSIGNERS = frozenset({"env", "genv", "sudo", "doas"})
_STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_STDIN_FLAG = frozenset({"-s"})
_VERSION = re.compile(r"(?:[-\d.]+|-static|-dbg|\.exe)+$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_CLUSTER = re.compile(r"-[A-Za-z0-9]{2,}")


CodePlace = tuple[Word, str]
"""A word whose placeholders would be filled with code, and why."""


def code_places(command: Command) -> Iterator[CodePlace]:
    """Every word of a command that would choose the program, or be run by it; only placeholders matter."""
    called_in_order = [_program_name(word.literal) if word.literal else "" for word in command]
    if _LISTED.isdisjoint(called_in_order):  # only the place of the program itself can be one
        if command[0].literal is None:
            yield command[0], "it would choose the program"
        return
    programs = _find_programs(command)
    for start in programs:
        program, called, words = command[start], called_in_order[start], command[start + 1 :]
        if program.literal is None:
            yield program, "it would choose the program"
        if called in INTERPRETERS:
            yield from _code_of(called, words)
        if called in FINDERS:
            yield from _find_code(called, words)
    for word in command[: programs[-1]]:
        if RISKY_VARIABLE.match(word.start):
            yield word, f"{word.start.partition('=')[0]} says what programs run"
    for at, called in enumerate(called_in_order):  # what runs them may be a wrapper that is not in the list
        if at and called in INTERPRETERS:
            yield from _flag_values(called, command[at + 1 :])


def runs_stdin(command: Command) -> str | None:
    """The program's name, where it would run what it reads from stdin, or make arguments of it."""
    for start in _find_programs(command):
        called, words = _program_name(command[start].literal or ""), command[start + 1 :]
        if called in MAKES_ARGUMENTS:
            return f"{called} {inner}" if (inner := _code_from_arguments(called, words)) else called
        if called in INTERPRETERS and _takes_code_from_stdin(called, words):
            return called
    return None


def ends_options(command: Command, at: int) -> bool:
    """Whether the `--` at this place ends the options of the program that reads what follows it."""
    start = max(_find_programs(command))
    return at > start and _program_name(command[start].literal or "") not in FINDERS


def _find_programs(command: Command) -> list[int]:
    """Where programs stand: the first word, and those that a wrapper would run, in every way to read it."""
    found: list[int] = []
    waiting = [0]
    while waiting:
        start = waiting.pop()
        if start in found:
            continue
        found.append(start)
        called = _program_name(command[start].literal or "")
        if called in WRAPPERS:
            waiting += [start + 1 + at for at in _find_wrapped(called, command[start + 1 :])]
        if called in INTERPRETERS and "-m" in INTERPRETERS[called].flags:  # `python -m timeit CODE`
            literals = [word.literal for word in command[start + 1 : -1]]
            waiting += [start + 2 + at for at, literal in enumerate(literals) if literal == "-m"]
    return sorted(found)


def _find_wrapped(called: str, words: Command) -> Iterator[int]:
    """Where the program stands that a wrapper runs: after its options, its operands and its sub-command."""
    wrapper = WRAPPERS[called]
    literals = [word.literal for word in words]
    waiting = [(0, wrapper.skip)]
    if wrapper.after:
        if "--" in wrapper.after and "--" in literals:
            waiting = [(literals.index("--") + 1, 0)]
        else:
            waiting = [(at + 1, wrapper.skip) for at, literal in enumerate(literals) if literal in wrapper.after][:1]
    seen: set[tuple[int, int]] = set()
    while waiting:
        at, skip = waiting.pop()
        if at >= len(words) or (at, skip) in seen:
            continue
        seen.add((at, skip))
        literal = literals[at]
        if literal is not None and literal.startswith("-") and "--" not in literals[:at]:
            takes = _takes_next(literal, wrapper.values)
            both = wrapper.plain is not None and not takes and not _is_plain(literal, wrapper.plain)
            waiting += [(at + 2, skip)] if takes or both else []
            waiting += [] if takes else [(at + 1, skip)]
        elif called in _ASSIGNERS and _ASSIGNMENT.match(words[at].start):
            waiting.append((at + 1, skip))
        elif skip:
            waiting.append((at + 1, skip - 1))
        else:
            yield at


def _code_of(called: str, words: Command) -> Iterator[CodePlace]:
    interpreter = INTERPRETERS[called]
    traits = interpreter.traits
    yield from _flag_values(called, words)
    if "loops" in traits and any(
        _has_letter(_strip_cluster(option, interpreter), "npaF") for option in _own_options(interpreter, words)
    ):
        yield from ((word, f"{called} -n opens it, and would run `command |`") for word in words)
    if called == "env" and any(
        _has_letter(option, "S") or _takes_next(option, interpreter.flags)
        for option in _own_options(interpreter, words)
    ):
        yield from ((word, "env -S makes a command of it") for word in words)
    if traits.isdisjoint(("operand", "rest")):
        return
    is_given = "rest" not in traits and any(
        _is_option(option, interpreter.gives) for option in _own_options(interpreter, words)
    )
    first = 0 if "operand" in traits and not is_given else 1
    end = None if "rest" in traits else 1
    yield from ((word, f"{called} would run it") for word in list(_find_operands(interpreter, words))[first:end])


def _find_operands(interpreter: Interpreter, words: Command) -> Iterator[Word]:
    """The words that are neither options nor their values."""
    value_follows = only_operands = False
    spread = "spread" in interpreter.traits
    values = interpreter.values if spread else interpreter.values | interpreter.flags
    for word in words:
        literal = word.literal or ""
        if value_follows:
            value_follows = False
        elif not only_operands and word.start.startswith(("-", "+")) and (spread or literal != "-"):
            only_operands = literal == "--"
            value_follows = _takes_next(literal, values) or (
                spread and _has_letter(literal, "oO")
            )  # `-oc pipefail CODE`
        else:
            yield word


def _own_options(interpreter: Interpreter, words: Command) -> Iterator[str]:
    """The program's own options: those before its first operand, or among its code."""
    value_follows = False
    for word in words:
        literal = word.literal or ""
        if value_follows:
            value_follows = False
        elif literal.startswith("-") and literal != "--":
            value_follows = _takes_next(literal, interpreter.flags | interpreter.values)
            yield literal
        elif not _ASSIGNMENT.match(literal):
            return


def _flag_values(called: str, words: Command) -> Iterator[CodePlace]:
    """Values of options that take code: in the next word, after `=`, or joined to a short option."""
    interpreter = INTERPRETERS[called]
    flags = interpreter.flags
    bundle = words[0].literal if words and "bundled" in interpreter.traits else None
    if bundle and not bundle.startswith("-") and any(f"-{letter}" in flags for letter in bundle):
        yield from ((word, f"{called} {bundle} would run it") for word in words)
    is_spread = "spread" in interpreter.traits
    for at, word in enumerate(words):
        literal = word.literal
        if literal is None:
            if word.start and _begins_code(word.start, interpreter):
                yield word, f"{called} {word.start.partition('=')[0]} would run it"
        elif _takes_next(literal, flags) or (is_spread and _has_letter(literal, "c")):
            for following in words[at + 1 :]:
                yield following, f"{called} {literal} would run it"
                if not (following.literal or "").startswith(("-", "+")):
                    break


def _begins_code(start: str, interpreter: Interpreter) -> bool:
    """Whether the text before a placeholder makes its value code: `--eval=`, `-e`, `-le`, or a mere dash."""
    option = start.partition("=")[0]
    if start in ("-", "--") or option in interpreter.flags or ("+" in interpreter.flags and start.startswith("+")):
        return True
    if start.startswith("--"):
        return any(flag.startswith(option) for flag in interpreter.flags)
    return start.startswith("-") and f"-{_strip_cluster(start, interpreter)[-1]}" in interpreter.flags


def _find_code(called: str, words: Command) -> Iterator[CodePlace]:
    running = False
    for word in words:
        if word.start.partition("=")[0] in FINDERS[called]:
            running = True
        elif word.literal in (";", "+"):
            running = False
        if running:
            yield word, f"{called} would run it"


def _code_from_arguments(called: str, words: Command) -> str | None:
    """The program that would run as code what `xargs` makes of its stdin."""
    at = next(_find_wrapped(called, words), None) if called in WRAPPERS else None
    if at is None:
        return None if called in WRAPPERS or list(_find_operands(INTERPRETERS[called], words)) else "alone"
    mark = _replaced_text([word.literal or "" for word in words[:at]])
    fed: list[Word] = []
    for word in words[at:]:
        before, found, after = (word.literal or "").partition(mark) if mark else ("", "", "")
        pieces = [piece for piece in (before, Placeholder(""), after) if piece]
        fed.append(make_word(tuple(pieces)) if found else word)
    fed += [] if mark else [make_word((Placeholder(""),))]
    is_code = any("" in word.slots for word, _ in code_places(tuple(fed)))
    return _program_name(words[at].literal or "") if is_code else None


def _replaced_text(options: list[str]) -> str:
    """What `xargs` replaces in its command, where it does: `{}` unless `-I` gives another text."""
    for option, following in itertools.pairwise([*options, ""]):
        if option == "-I" or _takes_next(option, frozenset({"-I"})):
            return following
        if option.startswith(("-I", "-i", "--replace")):
            return option.partition("=")[2] if option.startswith("--") else option[2:] or "{}"
    return ""


def _takes_code_from_stdin(called: str, words: Command) -> bool:
    """Whether a program with these arguments runs its stdin; what a placeholder fills is no such argument."""
    interpreter = INTERPRETERS[called]
    literals = [word.literal or "" for word in words]
    for literal, following in itertools.pairwise([*literals, ""]):
        option, _, value = literal.partition("=")
        if _takes_next(option, interpreter.flags) and (value or following) in _STDIN_NAMES:
            return True
        if "spread" in interpreter.traits and _takes_next(literal, _STDIN_FLAG):
            return True
    operands = [word.literal for word in _find_operands(interpreter, words)]
    if called in ("ssh", "autossh", "dbclient"):
        return len(operands) == 1  # the far side's shell reads it
    if "stdin" not in interpreter.traits or any(_takes_next(literal, interpreter.flags) for literal in literals):
        return False
    return "data" in interpreter.traits or not operands or operands[0] in _STDIN_NAMES


@functools.lru_cache(maxsize=4_096)
def _takes_next(literal: str, options: frozenset[str]) -> bool:
    """Whether a word is one of the options, also shortened, or at the end of a cluster such as `-lc`."""
    if literal in options:
        return True
    if literal.startswith("--"):
        return len(literal) > 2 and any(option.startswith(literal) for option in options)
    return bool(_CLUSTER.fullmatch(literal)) and f"-{literal[-1]}" in options


def _is_option(literal: str, options: frozenset[str]) -> bool:
    """Whether a word is one of the options, its value joined to it or not."""
    if literal.startswith("--"):
        return _takes_next(literal.partition("=")[0], options)
    return literal[:2] in options or _takes_next(literal, options)


def _is_plain(literal: str, plain: frozenset[str]) -> bool:
    """Whether no value follows an option for sure."""
    return "=" in literal or literal in plain or all(f"-{letter}" in plain for letter in literal[1:])


def _strip_cluster(option: str, interpreter: Interpreter) -> str:
    """A cluster of short options without the value that may be joined to its last one."""
    with_value = interpreter.flags | interpreter.values
    ends = (at for at, letter in enumerate(option[1:], start=2) if f"-{letter}" in with_value)
    return option[: next(ends, None)]


def _has_letter(literal: str, letters: str) -> bool:
    """Whether one of the letters stands in a cluster of short options."""
    return literal.startswith("-") and literal[1:2] != "-" and any(letter in literal[1:] for letter in letters)


@functools.lru_cache(maxsize=4_096)
def _program_name(literal: str) -> str:
    """The name that a program is known by: without its folder and its version."""
    name = literal.rsplit("/", 1)[-1].lower()
    return name if name in _LISTED else _VERSION.sub("", name)
