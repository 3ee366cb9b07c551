"""A program that does not want to end, nor do its children.

Usage: stubborn.py FOLDER [WAY …]. It writes a file into the folder for itself and for each way,
named after it, with its process number, and then waits for ever; SIGTERM, SIGHUP and SIGINT are
ignored. The ways: `child` (forks twice), `session` (forks, leaves the session, forks again),
`naked` (a child in a session of its own, without any environment), `silent` (a child that closes
its standard descriptors).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])


def settle(name: str) -> None:
    """Tell that it runs, and never end."""
    aside = FOLDER / f".{name}"
    aside.write_text(str(os.getpid()), encoding="ascii")
    aside.rename(FOLDER / name)
    while True:
        signal.pause()


def begin(way: str) -> None:
    """The way of one child; none of them comes back."""
    match way:
        case "child":
            if os.fork() == 0:
                settle(way)
        case "session":
            os.setsid()
            if os.fork() == 0:
                settle(way)
        case "naked":
            os.setsid()
            os.execve(sys.executable, [sys.executable, "-S", "-E", __file__, str(FOLDER), "as:naked"], {})
        case "silent":
            for descriptor in range(3):
                os.close(descriptor)
            settle(way)
        case _:
            raise SystemExit(f"no such way: {way}")
    os._exit(0)


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
ways = sys.argv[2:]
if ways and ways[0].startswith("as:"):
    settle(ways[0].removeprefix("as:"))
for wanted in ways:
    if os.fork() == 0:
        begin(wanted)
settle("itself")
