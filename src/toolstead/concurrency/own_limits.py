"""Limits that a process sets for itself before it works on what others sent: priority, processor time, memory.

`processes/isolated.py` starts such processes. A limit that is reached ends the process, whatever it is doing: the
system's timer needs no help of the interpreter, which a parser in C does not let run.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def lower_priority(by: int = 15) -> None:
    """Let those who call other tools meanwhile come first."""
    os.nice(by)
    # Linux may share the processor among sessions first, and this process leads its own: there it took half of one.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(by))


def limit_time(seconds: float) -> None:
    """End this process after so much processor time from now on; 0 ends the limit."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def limit_memory(size: int) -> None:
    """Refuse this process more than so many bytes of memory."""
    import resource  # not at every start

    with suppress(ValueError, OSError):  # a system that has no such limit, or a lower one
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
