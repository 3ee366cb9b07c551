"""The approved files of a project, for the loaders: what they read is what was approved, or nothing.

`TrustWatcher` notices, while a process runs, that the user approved or revoked something, or that files changed. The
scope is small and may lie anywhere, so it is polled twice a second instead of watched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.app.trust.approvals import Difference, TrustApproval, TrustStore, check_pin, compare_snapshot
from toolstead.app.trust.snapshot import Mark, Snapshot, take_mark, take_snapshot
from toolstead.app.watching import POLL_SECONDS, PollingWatcher, Stamp, is_young, read_stamp
from toolstead.errors import ToolsteadError, TrustError, UnreadableTrustError
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
    """What is approved of one project, as this process knows it; `refresh_approval` reads the current state.

    It is also a source of tools without tools: what it quarantines is the project's own folder, while
    that waits for approval.

    Attributes:
        project: The project's root.
        approvals: Where approvals are kept.
        copy: The folder of the approved bytes; absent when nothing is approved.
        users_own: The user's own folder, where it lies in the project's.
        approval: What is approved.
        waiting: What of the project waits for approval.
        unread: What could not be read at the last look, though it is there: what was read before counts until the next.
    """

    name = "trust"

    def __init__(self, places: Places, *, is_ignored: bool = False) -> None:
        """Read nothing yet.

        Args:
            places: Where the project is.
            is_ignored: Whether nothing of the project counts, or is waited for.
        """
        self.project = places.project
        self.is_ignored = is_ignored
        self.approvals = TrustStore(places.data)
        self.copy = self.approvals.approval_folder(places.project) / "current"
        own = places.project / ".toolstead"
        self._shown = escape_unseen(str(places.project))
        self.users_own = places.user if places.user.is_relative_to(own) else None
        self.approval: TrustApproval | None = None
        self.waiting: tuple[Problem, ...] = ()
        self.unread: set[str] = set()
        self._config: tuple[TrustApproval, bytes | None] | None = None

    @property
    def pinned(self) -> Pinned | None:
        """The project's folder and the approved copy that stands in for it; None where it is the user's own."""
        from toolstead.tools.handlers.pinned import Pinned  # it knows commands, which only a tool that is read has

        live = self.project / ".toolstead"
        return None if self.users_own == live else Pinned(live=live, copy=self.copy / ".toolstead")

    def take_snapshot(self) -> Snapshot:
        """What the project brings now.

        Raises:
            TrustError: It cannot be read whole.
        """
        return take_snapshot(self.project, without=self.users_own)

    def read_approval(self) -> TrustApproval | None:
        """What is approved at this moment: it may just have been revoked. Raises as `TrustStore.read`."""
        return None if self.is_ignored else self.approvals.read(self.project)

    def refresh_approval(self) -> bool:
        """Read what is approved, and what waits; return whether either changed.

        Pins that cannot be read change nothing; the reason is a problem.
        """
        if self.is_ignored:
            return False
        before = (self.approval, self.waiting)
        self.unread.discard("approval")
        try:
            self.approval = self.read_approval()
            self.waiting = tuple(self._waiting_problems(self.approval, self.take_snapshot()))
        except TrustError as error:
            if isinstance(error, UnreadableTrustError):
                self.unread.add("approval")
            self.waiting = (Problem(source=self._shown, message=str(error)),)
        if self.waiting != before[1]:
            for problem in self.waiting:
                logger.warning("%s: %s", problem.source, problem.message)
        return (self.approval, self.waiting) != before

    def approved_config(self) -> bytes | None:
        """The approved `config.toml`; where it cannot be read at the moment, as it was read under this approval."""
        was_unread = "config" in self.unread
        self.unread.discard("config")
        if self.approval is None:
            return None
        try:
            content = self.approvals.approved_content(self.project, CONFIG)
        except UnreadableTrustError as error:
            if not was_unread:
                logger.warning("%s", error)
            self.unread.add("config")
            return self._config[1] if self._config is not None and self._config[0] == self.approval else None
        except TrustError as error:
            logger.warning("%s", error)
            return None
        self._config = self.approval, content
        return content

    async def load(self) -> Offers:
        """No tools; what of the project waits."""
        if self.approval is None and not self.waiting:  # nothing is there, or little is known yet
            self.refresh_approval()
        else:
            await asyncio.to_thread(self.refresh_approval)
        return Offers(problems=self.waiting)

    def _waiting_problems(self, approval: TrustApproval | None, snapshot: Snapshot) -> Sequence[Problem]:
        if approval is None and not snapshot.files and not snapshot.skipped:
            return ()
        found = [
            Problem(
                source=f"{self._shown}/{escape_unseen(path)}",
                message="is no regular file (a link, perhaps), and a project's own files are never read through one",
            )
            for path in snapshot.skipped
        ]
        if changes := compare_snapshot(approval, snapshot):
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

    def __init__(self, inner: Reader, trust: ProjectTrust) -> None:
        self._inner = inner
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
        return self._inner.read(shown, data)


class ApprovedFiles(JsonFiles):
    """The approved tool files of a project. Another approval is read whole; without one there are none."""

    def __init__(self, trust: ProjectTrust, reader: ApprovedReader) -> None:
        super().__init__((trust.copy / TOOLS,), reader, name="project")
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
        offers = await super().load()
        if self.is_unread:
            self._trust.unread.add("files")
        else:
            self._trust.unread.discard("files")
        return offers


class TrustWatcher(PollingWatcher):
    """Polls a project's files and its approval while open: `async with watcher:`."""

    def __init__(
        self,
        trust: ProjectTrust,
        on_news: Callable[[], Awaitable[object]],
        *,
        follow: bool = False,
        interval: float = POLL_SECONDS,
    ) -> None:
        """Prepare to watch.

        Args:
            trust: The project's trust.
            on_news: Awaited when the approval, or what waits for one, changed.
            follow: Approve every change of the project's files as it comes: for authors.
            interval: Seconds between two checks.
        """
        super().__init__("trust", interval)
        self._trust = trust
        self._on_news = on_news
        self._follow = follow
        self._seen: tuple[Stamp | None, Mark | str] | None = None

    async def check(self) -> None:
        """Check once, and report a change if there is one."""
        seen = await asyncio.to_thread(self._take_marks)
        is_settled = isinstance(seen[1], str) or not any(is_young(changed) for _, _, changed, _, _ in seen[1])
        if self._seen == seen and is_settled and not self._trust.unread:
            return
        self._seen = seen
        if self._follow:
            await asyncio.to_thread(approve_changes, self._trust)
        await self._on_news()

    async def check_first(self) -> None:
        """Report only if something changed since the trust was last checked; mostly nothing has."""
        self._seen = await asyncio.to_thread(self._take_marks)
        if self._follow:
            await asyncio.to_thread(approve_changes, self._trust)
        if await asyncio.to_thread(self._trust.refresh_approval):
            await self._on_news()

    def _take_marks(self) -> tuple[Stamp | None, Mark | str]:
        trust = self._trust
        try:
            mark: Mark | str = take_mark(trust.project, without=trust.users_own)
        except ToolsteadError as error:
            mark = str(error)
        return read_stamp(trust.approvals.approval_folder(trust.project) / "approval.json"), mark


def approve_changes(trust: ProjectTrust) -> bool:
    """Approve what the project brings now; return whether it differed from what was approved.

    What a person could not approve either is refused, and logged.
    """
    from toolstead.app.trust.review import what_is_refused  # only authors follow

    try:
        snapshot = trust.take_snapshot()
        changes = compare_snapshot(trust.approvals.read(trust.project), snapshot)
        if changes and (refused := what_is_refused(snapshot)):
            raise TrustError("; ".join(f"cannot be approved: {reason}" for reason in refused))
        if changes:
            trust.approvals.approve_snapshot(trust.project, snapshot)
            logger.info("%s: approved as it changed: %s", escape_unseen(str(trust.project)), changes)
    except ToolsteadError as error:
        logger.warning("%s", error)
        return False
    return bool(changes)
