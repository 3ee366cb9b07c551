"""What a handler from a file is given: where it works, the environment, and what the user allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolstead.tools.handlers.pinned import Pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where handlers run.

    Attributes:
        root: The project's root: relative folders are relative to it, and commands run in it.
        environ: The user's environment, for `${NAME}` secrets and the allow-list of commands.
        max_output: Bytes that are kept of an answer, unless the tool sets another limit.
        allowed_hosts: Hosts (or host:port) that every http tool may reach, private ones included.
        proxy: The proxy of http tools; empty for none. The environment's proxies are ignored.
        pinned: For a project's own tools: its folder, and the approved copy that stands in for it.
        private: The folder of what we keep ourselves; no tool that reads files reads it.
        wide_root: Why nothing is read from the project's root itself; empty where it is read.
    """

    root: Path
    environ: Mapping[str, str] = field(repr=False)
    max_output: int = 262_144
    allowed_hosts: Sequence[str] = ()
    proxy: str = ""
    pinned: Pinned | None = None
    private: Path | None = None
    wide_root: str = ""

    def find_folder(self, given: str) -> Path:
        """The folder that a tool file names; `~` is the user's home, and nothing the project's root."""
        if given == "~" or given.startswith("~/"):
            given = self.environ.get("HOME", "~") + given[1:]
        return self.root / given

    def find_pinned(self, given: str) -> Path:
        """The same, in the approved copy where it lies in the project's own folder."""
        folder = self.find_folder(given)
        return folder if self.pinned is None else self.pinned.pin_path(folder)
