"""Remembers which repository a project lies in, as long as nothing that git read to find it has changed.

Finding it costs two runs of git, and its branch a third one: 4.3 ms, where a look at the files costs 0.3 ms.
What the system tells of those files is their *stamp*. An answer of git is remembered when the stamp was the
same before and after git ran and no file had changed within the last seconds, so that a later change
surely gives another stamp. Only the plain case is remembered: a `.git` folder in the project's own root
whose settings include no other file, or no repository in any folder above.

The file of git's system-wide settings may lie in a place that is not known here as long as it does not exist,
so nothing is remembered for long.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolstead.errors import ToolError
from toolstead.tools.confinement import open_inside

if TYPE_CHECKING:
    from toolstead.tools.builtin.git import Repository

_LONGEST = 10.0
"""Seconds for which an answer is remembered."""
_SETTLED = 2_000_000_000
"""Nanoseconds after a file's last change; a change later than that has another time on every file system."""
_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\n")
_BRANCH = re.compile(rb"ref: (refs/heads(?:/[\w+=#-]+(?:\.[\w+=#-]+)*)+)\n")
_MOST_READ = 4_096
_MOST_ORIGINS = 8


class _Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What the system tells of everything git looks at; None for what is not there.

    Attributes:
        root: The project's real folder.
        git_dir: Its `.git`.
        above: Where there is none: what could make a repository of it or of a folder above.
        places: Folders, of which only the identity counts.
        files: Files, of which every change counts.
    """

    root: str
    git_dir: tuple[int, ...] | None
    above: tuple[tuple[int, ...] | None, ...]
    places: tuple[tuple[int, ...] | None, ...]
    files: Mapping[str, tuple[int, ...] | None]

    def is_settled(self, now: int) -> bool:
        """Whether no file was changed shortly before this time."""
        return all(found is None or found[-1] < now - _SETTLED for found in self.files.values())

    def is_plain(self, repository: Repository | None) -> bool:
        """Whether git's answer depends on nothing else."""
        if repository is None:
            return self.git_dir is None and not any(self.above)
        git_dir = f"{self.root}/.git"
        return (
            self.git_dir is not None
            and str(repository.top) == self.root
            and str(repository.git_dir) == git_dir
            and self.files[f"{git_dir}/commondir"] is None
            and repository.origins <= self.files.keys()
            and not any(name.startswith(("include.", "includeif.")) for name, _ in repository.settings)
        )


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    program: str
    repository: Repository | None
    stamp: _Stamp
    until: float


class RepositoryMemory:
    """What the built-in git tools of a project know of its repository."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self._environ = environ
        self._standard = frozenset(_name_settings_files(environ))
        self._origins = self._standard
        self._memory: _Memory | None = None

    async def find_repository(self) -> Repository | None:
        """The repository the project lies in, or None when there is none.

        Raises:
            ToolError: As `Git.find_repository`.
        """
        # With it comes all that running a program needs, and only a call pays for it.
        from toolstead.tools.builtin.git import Git

        memory = self._memory
        if memory is not None and time.monotonic() < memory.until:
            is_valid, repository = await asyncio.to_thread(self._recall, memory)
            if is_valid:
                return repository
        git, began = Git.for_project(self._root, self._environ), time.time_ns()
        before = await asyncio.to_thread(self._take_stamp, git.program)
        repository = await git.find_repository()
        after = await asyncio.to_thread(self._take_stamp, git.program)
        self._memory = None
        if before == after and after.is_settled(began) and after.is_plain(repository):
            until = time.monotonic() + _LONGEST
            self._memory = _Memory(program=git.program, repository=repository, stamp=after, until=until)
        elif repository is not None and len(repository.origins) <= _MOST_ORIGINS:
            self._origins = self._standard | repository.origins  # the next stamp has them
        return repository

    def _recall(self, memory: _Memory) -> tuple[bool, Repository | None]:
        """Whether what is remembered still holds, and it, with HEAD as it is now."""
        if self._take_stamp(memory.program) != memory.stamp:
            return False, None
        if memory.repository is None:
            return True, None
        head = _read_head(memory.repository.git_dir)
        return head is not None, replace(memory.repository, head=head)

    def _take_stamp(self, program: str) -> _Stamp:
        root = os.path.realpath(self._root)
        git_dir = f"{root}/.git"
        found = _look_at(git_dir, os.lstat)
        folders = () if found else (root, *map(str, Path(root).parents))
        inner = (f"{git_dir}/{name}" for name in ("config", "config.worktree", "commondir"))
        return _Stamp(
            root=root,
            git_dir=found and found[:4],
            above=tuple(_look_at(f"{folder}/{name}", os.lstat) for folder in folders for name in (".git", "HEAD")),
            places=tuple(
                found and found[:4]
                for found in (_look_at(place, os.stat) for place in (root, f"{git_dir}/objects", f"{git_dir}/refs"))
            ),
            files={file: _look_at(file, os.stat) for file in (program, *self._origins, *inner)},
        )


def _look_at(path: str, look: Callable[[str], os.stat_result]) -> tuple[int, ...] | None:
    """What tells one state of a file from another, the time of its last change at the end; None for no file."""
    try:
        found = look(path)
    except OSError:
        return None
    identity = found.st_dev, found.st_ino, found.st_mode, found.st_uid
    return *identity, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _name_settings_files(environ: Mapping[str, str]) -> Iterable[str]:
    """Where git looks for settings that are not the repository's own."""
    yield "/etc/gitconfig"
    home = environ.get("HOME", "")
    yield f"{home}/.gitconfig"
    yield f"{environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config"


def _read_head(git_dir: Path) -> bytes | None:
    """The reference that HEAD is, empty when it is a commit; None where only git can tell.

    A branch can be a reference too: git follows it, so it must be a commit, or not be there yet. A repository that
    stores its references in another way has a HEAD that names no branch (`refs/heads/.invalid`).
    """
    head = _read_reference(git_dir, "HEAD")
    if _COMMIT.fullmatch(head):
        return b""
    found = _BRANCH.fullmatch(head)
    if found is None or b".lock" in head:  # no name of a branch ends so
        return None
    branch = os.fsdecode(found[1])
    is_plain = not os.path.lexists(git_dir / branch) or _COMMIT.fullmatch(_read_reference(git_dir, branch))
    return found[1] if is_plain else None


def _read_reference(git_dir: Path, name: str) -> bytes:
    """What is in the file of a reference; nothing where it is a link, which git takes for the reference it leads to."""
    if (git_dir / name).is_symlink():
        return b""
    try:
        with open_inside(git_dir, name) as file:
            return file.read(_MOST_READ)
    except ToolError:
        return b""
