"""Git that never runs a repository's own code.

A repository can name programs in many places: fsmonitor, hooks, filters, diff drivers, textconv,
lazy fetches, its submodules' settings. A list of what to switch off is never complete (git 2.54
brought hooks in the configuration), so git is not given the repository's configuration at all. It
works in a **stand-in** for the `.git` folder: an own configuration that has only settings known to
be harmless, a copy of the index, and the objects as another store to read from. So nothing in the
repository is written either: `git diff` would refresh the index, and run a hook for it, even with
optional locks off.

The repository itself is only asked where it is, what its settings are and what HEAD is; these questions run no
program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from toolstead.errors import RefusedError, ToolError
from toolstead.processes.program_run import ProgramResult, run_program
from toolstead.tools.confinement import LONGEST_PATH, open_inside, quote_path

MOST_OUTPUT = 200_000
"""Bytes of git's answer that are shown; below what a caller is shown of any tool."""

_FILTER = re.compile(r"filter\.(.+)\.(?:clean|process)", re.DOTALL)
_MOST_FILTERED = 100
_MOST_SETTINGS = 4 << 20
_MOST_NAMES = 16 << 20
_LARGEST_INDEX = 1 << 30
_STEP = 1 << 20
_PASSED_ON = ("HOME", "USER", "TMPDIR", "XDG_CONFIG_HOME")  # no language: git's messages are read below
_HARMLESS = frozenset(
    {
        "core.attributesfile",
        "core.autocrlf",
        "core.checkstat",
        "core.eol",
        "core.excludesfile",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "core.symlinks",
        "core.trustctime",
        "diff.algorithm",
        "diff.renamelimit",
        "diff.renames",
        "status.renamelimit",
        "status.renames",
        "status.showuntrackedfiles",
    }
)
"""Settings that change git's answer and name no program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """The git program as a project may use it: where it is, and the environment it gets."""

    program: str
    root: Path
    env: Mapping[str, str]

    @classmethod
    def for_project(cls, root: Path, environ: Mapping[str, str]) -> Git:
        """Find git for a project.

        Folders of PATH that are relative or lie inside the project are left out: a `git` in
        there is the repository's own code.

        Raises:
            ToolError: It is not installed.
        """
        folder = Path(os.path.realpath(root))
        path = os.pathsep.join(
            entry
            for entry in environ.get("PATH", os.defpath).split(os.pathsep)
            if Path(entry).is_absolute() and not _is_below(folder, Path(os.path.realpath(entry)))
        )
        program = shutil.which("git", path=path)
        if program is None:
            raise ToolError("git is not installed here, or not in a folder that PATH names")
        env = {name: environ[name] for name in _PASSED_ON if name in environ} | {"PATH": path}
        return cls(program=program, root=folder, env=env)

    async def run(
        self, *arguments: str, limit: int = MOST_OUTPUT, env: Mapping[str, str] | None = None
    ) -> ProgramResult:
        """Run git in the project's root, whatever its exit status.

        Raises:
            ToolError: It cannot be started.
        """
        try:
            return await run_program(
                (self.program, *arguments), cwd=self.root, env={**self.env, **(env or {})}, limit=limit
            )
        except OSError as error:
            raise ToolError(f"git cannot be started in the project's folder: {error.strerror}") from None

    async def find_repository(self) -> Repository | None:
        """The repository the project lies in, or None when there is none.

        Raises:
            ToolError: Git does not read it (another user's, damaged, without a work tree).
            RefusedError: It belongs to another folder.
        """
        found = await self.run(
            "-c",
            "safe.bareRepository=explicit",
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--git-dir",
            *("--git-path", "objects"),
            *("--git-path", "info"),
        )
        if found.status != 0:
            if b"not a git repository (or any" in found.stderr:
                return None
            raise _not_readable(found, self.root)
        places = os.fsdecode(found.stdout).removesuffix("\n").split("\n")
        if len(places) != 4 or not all(Path(place).is_absolute() for place in places):
            raise ToolError("cannot locate the repository: its path contains a line break, or git is too old")
        top, git_dir, objects, info = (Path(place) for place in places)
        settings, origins = await self._list_settings()
        if not self.root.is_relative_to(top):
            raise RefusedError("the repository's core.worktree names another folder than the project")
        if not _belongs_here(top, git_dir, settings):
            raise RefusedError(
                "the project's .git leads to a repository that does not name this folder as its own; "
                "if it is right, set core.worktree in that repository"
            )
        return Repository(
            git=self, top=top, git_dir=git_dir, objects=objects, info=info, settings=settings, origins=origins
        )

    async def _list_settings(self) -> tuple[list[tuple[str, str]], frozenset[str]]:
        """Every setting of every scope, in order, a later one wins; and the files they are in. It runs nothing."""
        listed = await self.run("config", "--list", "--show-origin", "-z", limit=_MOST_SETTINGS)
        if listed.status != 0 or listed.cut:
            raise _not_readable(listed, self.root)
        fields = os.fsdecode(listed.stdout).split("\0")[:-1]
        entries = [entry.partition("\n") for entry in fields[1::2]]
        origins = frozenset(str(self.root / origin.removeprefix("file:")) for origin in fields[0::2])
        return [(name, value if has_value else "true") for name, has_value, value in entries], origins


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository as it was found; nothing is read from its work tree yet.

    Attributes:
        origins: The files that its settings come from.
        head: The reference that HEAD is, empty when it is a commit; None where git has to be asked.
    """

    git: Git
    top: Path
    git_dir: Path
    objects: Path
    info: Path
    settings: Sequence[tuple[str, str]]
    origins: frozenset[str]
    head: bytes | None = None

    async def read_branch(self) -> str | None:
        """The branch that is checked out, also before its first commit; None when HEAD is detached."""
        head = self.head
        if head is None:
            head = (await self.git.run("symbolic-ref", "-q", "HEAD")).stdout
        return decode_output(head).strip().removeprefix("refs/heads/") or None

    def remote_url(self, branch: str | None) -> str | None:
        """The address of the branch's remote, else of `origin`, else of the first one."""
        addresses: dict[str, str] = {}
        for name, value in self.settings:
            if name.startswith("remote.") and name.endswith(".url"):
                addresses.setdefault(name.removeprefix("remote.").removesuffix(".url"), value)
        wanted = dict(self.settings).get(f"branch.{branch}.remote")
        return addresses.get(wanted or "") or addresses.get("origin") or next(iter(addresses.values()), None)

    @asynccontextmanager
    async def stand_in(self) -> AsyncGenerator[StandIn]:
        """Make a stand-in for the repository, removed on exit.

        Raises:
            ToolError: It cannot be written, or the index cannot be copied.
        """
        head = await self.git.run("rev-parse", "-q", "--verify", "HEAD")
        try:
            parent = self.git.env.get("TMPDIR", "/tmp")  # noqa: S108 - a private folder is made in it
            with tempfile.TemporaryDirectory(prefix="toolstead-git-", dir=parent, ignore_cleanup_errors=True) as folder:
                place = Path(folder)
                await self._write_stand_in(place, head.stdout)
                yield StandIn(repository=self, place=place)
        except OSError as error:
            raise ToolError(
                f"the repository cannot be read: {error.strerror}: {quote_path(str(error.filename))}"
            ) from None

    async def _write_stand_in(self, place: Path, head: bytes) -> None:
        object_format = "sha256" if dict(self.settings).get("extensions.objectformat") == "sha256" else "sha1"
        (place / "config").write_text(
            f"[core]\nrepositoryformatversion = 1\nbare = false\n[extensions]\nobjectFormat = {object_format}\n"
        )
        (place / "HEAD").write_bytes(head or b"ref: refs/heads/none\n")
        (place / "refs").mkdir()
        (place / "objects/info").mkdir(parents=True)
        (place / "objects/info/alternates").write_bytes(os.fsencode(self.objects) + b"\n")
        (place / "info").symlink_to(self.info)
        for shared in self.git_dir.glob("sharedindex.*"):
            (place / shared.name).symlink_to(shared)
        if any(file.name == "index" for file in self.git_dir.iterdir()):  # else nothing was ever added
            await _copy_index(self.git_dir, place / "index")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """What git works in instead of the repository's own folder."""

    repository: Repository
    place: Path

    async def changed_files(self) -> list[str]:
        """The tracked files that differ from the index, relative to the project's root.

        Raises:
            RefusedError: The index has names such as `../x`. Git never writes such a name, but it
                would compare, and count the lines of, the file outside.
        """
        listed = await self.run("ls-files", "-z", "--modified", "--deduplicate", limit=_MOST_NAMES)
        names = os.fsdecode(listed.stdout).split("\0")[:-1]
        if any(name.startswith("/") or ".." in name.split("/") for name in names):
            raise RefusedError("the repository's index names files outside the project")
        return names

    async def run(self, *arguments: str, limit: int = MOST_OUTPUT) -> ProgramResult:
        """Run a git command that only reads, on the project's work tree.

        Raises:
            ToolError: It failed; the text has git's own words.
        """
        settings = {name: value for name, value in self.repository.settings if name in _HARMLESS}
        settings["core.quotepath"] = "false"
        env = {
            "GIT_DIR": str(self.place),
            "GIT_WORK_TREE": str(self.repository.top),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (name, value) in enumerate(settings.items()):
            env[f"GIT_CONFIG_KEY_{number}"] = name
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        finished = await self.repository.git.run(*arguments, limit=limit, env=env)
        if finished.status != 0 and not finished.cut:
            raise _not_readable(finished, self.repository.git.root)
        return finished

    async def note_on_filters(self, changed: Sequence[str]) -> list[str]:
        """A note on changed files that a content filter covers: filters are programs, so none is run.

        Without its filter (git-lfs has one) a file can look changed although it is not.
        """
        matches = (_FILTER.fullmatch(name) for name, value in self.repository.settings if value)
        drivers = {match[1] for match in matches if match}
        if not drivers or not changed:
            return []
        found = await self.run("check-attr", "-z", "filter", "--", *changed[:_MOST_FILTERED])
        fields = decode_output(found.stdout).split("\0")
        covered = {name: driver for name, driver in zip(fields[0::3], fields[2::3], strict=False) if driver in drivers}
        if not covered:
            return []
        names, example = ", ".join(sorted(set(covered.values()))), next(iter(covered))
        effect = f"a file that one covers may be shown as changed although it is not, such as {example}"
        return [f"[note: content filters ({names}) are not run, so {effect}]"]


@asynccontextmanager
async def open_stand_in(repository: Repository | None) -> AsyncGenerator[StandIn]:
    """A stand-in for the repository that a project lies in, removed on exit.

    Raises:
        ToolError: There is no repository, or it cannot be read.
    """
    if repository is None:
        raise ToolError("the project is not a git repository")
    async with repository.stand_in() as stand_in:
        yield stand_in


def decode_output(output: bytes) -> str:
    """Git's output as text; bytes of a file's name that are no UTF-8 are shown in hexadecimal."""
    return output.decode("utf-8", "backslashreplace")


def whole_lines(finished: ProgramResult) -> str:
    """Git's output without a last line that was cut in the middle."""
    output = finished.stdout
    return decode_output(output[: output.rfind(b"\n") + 1] if finished.cut else output)


def _is_below(folder: Path, path: Path) -> bool:
    """Whether a path lies inside a project; where that is the whole machine, nothing is its own."""
    return folder != folder.parent and path.is_relative_to(folder)


def _belongs_here(top: Path, git_dir: Path, settings: Sequence[tuple[str, str]]) -> bool:
    """Whether a repository belongs to this folder: it lies inside, or names the folder itself.

    A `.git` that leads elsewhere would otherwise show the names in another repository's index.
    """
    if Path(os.path.realpath(git_dir)).is_relative_to(top):
        return True
    ways_back = [Path(value) for name, value in settings if name == "core.worktree"]
    with contextlib.suppress(ToolError), open_inside(git_dir, "gitdir") as file:  # a linked work tree has it
        ways_back.append(Path(os.fsdecode(file.read(LONGEST_PATH).strip())).parent)
    return any(Path(os.path.realpath(git_dir / way)) == top for way in ways_back)


async def _copy_index(git_dir: Path, target: Path) -> None:
    """Copy the index with its time: git compares it with the files' times to find files it must check."""
    with open_inside(git_dir, "index", named="the repository's own folder") as index, target.open("wb") as copy:
        known = os.fstat(index.fileno())
        if known.st_size > _LARGEST_INDEX:
            raise ToolError(f"the repository's index has {known.st_size:,} bytes; at most {_LARGEST_INDEX:,} are read")
        while chunk := index.read(_STEP):
            copy.write(chunk)
            await asyncio.sleep(0)
    os.utime(target, ns=(known.st_atime_ns, known.st_mtime_ns))


def _not_readable(finished: ProgramResult, root: Path) -> ToolError:
    text = decode_output(finished.stderr).strip()
    if "dubious ownership" in text:
        return ToolError(
            "git does not trust this repository, because its folder belongs to another user; "
            f"its user can allow it with: git config --global --add safe.directory {decode_output(os.fsencode(root))}"
        )
    first = text.split("\n", 1)[0].removeprefix("fatal: ")[:500]
    return ToolError(f"git cannot read the repository: {first or f'exit status {finished.status}'}")
