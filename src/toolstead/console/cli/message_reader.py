"""Reads the messages that a person types at a terminal, or that are piped in, while the event loop goes on.

A thread of its own waits for each line; nothing waits for that thread at the end. On a terminal, readline edits the
line where Python has it, and brings lines that are pasted in as one message. Elsewhere a line is read as it comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import click

from toolstead.app.private_file import lock_file, write_private
from toolstead.app.terminal import can_redraw
from toolstead.concurrency.termination import take_signals

PROMPT, MORE = "> ", ". "
_INTERRUPTED = "\x03"
"""Ends a line at which Ctrl-C was typed, where readline reads it."""
_LEFT = "\x03\x03"
"""Stands for a line where Ctrl-C came as a signal, and ends the conversation."""
_MOST_KEPT = 1_000
_MOST_READ = 65_536
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Whether the terminal marks what is pasted. It does so during an answer too, when readline does not read: what is
pasted then waits in the terminal, and readline finds it whole."""
_HINT = "Ctrl-C again or Ctrl-D leaves; /help says more"


class MessageReader:
    """Reads one message after another; close it at the end.

    Attributes:
        is_terminal: Whether a person types.
    """

    def __init__(self, history: Path, *, commands: Sequence[str]) -> None:
        """Read nothing yet.

        Args:
            history: The file that keeps what was typed at terminals.
            commands: The words that the tab key completes at the beginning of a line.
        """
        self.is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        self._history = history
        self._fd = sys.stdin.fileno()
        self._held = b""
        self._reading: asyncio.Future[str | None] | None = None
        self._interrupts = 0
        self._settings = termios.tcgetattr(self._fd) if self.is_terminal else None
        self._readline = _load_readline() if self.is_terminal and sys.stdout.isatty() and can_redraw() else None
        if self._readline is not None:
            self._set_up(self._readline, commands)

    async def read_message(self) -> str:
        """The next message; a line that ends with a backslash goes on with the next one.

        Raises:
            EOFError: There is no other.
            KeyboardInterrupt: Ctrl-C was typed twice, and nothing between.
        """
        lines: list[str] = []
        while True:
            line = await self._read_line(MORE if lines else PROMPT)
            if line is None and not lines:
                raise EOFError
            if line == _LEFT:
                raise KeyboardInterrupt
            if line is not None and line.endswith(_INTERRUPTED):
                if lines or line != _INTERRUPTED:
                    self._interrupts = 0
                    lines.clear()
                else:
                    self._note_interrupt()
                continue
            self._interrupts = 0
            if line is not None and line.endswith("\\"):
                lines.append(line[:-1])
                continue
            message = "\n".join([*lines, *([] if line is None else [line])])
            self._keep(message)
            return message

    def close(self) -> None:
        """Leave the terminal as it was found."""
        if self._settings is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._settings)
        if self._readline is not None:
            click.echo(_PASTE_OFF, nl=False)

    async def _read_line(self, prompt: str) -> str | None:
        """One line without its end; None at the end of everything."""
        with take_signals(lambda: self._take_interrupt(prompt), (signal.SIGINT,)):
            if self._reading is None:
                self._reading = self._begin_reading(prompt)
            line = await asyncio.shield(self._reading)
        self._reading = None
        return line

    def _begin_reading(self, prompt: str) -> asyncio.Future[str | None]:
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[str | None] = loop.create_future()
        read: Callable[[], str | None] = self._read_plain
        if self._readline is not None:
            read = lambda: self._read_edited(prompt)  # noqa: E731 - one of two
        elif self.is_terminal:
            click.echo(prompt, nl=False, err=True)

        def end_reading(line: str | None) -> None:
            if not reading.done():
                reading.set_result(line)

        def work() -> None:
            line = read()
            with suppress(RuntimeError):  # the loop is closed, and its callers with it
                loop.call_soon_threadsafe(end_reading, line)

        threading.Thread(target=work, name="toolstead-typed-line", daemon=True).start()
        return reading

    def _take_interrupt(self, prompt: str) -> None:
        """Ctrl-C, where the terminal makes a signal of it; the line that was begun is gone then."""
        self._interrupts += 1
        if self._interrupts > 1 or not self.is_terminal:
            if self._reading is not None and not self._reading.done():
                self._reading.set_result(_LEFT)
            return
        click.echo(f"\n{_HINT}\n{prompt}", nl=False, err=True)

    def _note_interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        click.echo(_HINT, err=True)

    def _read_plain(self) -> str | None:
        # By the descriptor: a thread that waits in sys.stdin would hold its lock when the process ends.
        while b"\n" not in self._held:
            try:
                data = os.read(self._fd, _MOST_READ)
            except OSError:  # the terminal is gone
                data = b""
            if not data:
                rest, self._held = self._held, b""
                return rest.decode("utf-8", "replace") if rest else None
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return line.removesuffix(b"\r").decode("utf-8", "replace")

    def _read_edited(self, prompt: str) -> str | None:
        """A line that readline edits. Ctrl-C is a key meanwhile: a signal would not reach this thread."""
        settings = termios.tcgetattr(self._fd)
        characters = list(settings[6])
        characters[termios.VINTR] = bytes([os.fpathconf(self._fd, "PC_VDISABLE")])
        termios.tcsetattr(self._fd, termios.TCSADRAIN, [*settings[:6], characters])
        try:
            return input(prompt)
        except EOFError:
            return None
        except (OSError, ValueError):  # the terminal is gone
            return None
        finally:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, settings)
            with suppress(OSError, ValueError):
                click.echo(_PASTE_ON, nl=False)

    def _set_up(self, readline: ModuleType, commands: Sequence[str]) -> None:
        def complete(text: str, state: int) -> str | None:
            found = [one for one in commands if text and one.startswith(text)]
            return found[state] if state < len(found) and readline.get_begidx() == 0 else None

        readline.set_auto_history(False)
        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        for line in (
            "tab: complete",
            "set enable-bracketed-paste on",
            "set bell-style none",
            '"\\C-c": "\\C-e\\C-v\\C-c\\C-m"',  # what is typed, marked as interrupted
        ):
            readline.parse_and_bind(line)
        for message in self._load_history():
            readline.add_history(message)

    def _load_history(self) -> list[str]:
        """What was typed at terminals before, one JSON text in each line; what is none is left out."""
        try:
            lines = self._history.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return []
        if len(lines) > 2 * _MOST_KEPT:
            lines = lines[-_MOST_KEPT:]
            with suppress(OSError), lock_file(self._history):
                write_private(self._history, "".join(f"{line}\n" for line in lines).encode())
        found: list[str] = []
        for line in lines[-_MOST_KEPT:]:
            with suppress(ValueError):
                found.append(str(json.loads(line)))
        return found

    def _keep(self, message: str) -> None:
        """Keep a message for the arrow keys, here and in later conversations."""
        if self._readline is None or not message.strip():
            return
        self._readline.add_history(message)
        with suppress(OSError):  # it is a convenience; the message itself is stored with its conversation
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = os.open(self._history, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(kept, f"{json.dumps(message)}\n".encode())
            finally:
                os.close(kept)


def _load_readline() -> ModuleType | None:
    """GNU readline; None where Python has none, or another one under its name, whose keys are set differently."""
    try:
        import readline
    except ImportError:
        return None
    return None if "libedit" in (readline.__doc__ or "") else readline
