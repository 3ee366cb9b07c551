"""Where a program would run a value as code: the list cannot be complete, and the docs say so.

A placeholder in such a place is refused when the file is loaded, unless the tool's author names
the parameter in `allowScript`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolyard.tools.handlers.shell_syntax import Command, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """How a program takes code.

    Attributes:
        flags: Options whose value is code; a short one may hide in a cluster such as `-lc`.
        values: Options with a value that is no code, which is therefore no operand either.
        operand: Whether the first operand is code, or names a program file.
        rest: Whether everything after the first operand is code, as for ssh.
        reads_stdin: Whether it runs what it reads from stdin when it has no operand.
        names_data: Whether its operands are no code, such as a database, so that it runs stdin all the same.
        stdin_flag: The option that makes it run stdin whatever its operands are.
    """

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    operand: bool = False
    rest: bool = False
    reads_stdin: bool = False
    names_data: bool = False
    stdin_flag: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELL = Interpreter(
    flags=_words("-c --command --init-command --rcfile --init-file"),
    values=_words("-o +o -O +O"),
    operand=True,
    reads_stdin=True,
    stdin_flag="-s",
)
_SCRIPT = Interpreter(
    flags=_words("-e --eval -p --print -r --require eval --import --loader"), operand=True, reads_stdin=True
)
_SSH_VALUES = _words("-p -l -i -b -c -D -E -e -I -J -L -m -Q -R -W -w -B")
_SQL = Interpreter(flags=_words("-c --command -e --execute -cmd -f --file"), reads_stdin=True, names_data=True)
_AWK = Interpreter(flags=_words("-e --source -f --file -i --include -l --load"), values=_words("-v -F"), operand=True)
_SED = Interpreter(flags=_words("-e --expression -f --file"), operand=True)

INTERPRETERS: dict[str, Interpreter] = {
    **dict.fromkeys(
        ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "elvish", "nu", "pwsh"], _SHELL
    ),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("sed", "gsed"), _SED),
    **dict.fromkeys(("psql", "mysql", "mariadb", "duckdb", "clickhouse"), _SQL),
    **dict.fromkeys(("vi", "vim", "nvim", "ex", "emacs"), Interpreter(flags=_words("-c --cmd -S --eval -l --load -f"))),
    **dict.fromkeys(("node", "nodejs", "bun", "deno"), _SCRIPT),
    **dict.fromkeys(
        ("python", "pypy", "ipython"),
        Interpreter(flags=_words("-c -m"), values=_words("-W -X"), operand=True, reads_stdin=True),
    ),
    "perl": Interpreter(flags=_words("-e -E -M -m -n -p -I"), operand=True, reads_stdin=True),
    "ruby": Interpreter(flags=_words("-e -r -I"), operand=True, reads_stdin=True),
    "php": Interpreter(flags=_words("-r -B -R -E -f --run -d"), operand=True, reads_stdin=True),
    "lua": Interpreter(flags=_words("-e -l"), operand=True, reads_stdin=True),
    "tclsh": Interpreter(operand=True, reads_stdin=True),
    "expect": Interpreter(flags=_words("-c -f"), operand=True, reads_stdin=True),
    "Rscript": Interpreter(flags=_words("-e"), operand=True),
    "julia": Interpreter(flags=_words("-e -E --eval --print -L"), operand=True, reads_stdin=True),
    "osascript": Interpreter(flags=_words("-e"), operand=True, reads_stdin=True),
    "sqlite3": Interpreter(flags=_words("-cmd -init"), rest=True, reads_stdin=True, names_data=True),
    "gdb": Interpreter(flags=_words("-ex -x -ix -iex --eval-command --command")),
    "ssh": Interpreter(flags=_words("-o -F -S"), values=_SSH_VALUES, rest=True),
    "eval": Interpreter(operand=True, rest=True),
    "source": Interpreter(operand=True),
    "env": Interpreter(flags=_words("-S --split-string")),
    "su": Interpreter(flags=_words("-c --command")),
    "script": Interpreter(flags=_words("-c --command")),
    "watch": Interpreter(operand=True, rest=True),
    "git": Interpreter(flags=_words("-c --config-env --exec-path --upload-pack --receive-pack -u")),
    "tar": Interpreter(flags=_words("--to-command --checkpoint-action -I --use-compress-program --rsh-command -F")),
    "rsync": Interpreter(flags=_words("-e --rsh --rsync-path")),
    "make": Interpreter(flags=_words("-f --file --makefile --eval")),
    "m4": Interpreter(operand=True, reads_stdin=True),
}

_NO_VALUES: frozenset[str] = frozenset()

WRAPPERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ["nohup", "time", "setsid", "command", "exec", "builtin", "busybox", "npx", "uvx", "bundle", "watch"],
        _NO_VALUES,
    ),
    "xargs": _words("-n -I -P -L -d -a -s -E --max-args --max-procs --replace --delimiter --arg-file"),
    "env": _words("-u --unset -C --chdir"),
    "nice": _words("-n --adjustment"),
    "ionice": _words("-c -n -p --class --classdata"),
    **dict.fromkeys(("timeout", "gtimeout"), _words("-s --signal -k --kill-after")),
    "stdbuf": _words("-i -o -e"),
    **dict.fromkeys(("sudo", "doas"), _words("-u -g -h -p -C -r -t -U -T -D -R --user --group --chdir")),
    "parallel": _words("-j -n -N --jobs -I --colsep -a"),
    **dict.fromkeys(("chroot", "flock", "taskset", "chrt", "numactl", "unshare", "nsenter"), _NO_VALUES),
    **dict.fromkeys(("strace", "ltrace"), _words("-e -o -p -s -u")),
    "systemd-run": _words("-p --property -u --unit"),
}
"""Programs that run another program from their arguments, and their options with a value."""

_TAKES_A_PLACE_FIRST = frozenset({"chroot", "flock", "taskset", "chrt"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl", "oc", "lxc"})
_CONTAINER_VALUES = _words(
    "-e --env -u --user -w --workdir -v --volume -p --publish --name --network -c --container -n"
)

SUSPECTS = frozenset({*INTERPRETERS, *WRAPPERS, *_CONTAINERS, "find"})
"""Every name that needs a closer look where it stands in a command."""

_STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
MAKES_ARGUMENTS = frozenset({"xargs", "parallel"})
_RUNS_A_COMMAND = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_VERSION = re.compile(r"[-\d.]+$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NUMBER = re.compile(r"\d+[smhd]?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """A parameter whose value would run as code, and why."""

    parameter: str
    reason: str


def code_places(command: Command) -> Iterator[CodePlace]:
    """Every placeholder of a command that would choose the program, or be run by it."""
    program = command[0]
    for name in program.slots:
        yield CodePlace(parameter=name, reason="it would choose the program")
    if program.literal is None:
        return
    called, words = _basename(program.literal), command[1:]
    yield from _code_of(called, words)
    if called == "find":
        yield from _found(words)
    elif called in WRAPPERS:
        yield from _wrapped(called, words, WRAPPERS[called], skip=1 if called in _TAKES_A_PLACE_FIRST else 0)
    elif called in _CONTAINERS:
        yield from _contained(called, words)
    for at, word in enumerate(words):
        inner = _basename(word.literal) if word.literal else ""
        if inner != called and inner in INTERPRETERS:
            yield from _flag_values(inner, words[at + 1 :])


def runs_stdin(command: Command) -> str | None:
    """The program's name, where it would run what it reads from stdin, or make arguments of it."""
    words = command
    while words:
        called = _basename(words[0].literal or "")
        if called in MAKES_ARGUMENTS:
            return called
        interpreter = INTERPRETERS.get(called)
        if interpreter is not None and (interpreter.reads_stdin or called not in WRAPPERS):
            return called if _takes_code_from_stdin(interpreter, [word.literal or "" for word in words[1:]]) else None
        if called not in WRAPPERS:
            return None
        words = words[1:]
        while words and ((words[0].literal or "").startswith("-") or _is_setting(words[0].literal or "")):
            words = words[1:]
    return None


def _takes_code_from_stdin(interpreter: Interpreter, literals: list[str]) -> bool:
    """Whether a program with these arguments runs its stdin; what a placeholder fills is an empty text here."""
    for literal, following in itertools.pairwise([*literals, ""]):
        option, _, value = literal.partition("=")
        if (_is_flag(option, interpreter.flags) and (value or following) in _STDIN_NAMES) or (
            interpreter.stdin_flag and _is_flag(literal, frozenset({interpreter.stdin_flag}))
        ):
            return True
    if not interpreter.reads_stdin or any(_is_flag(literal, interpreter.flags) for literal in literals):
        return False
    operands = [literal for literal in literals if not literal.startswith("-") or literal in _STDIN_NAMES]
    return interpreter.names_data or not operands or operands[0] in _STDIN_NAMES


def _code_of(called: str, words: Command) -> Iterator[CodePlace]:
    interpreter = INTERPRETERS.get(called)
    if interpreter is None:
        return
    yield from _flag_values(called, words)
    given_by_flag = any(_is_flag(word.literal or "", interpreter.flags) for word in words)
    seen_operand = given_by_flag and not interpreter.rest
    value_follows = False
    for word in words:
        literal = word.literal
        if value_follows:
            value_follows = False
            continue
        if literal is not None and literal.startswith(("-", "+")) and literal != "-":
            value_follows = literal in interpreter.values
            continue
        if not seen_operand:
            seen_operand = True
            if interpreter.operand:
                yield from _all(word, f"{called} would run it")
        elif interpreter.rest:
            yield from _all(word, f"{called} would run it")


def _flag_values(called: str, words: Command) -> Iterator[CodePlace]:
    """Values of options that take code: in the next word, after `=`, or joined to a short option."""
    flags = INTERPRETERS[called].flags
    for at, word in enumerate(words):
        start = word.pieces[0] if word.pieces and isinstance(word.pieces[0], str) else ""
        if word.literal is None:
            option = start.split("=", 1)[0]
            if option in flags or any(len(flag) == 2 and start.startswith(flag) for flag in flags):
                yield from _all(word, f"{called} {option} would run it")
        elif _is_flag(word.literal, flags) and at + 1 < len(words):
            yield from _all(words[at + 1], f"{called} {word.literal} would run it")


def _found(words: Command) -> Iterator[CodePlace]:
    running = False
    for word in words:
        if word.literal in _RUNS_A_COMMAND:
            running = True
        elif word.literal in (";", "+"):
            running = False
        elif running:
            yield from _all(word, "find -exec would run it")


def _wrapped(called: str, words: Command, values: frozenset[str], skip: int = 0) -> Iterator[CodePlace]:
    """A wrapper's own words up to the program it runs, then that program's."""
    value_follows = False
    for at, word in enumerate(words):
        literal = word.literal
        if value_follows:
            value_follows = False
        elif literal is not None and (literal.startswith("-") or _is_setting(literal)):
            value_follows = literal in values
        elif skip:
            skip -= 1
        elif literal is None and isinstance(word.pieces[0], str) and _ASSIGNMENT.match(word.pieces[0]):
            continue
        else:
            yield from (
                CodePlace(parameter=place.parameter, reason=f"{called}: {place.reason}")
                for place in code_places(words[at:])
            )
            return


def _contained(called: str, words: Command) -> Iterator[CodePlace]:
    """`docker exec PLACE program …`: the program comes after the place, or after `--`."""
    for at, word in enumerate(words):
        if word.literal == "--":
            yield from _wrapped(called, words[at + 1 :], _NO_VALUES)
            return
        if word.literal in ("exec", "run") and "--" not in [later.literal for later in words[at:]]:
            yield from _wrapped(called, words[at + 1 :], _CONTAINER_VALUES, skip=1)
            return


def _all(word: Word, reason: str) -> Iterator[CodePlace]:
    for name in word.slots:
        yield CodePlace(parameter=name, reason=reason)


def _is_flag(literal: str, flags: frozenset[str]) -> bool:
    """Whether a word is one of the options, also at the end of a cluster such as `-lc`."""
    if literal in flags:
        return True
    cluster = literal.startswith("-") and not literal.startswith("--") and len(literal) > 2
    return cluster and f"-{literal[-1]}" in flags


def _is_setting(literal: str) -> bool:
    return bool(_ASSIGNMENT.match(literal) or _NUMBER.match(literal))


def _basename(literal: str) -> str:
    name = literal.rsplit("/", 1)[-1]
    return name if name in INTERPRETERS or name in WRAPPERS else _VERSION.sub("", name)
