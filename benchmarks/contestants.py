"""The commands that start each contestant, so that a row names programs and not paths."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import environments, processes, workload
from benchmarks.harness import Bench, Contestant, Measured, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A contestant before anybody knows what will be measured of it.

    Attributes:
        module: A module of ours, or "" for the shipped command.
        environment: The peer's environment; None is the one Toolstead is installed in.
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
    """The `toolstead` command beside this Python; without one, the module."""
    script = Path(sys.executable).with_name("toolstead")
    return [str(script)] if script.exists() else [sys.executable, "-m", "toolstead"]


def with_plugin(bench: Bench, tools: int | None = None) -> Bench:
    """The same with another home, where a plugin brings `repeat`, or so many tools like it, to the shipped command."""
    home = bench.home.with_name(f"home-of-{tools or 1}")
    folder = home / "config" / "toolstead" / "plugins"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{workload.PLUGIN}.py").write_text(_plugin(tools))
    return replace(bench, home=home)


def with_repository(bench: Bench) -> Bench:
    """The same with another project, a git repository whose files are older than a moment."""
    project = bench.project.with_name("repository")
    if not project.exists():
        project.mkdir()
        for command in (
            ("init", "-q", "-b", workload.WORKSPACE_BRANCH),
            ("remote", "add", "origin", workload.WORKSPACE_ANSWER),
        ):
            subprocess.run(
                ["git", *command], cwd=project, env=processes.environment(bench.home), check=True, timeout=60
            )
    return replace(bench, project=project)


def _plugin(tools: int | None) -> str:
    """A plugin's file: the very functions that everybody else serves."""
    if tools is None:
        functions, listed = (workload.repeat,), f"[tool({workload.repeat.__name__})]"
    else:
        functions = (workload.many_name, workload.numbered, workload.many)
        listed = f"[tool(function) for function in {workload.many.__name__}({tools})]"
    return "\n\n".join(
        (
            "from __future__ import annotations\n\nfrom toolstead import Plugin, tool\n",
            *(inspect.getsource(function) for function in functions),
            f'plugin = Plugin(name="{workload.PLUGIN}", version="1.0.0", tools={listed})\n',
        )
    )


def entered(bench: Bench, programs: Sequence[Program]) -> list[Program]:
    """Those that take part: all, or only floor and ours."""
    return [program for program in programs if bench.peers or program.role != "peer"]
