"""The approved files of a project, for the loaders: what they read is what was approved, or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.app.trust.approvals import Difference, TrustApproval, TrustStore, check_pin, compare_snapshot
from toolstead.app.trust.snapshot import Snapshot, take_snapshot
from toolstead.errors import TrustError
from toolstead.schema.visible import escape_unseen
from toolstead.tools.sources import Offers
from toolstead.tools.sources.json_files import JsonFiles, LoadedFile, Reader
from toolstead.types.tool import Problem

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.tools.handlers.pinned import Pinned

logger = logging.getLogger("toolstead.trust")

CONFIG = ".toolstead/config.toml"
TOOLS = ".toolstead/tools"


class ProjectTrust:
    """What is approved of one project, as this process knows it. `look` reads the current state.

    It is also a source of tools without tools: what it quarantines is the project's own folder, while
    that waits for approval.
    """

    name = "trust"

    def __init__(self, places: Places) -> None:
        self.project = places.project
        self.approvals = TrustStore(places.data)
        self.copy = self.approvals.copy_folder(places.project)
        own = places.project / ".toolstead"
        self._shown = escape_unseen(str(places.project))
        self._users = places.user if places.user.is_relative_to(own) else None
        self._approval: TrustApproval | None = None
        self._problems: tuple[Problem, ...] = ()

    @property
    def approval(self) -> TrustApproval | None:
        """What is approved."""
        return self._approval

    @property
    def waiting(self) -> tuple[Problem, ...]:
        """What of the project waits for approval."""
        return self._problems

    @property
    def pinned(self) -> Pinned | None:
        """The project's folder and the approved copy that stands in for it; None where it is the user's own."""
        from toolstead.tools.handlers.pinned import Pinned  # it knows commands, which only a tool that is read has

        live = self.project / ".toolstead"
        return None if self._users == live else Pinned(live=live, copy=self.copy / ".toolstead")

    @property
    def tools_folder(self) -> Path:
        """Where the approved tool files lie; absent when nothing is approved."""
        return self.copy / TOOLS

    def take_snapshot(self) -> Snapshot:
        """What the project brings now.

        Raises:
            TrustError: It cannot be read whole.
        """
        return take_snapshot(self.project, without=self._users)

    @property
    def users_own(self) -> Path | None:
        """The user's own folder, where it lies in the project's."""
        return self._users

    def refresh_approval(self) -> bool:
        """Read what is approved, and what waits; return whether either changed.

        Pins that cannot be read change nothing; the reason is a problem.
        """
        before = (self._approval, self._problems)
        try:
            self._approval = self.approvals.read(self.project)
            self._problems = tuple(self._waiting_problems(self._approval, self.take_snapshot()))
        except TrustError as error:
            self._problems = (Problem(source=self._shown, message=str(error)),)
        if self._problems != before[1]:
            for problem in self._problems:
                logger.warning("%s: %s", problem.source, problem.message)
        return (self._approval, self._problems) != before

    def approved_config(self) -> bytes | None:
        """The approved `config.toml`."""
        if self._approval is None:
            return None
        try:
            return self.approvals.approved_content(self.project, CONFIG)
        except TrustError as error:
            logger.warning("%s", error)
            return None

    async def load(self) -> Offers:
        """No tools; what of the project waits."""
        if self._approval is None and not self._problems:  # nothing is there, or little is known yet
            self.refresh_approval()
        else:
            await asyncio.to_thread(self.refresh_approval)
        return Offers(problems=self._problems)

    def _waiting_problems(self, approval: TrustApproval | None, snapshot: Snapshot) -> Sequence[Problem]:
        if approval is None and not snapshot.files and not snapshot.skipped:
            return ()
        found: list[Problem] = []
        for path in snapshot.skipped:
            message = "is no regular file (a link, perhaps), and a project's own files are never read through one"
            found.append(Problem(source=f"{self._shown}/{escape_unseen(path)}", message=message))
        changes = compare_snapshot(approval, snapshot)
        if changes:
            found.append(Problem(source=self._shown, message=_waiting_sentence(approval, changes, snapshot)))
        return found


def _waiting_sentence(approval: TrustApproval | None, changes: Difference, snapshot: Snapshot) -> str:
    if approval is None:
        places = ", ".join(dict.fromkeys(_scope_part(path) for path in snapshot.files))
        return f"this project brings {places}: skipped, until you look at it and approve it with `toolstead trust`"
    return f"changed since you approved it: {changes}; the approved version stays until `toolstead trust`"


def _scope_part(path: str) -> str:
    """The part of the scope a path lies in, as a person would say it."""
    return ".claude/agents" if path.startswith(".claude/") else path.partition("/")[0]


class ApprovedReader:
    """Reads tool files out of the approved copy, and calls them by their names in the project."""

    def __init__(self, make_reader: Callable[[], Reader], trust: ProjectTrust) -> None:
        self._make_reader = make_reader
        self._inner: Reader | None = None
        self._trust = trust

    def read(self, path: Path, data: bytes) -> LoadedFile:
        """Read a file's content, if it is what was approved."""
        within = path.relative_to(self._trust.copy).as_posix()
        shown = Path(escape_unseen(str(self._trust.project / within)))  # from here on it is only shown, never opened
        approval = self._trust.approval
        try:
            if approval is None:
                raise TrustError("nothing of this project is approved; run `toolstead trust`")
            check_pin(approval, within, data)
        except TrustError as error:
            return LoadedFile(path=shown, problems=(Problem(source=str(shown), message=str(error)),))
        if self._inner is None:  # most projects bring nothing
            self._inner = self._make_reader()
        return self._inner.read(shown, data)


class ApprovedFiles(JsonFiles):
    """The approved tool files of a project. Another approval is read whole; without one there are none."""

    def __init__(self, trust: ProjectTrust, reader: ApprovedReader) -> None:
        super().__init__((trust.tools_folder,), reader, name="project")
        self._trust = trust
        self._read_under: TrustApproval | None = None

    async def load(self) -> Offers:
        """Look at every approved file."""
        approval = self._trust.approval
        if approval is None:  # it may have been taken back while the bytes were still there
            self.forget_files()
            return Offers()
        if approval != self._read_under:  # what was read meanwhile was held against other pins
            self._read_under = approval
            self.read_with(self._reader)
        return await super().load()
