"""The coding agents that can be driven: what each needs, and where its program is. Looking starts nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProgram:
    """A coding agent that can be driven.

    Attributes:
        name: Its runtime's name, its section of the settings, and its extra.
        title: Its name in messages.
        package: What must be importable.
        vendor: Whose models it asks.
        key: The environment's name of that vendor's key.
        brought_by: The distribution that has the program itself.
        inside: The program's place: the package that it lies in, and the path there.
        log_in: What is typed after the program to make a login.
        found_on_path: Whether one on PATH is taken where that file is missing.
    """

    name: str
    title: str
    package: str
    vendor: str
    key: str
    brought_by: str
    inside: tuple[str, str]
    log_in: str
    found_on_path: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return _is_there(self.package)

    def find_own(self, path: str | None) -> str | None:
        """The program of this user's own, which has their login; None where there is none.

        Args:
            path: The `PATH` to look on.
        """
        return which(self.name, path=path)

    @property
    def file(self) -> Path | None:
        """Where the program is that comes with the extra, or would be; None when its package is not there."""
        package, path = self.inside
        found = find_spec(package)
        return Path(found.origin).parent / path if found is not None and found.origin is not None else None

    def find_fault(self) -> str:
        """Why the program that comes with the extra cannot be started, as far as its file shows; else empty."""
        file, shown = self.file, "/".join(self.inside)
        if file is None:
            return f"{self.brought_by} is not installed"
        if not file.is_file():
            return "" if self.found_on_path and which(self.name) else f"{shown} is missing"
        return "" if os.access(file, os.X_OK) else f"{shown} may not be executed"


PROGRAMS = (
    RuntimeProgram(
        name="claude",
        title="Claude Code",
        package="claude_agent_sdk",
        vendor="anthropic",
        key="ANTHROPIC_API_KEY",
        brought_by="claude-agent-sdk",
        inside=("claude_agent_sdk", "_bundled/claude"),
        log_in="auth login",
        found_on_path=True,
    ),
    RuntimeProgram(
        name="codex",
        title="Codex",
        package="openai_codex",
        vendor="openai",
        key="OPENAI_API_KEY",
        brought_by="openai-codex-cli-bin",
        inside=("codex_cli_bin", "bin/codex"),
        log_in="login",
    ),
)


@cache
def _is_there(package: str) -> bool:
    return find_spec(package) is not None
