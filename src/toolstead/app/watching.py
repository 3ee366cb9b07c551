"""Watching files while a process runs: by the system's notices where there are many, by polling where there are few.

`FolderWatcher` follows a folder of tools; `PollingWatcher` polls something small: the switches, and
what a project brings. The library that sends notices is imported in a worker thread after the stead is open, so that no
start waits for it, and only where there is a folder to watch; what changed before the watch stood is looked for then.
Network folders are polled, because they send no notices.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from toolstead.concurrency.owned_tasks import OwnedTasks

if TYPE_CHECKING:
    from toolstead.tools.sources.json_files import JsonFiles

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
YOUNG_NS = 2_000_000_000
"""No file system's clock has longer steps: FAT's has these."""
MISSING_FOLDER_POLL = 1.0
DEBOUNCE_MS, STEP_MS, LOOK_AGAIN_MS = 200, 50, 1_000
SECOND_LOOK = 0.3
"""Seconds that a file which is gone or cut off gets to be finished before its change is reported."""
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "vboxsf"})

Stamp = tuple[int, int, int]
OnChange = Callable[[Collection[Path]], Awaitable[Any]]


def is_young(changed_ns: int) -> bool:
    """Whether a file is so new that another write may have left the same time, size and inode."""
    return time.time_ns() - changed_ns < YOUNG_NS


def read_stamp(path: Path) -> Stamp | None:
    """What changes when a file does: its time, size and inode; None when it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class BackgroundWatcher:
    """Something that a task watches while it is open: `async with watcher:`."""

    def __init__(self, what: object) -> None:
        self._what = what
        self._tasks = OwnedTasks()

    async def check_first(self) -> None:
        """Check before the task starts; what fails here is raised."""

    async def watch(self) -> None:
        """Watch until cancelled."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.check_first()
        self._tasks.start(self.watch(), name=f"toolstead-watch-{self._what}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._tasks.end_all()


class PollingWatcher(BackgroundWatcher):
    """Polls something; a check that fails is logged, and polling goes on."""

    def __init__(self, what: str, interval: float) -> None:
        super().__init__(what)
        self._interval = interval

    async def check(self) -> None:
        """Check once, and report a change if there is one."""
        raise NotImplementedError

    async def watch(self) -> None:
        """Check again and again."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.check()
            except Exception:
                logger.exception("a change of %s could not be applied; the next one is reported again", self._what)


class FolderWatcher(BackgroundWatcher):
    """Watches a folder while open, and reports which files changed; the folder may come and go."""

    def __init__(self, folder: Path, files: JsonFiles, on_change: OnChange) -> None:
        super().__init__(folder)
        self._folder = folder
        self._files = files
        self._on_change = on_change

    async def watch(self) -> None:
        """Report changes, whatever becomes of the folder."""
        folder, polling, seen = self._folder, False, True
        while True:
            if await asyncio.to_thread(folder.is_dir):
                seen = True
                watchfiles = await asyncio.to_thread(importlib.import_module, "watchfiles")
                polling = polling or await asyncio.to_thread(is_network_folder, folder)
                try:
                    await self._follow_changes(watchfiles.awatch, folder, polling=polling)
                except (OSError, RuntimeError, StopAsyncIteration) as error:  # as the library says it
                    how = "trying again" if polling else "it is polled from now on"
                    logger.warning("%s cannot be watched (%s); %s", folder, error or "it ended", how)
                    polling = True
            elif seen:  # it was removed, with everything in it
                seen = False
                await self._report_changes([folder])
            await asyncio.sleep(MISSING_FOLDER_POLL)

    async def _follow_changes(self, awatch: Callable[..., Any], folder: Path, *, polling: bool) -> None:
        """Report changes until the folder is gone, or is replaced."""
        watching = awatch(
            folder,
            watch_filter=None,
            recursive=False,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            force_polling=polling,
            rust_timeout=LOOK_AGAIN_MS,  # no notice is sent when the folder itself is removed
            yield_on_timeout=True,
        )
        following = asyncio.ensure_future(anext(watching))
        try:
            await asyncio.sleep(0)  # now the watch is active
            await self._report_changes([folder])
            while await asyncio.to_thread(folder.is_dir):
                paths = {Path(path) for _, path in await following}
                if paths:
                    await self._report_changes(paths)
                if folder in paths:  # it was removed, and may have been replaced
                    return
                following = asyncio.ensure_future(anext(watching))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await watching.aclose()

    async def _report_changes(self, paths: Collection[Path]) -> None:
        try:
            if changed := await asyncio.to_thread(self._files.find_changed, paths):
                await self._on_change(changed)
                if unfinished := self._files.unfinished:
                    logger.debug("%s: not finished, looking again", ", ".join(sorted(map(str, unfinished))))
                    await asyncio.sleep(SECOND_LOOK)
                    await self._on_change(unfinished)
        except Exception:
            logger.exception("a change of %s could not be applied", ", ".join(sorted(map(str, paths))[:5]))


def is_network_folder(folder: Path) -> bool:
    """Whether a folder lies on a file system that sends no notices of change."""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    kinds: dict[str, str] = {}
    for mount in mounts:
        _, place, kind, *_ = mount.split(" ")
        kinds[place.replace("\\040", " ")] = kind  # a later one covers an earlier one
    target = folder.resolve()
    nearest = next((str(place) for place in (target, *target.parents) if str(place) in kinds), "")
    return kinds.get(nearest) in _NETWORK
