"""The standard streams of the command: those that its caller closed, and those that cannot be written.

A closed one is the null device: nothing else gets its number, and nothing has to ask whether it is there. What cannot
be written to stdout ends the command with a sentence; stderr is lost quietly, because there is no place left to say so.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NAMES = ("stdin", "stdout", "stderr")


class OutputError(OSError):
    """Stdout cannot be written; the text says why."""


class OutputFile(io.FileIO):
    """A descriptor that is written. After the first failure it takes everything and writes nothing more."""

    def __init__(self, descriptor: int, *, is_quiet: bool = False, closefd: bool = True) -> None:
        """Wrap a descriptor.

        Args:
            descriptor: What is written.
            is_quiet: Whether a failure is not raised.
            closefd: Whether the descriptor is closed with it.
        """
        super().__init__(descriptor, "w", closefd=closefd)
        self._is_quiet, self._has_failed = is_quiet, False

    def write(self, data: Buffer, /) -> int:
        """Write bytes.

        Raises:
            BrokenPipeError: Its reader has left.
            OutputError: They cannot be written for another reason.
        """
        size = memoryview(data).nbytes
        if self._has_failed:
            return size
        try:
            return super().write(data)
        except OSError as error:
            self._has_failed = True
            if self._is_quiet:
                return size
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"stdout cannot be written: {os.strerror(error.errno or 0).lower()}") from None


def wrap_output(descriptor: int, like: TextIO, *, is_quiet: bool = False, closefd: bool = True) -> TextIO:
    """A text stream on a descriptor, with the encoding of another stream."""
    file = OutputFile(descriptor, is_quiet=is_quiet, closefd=closefd)
    return io.TextIOWrapper(
        io.BufferedWriter(file), encoding=like.encoding, errors=like.errors, line_buffering=bool(like.line_buffering)
    )


def prepare_streams() -> None:
    """Open what is closed, and let stdout and stderr fail as this module says. Once, as the process begins."""
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            stream = _open_null(number, "r" if number == 0 else "w")
        elif number > 0:
            before = cast("TextIO", getattr(sys, name))
            stream = wrap_output(number, before, is_quiet=name == "stderr", closefd=False)
        else:
            continue
        setattr(sys, name, stream)  # not `sys.__stdin__`, by which a server knows what was closed


def flush_output() -> str:
    """Write what stdout still holds; return why that failed, or nothing."""
    try:
        with suppress(BrokenPipeError, ValueError):  # its reader has left, or it is closed
            sys.stdout.flush()
    except OutputError as error:
        return str(error)
    return ""


def _open_null(number: int, mode: str) -> TextIO:
    descriptor = os.open(os.devnull, os.O_RDWR)
    with suppress(OSError):
        if descriptor != number and not _is_open(number):
            os.dup2(descriptor, number)
            os.close(descriptor)
            descriptor = number
    return cast("TextIO", os.fdopen(descriptor, mode, encoding="utf-8", errors="replace", closefd=False))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
