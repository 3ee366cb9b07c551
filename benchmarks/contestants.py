"""The commands that start each contestant, so that a row names programs and not paths."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import environments, processes
from benchmarks.harness import Bench, Contestant, Measured, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A contestant before anybody knows what will be measured of it.

    Attributes:
        module: A module of ours, or "" for the shipped command.
        environment: The peer's environment; None is the one Toolyard is installed in.
    """

    name: str
    role: Role
    module: str = ""
    options: tuple[str, ...] = ()
    environment: str | None = None
    note: str = ""
    complete: bool = True

    def command(self, *arguments: str) -> list[str]:
        """The command line; installs the peer's environment when it is missing."""
        if not self.module:
            return [*shipped(), *arguments]
        python = sys.executable if self.environment is None else environments.python_of(self.environment)
        return [python, "-m", self.module, *arguments, *self.options]

    def environ(self, bench: Bench) -> dict[str, str]:
        """What it finds in its environment variables; the shipped command gets no path of ours."""
        found = processes.environment(bench.home)
        if not self.module:
            del found["PYTHONPATH"]
        return found

    def contestant(self, measure: Callable[[Program], Measured]) -> Contestant:
        """Itself, to be measured this way."""
        return Contestant(
            name=self.name,
            role=self.role,
            measure=lambda: measure(self),
            note=self.note,
            complete=self.complete,
        )


def shipped() -> list[str]:
    """The `toolyard` command beside this Python; without one, the module."""
    script = Path(sys.executable).with_name("toolyard")
    return [str(script)] if script.exists() else [sys.executable, "-m", "toolyard"]


def entered(bench: Bench, programs: Sequence[Program]) -> list[Program]:
    """Those that take part: all, or only floor and ours."""
    return [program for program in programs if bench.peers or program.role != "peer"]
