"""A small process that kills child processes when our own process was killed.

It notices our end by a pipe, and then kills whatever carries the mark. For that it needs `/proc`: elsewhere a
program that does not end with its input outlives a process that was killed.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from toolstead.processes import mark as mark_module
from toolstead.processes.owner import ProcessOwner

logger = logging.getLogger(__name__)

_ENVIRONS = "/proc/self/environ"
_PROGRAM = """
import runpy, sys
kill_marked = runpy.run_path(sys.argv[1])["kill_marked"]
sys.stdin.buffer.read()
kill_marked(sys.argv[2], ())
"""
"""Only the standard library is needed for it, so it starts at once and stays small."""


def start_watchdog(mark: str) -> ProcessOwner:
    """Watch over everything with one mark, until the answer is killed.

    A watchdog that cannot be started is logged, and the child process starts without it.
    """
    # Our own environment, where an interpreter may have to find its libraries; it must not carry the mark itself.
    owner = ProcessOwner(cwd=Path("/"), env=None)
    if not os.access(_ENVIRONS, os.R_OK):
        logger.info("child processes go on running if this process is killed: there is no /proc here")
        return owner
    command = (sys.executable, "-I", "-S", "-c", _PROGRAM, mark_module.__file__, mark)
    try:
        with ExitStack() as theirs:
            _, stdin = owner.open_input(theirs)
            child = owner.spawn(
                command,
                stdin=stdin,
                on_exit=lambda: logger.warning("the watchdog over a program ended with status %s", child.returncode),
            )
    except OSError as error:
        logger.warning("child processes go on running if this process is killed: %s", error)
        owner.close()
    return owner
