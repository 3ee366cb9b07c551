"""What a command prints on stdout is its own: what plugins, tools and their child processes print goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from toolstead.console.cli.standard_streams import wrap_output

_OUTPUT = "toolstead.output"


def find_output() -> TextIO:
    """The stdout of the command, wherever `sys.stdout` leads."""
    context = click.get_current_context(silent=True)
    return sys.stdout if context is None else context.meta.get(_OUTPUT, sys.stdout)


@contextmanager
def claim_output() -> Generator[None]:
    """Give stdout to `click.echo` alone; `print`, and descriptor 1 with programs that inherit it, lead to stderr."""
    context = click.get_current_context(silent=True)
    if context is None or _OUTPUT in context.meta:
        yield
        return
    before, echo = sys.stdout, click.echo
    before.flush()
    with _move_descriptor(before) as output:

        def echo_own(message: Any = None, file: Any = None, nl: bool = True, err: bool = False, **more: Any) -> None:
            echo(message, file=output if file is None and not err else file, nl=nl, err=err, **more)

        context.meta[_OUTPUT] = output
        sys.stdout, click.echo = sys.stderr, echo_own
        try:
            yield
        finally:
            sys.stdout, click.echo = before, echo
            del context.meta[_OUTPUT]
            with suppress(ValueError):  # closed meanwhile
                before.flush()  # what code printed that kept the stream from before


@contextmanager
def _move_descriptor(stream: TextIO) -> Generator[TextIO]:
    """The stream on another descriptor while 1 is stderr; a stream that is not on 1 stays as it is."""
    try:
        is_moved = stream.fileno() == 1
        own = os.dup(1) if is_moved else -1
    except OSError:  # no descriptor, as where a test reads the output
        is_moved, own = False, -1
    if not is_moved:
        yield stream
        return
    moved = wrap_output(own, stream)
    try:
        try:
            os.dup2(2, 1)
        except OSError:  # stderr is closed
            with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - a descriptor is needed
                os.dup2(nothing.fileno(), 1)
        yield moved
    finally:
        os.dup2(own, 1)
        moved.close()
