"""From a command template to argument vectors: checked when loaded, filled on every call."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec

from toolstead.errors import ToolError
from toolstead.tools.handlers.code_places import Reading
from toolstead.tools.handlers.shell_syntax import Command, Script, Word, parse
from toolstead.tools.handlers.template import (
    Placeholder,
    TemplateError,
    checked_text,
    fill_piece,
    show_slot,
    unknown_name,
    value_text,
)

Argv = list[str]
METACHARACTERS = re.compile(r"[;|&$`<>(){}\\\n*?\[\]#~!'\"]")
MOST_WORDS = 4_096
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a template may refer to: the tool's properties, and what is known about each."""

    names: Collection[str]
    required: Collection[str] = ()
    with_default: Collection[str] = ()
    allow_leading_dash: Collection[str] = ()
    allow_script: Collection[str] = ()


class Template(msgspec.Struct, frozen=True):
    """A command template that passed every check.

    Of thousands few are called, so each is kept as text and parsed when it is called: keeping the scripts made a
    folder of 10,000 tools load a fifth slower, and parsing takes a hundredth of the start of a process.
    """

    text: str
    parameters: Parameters
    pinned: Script | None = None

    @property
    def script(self) -> Script:
        """The commands, and how they follow each other; those of the approved copy, where there is one."""
        return self.pinned or parse(self.text)

    @property
    def slots(self) -> dict[str, None]:
        """The names of all placeholders, in order."""
        commands = (command for step in self.script for command in step.pipeline)
        return dict.fromkeys(name for command in commands for word in command for name in word.slots)


def load_template(text: str, parameters: Parameters, *, stdin_slots: Collection[str] = ()) -> Template:
    """Parse a template and check where its placeholders stand.

    Raises:
        TemplateError: Something in it could not work, or would run a value as code.
    """
    script = parse(text)
    for step in script:
        upstream = [*stdin_slots] if step is script[0] else []
        for at, command in enumerate(step.pipeline):
            if upstream:
                _check_upstream(command, upstream, parameters, () if at else ("stdin",))
            _check_command(command, parameters)
            if len(step.pipeline) > 1:
                upstream += {name for word in command for name in word.slots}.difference(upstream)
    return Template(text, parameters)


def build_argv(command: Command, arguments: Mapping[str, Any], parameters: Parameters) -> Argv:
    """One command's words with every placeholder filled.

    Raises:
        ToolError: A value is missing, too long, or would become an option.
    """
    argv: Argv = []
    reading = Reading(command)
    last, marks = reading.find_last(), reading.find_marks()
    can_be_option = True
    for at, word in enumerate(command):
        if word.literal is not None:
            argv.append(word.literal)
            can_be_option = can_be_option and not (word.literal == "--" and last is not None and at > last)
            continue
        filled_words = _fill_word(word, arguments)
        is_accepted = parameters.allow_script and all(name in parameters.allow_script for name in word.slots)
        if len(filled_words) != 1 and at <= reading.decided and not is_accepted:
            raise ToolError(
                f"{word.only_slot!r} must be one value here, not {len(filled_words)}: with more or fewer, another word "
                f"would decide what {argv[0] if argv else 'the program'!r} runs"
            )
        for filled, leader in filled_words:
            if can_be_option and filled.startswith("-") and leader and leader not in parameters.allow_leading_dash:
                raise ToolError(
                    f"{leader!r} makes an argument that begins with a dash ({filled[:40]!r}), which "
                    f"{argv[0] if argv else 'the program'!r} would read as an option; give a value that does not "
                    "(for a path, begin it with ./)"
                )
            if (mark := _find_mark(word, filled, marks)) and not is_accepted:
                raise ToolError(
                    f"{word.slots[0]!r} makes an argument with {mark!r} ({filled[:40]!r}), which {argv[0]!r} would not "
                    "read as plain text; give a value without it (for a path, begin it with ./)"
                )
            argv.append(filled)
            if len(argv) > MOST_WORDS:
                raise _too_many_words()
    return argv


def suspicious_parameters(arguments: Mapping[str, Any]) -> list[str]:
    """Parameters whose values hold characters a shell would act on; harmless here, and worth a log line."""
    return [name for name, value in arguments.items() if METACHARACTERS.search(_plain_text(value))]


def _plain_text(value: Any) -> str:
    """A value's text, or an array's without the signs that make it JSON."""
    return " ".join(map(_plain_text, cast("list[Any]", value))) if isinstance(value, list) else value_text(value)


def _fill_word(word: Word, arguments: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """The arguments a word becomes, each with the parameter that decides its first character, where one does."""
    alone = word.only_slot
    if alone is not None and alone in arguments:
        value = arguments[alone]
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        if len(values) > MOST_WORDS:
            raise _too_many_words()
        return [(checked_text(alone, item), alone) for item in values]
    if alone is not None and not word.quoted:
        return []
    text, leader = "", None
    for piece in word.pieces:
        if isinstance(piece, Placeholder) and not text:  # an empty value lets through a dash that follows it
            leader = piece.name
        text += fill_piece(piece, arguments)
    return [(text, leader)]


def _too_many_words() -> ToolError:
    return ToolError(f"more than {MOST_WORDS:,} arguments; give fewer values")


def _find_mark(word: Word, filled: str, marks: Collection[str]) -> str | None:
    """What a program gives a meaning: where a value begins, `|` also where it ends, several characters anywhere."""
    start = word.start
    begins = not start or start.endswith("=") or (start.startswith("-") and len(start) == 2)
    value = filled[len(start) :].strip()
    for mark in marks:
        at_start = begins and value.startswith(mark)
        if at_start or (mark == "|" and value.endswith(mark)) or (len(mark) > 1 and mark in filled):
            return mark
    return None


def _check_command(command: Command, parameters: Parameters) -> None:
    program = command[0].literal
    if program and "=" in program and _ASSIGNMENT.match(program) and not command[0].quoted:
        raise TemplateError(f'{program!r} before a program is not supported: set variables with "env"')
    if program in ("", "!"):
        raise TemplateError(f"{program!r} is no program")
    if None not in [word.literal for word in command]:
        return
    for word, reason in Reading(command).places:
        for name in word.slots:
            _check_known(name, parameters)
            if name not in parameters.allow_script:
                raise TemplateError(
                    f"{{{{{name}}}}} stands where its value would run as code: {reason}; pass the value "
                    f'as an argument or "stdin" instead, or accept the risk with "allowScript": ["{name}"]'
                )
    for at, word in enumerate(command):
        if word.literal is not None:
            continue
        for name in word.slots:
            _check_known(name, parameters)
        alone = word.only_slot
        if alone is None or word.quoted or alone in parameters.required or alone in parameters.with_default:
            continue
        before = (command[at - 1].literal or "") if at else ""
        if before.startswith("-") and before != "--":
            raise TemplateError(
                f"{{{{{alone}}}}} is optional and follows {before!r}: left out, it would shift the "
                f'options; give {alone!r} a "default", or name it in "required"'
            )


def _check_upstream(command: Command, upstream: Collection[str], parameters: Parameters, key: tuple[str, ...]) -> None:
    """Refuse placeholders in what a program reads and would run, from the call's stdin (the key) or through a pipe."""
    use = Reading(command).find_reader()
    where = 'in "stdin" would run' if key else "stands where its value would run"
    what = "it reads" if key else "comes through the pipe"
    for name in upstream:
        if key:
            _check_known(name, parameters, key)
        if use is not None and name not in parameters.allow_script:
            raise TemplateError(
                f'{{{{{name}}}}} {where} as code: {use} what {what}; accept the risk with "allowScript": ["{name}"]',
                key=key,
            )


def _check_known(name: str, parameters: Parameters, key: tuple[str, ...] = ()) -> None:
    if name not in parameters.names:
        raise TemplateError(unknown_name(name, parameters.names, show_slot), key=key)
