"""Watching the tool folders: a change of a file is a change of the tools, without anybody asking.

The library that watches is imported in a worker thread after the yard is open, so that no start
waits for it. Network folders are polled, because they send no notices.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)

MISSING_FOLDER_POLL = 1.0
DEBOUNCE_MS, STEP_MS = 200, 50
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "vboxsf"})

OnChange = Callable[[Collection[Path]], Awaitable[Any]]


class FolderWatcher:
    """Watches folders while open, and tells which files changed; folders may come and go."""

    def __init__(self, folders: Collection[Path], on_change: OnChange) -> None:
        self._folders = tuple(folders)
        self._on_change = on_change
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._watch(folder), name=f"toolyard-watch-{folder}") for folder in self._folders
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, folder: Path) -> None:
        watchfiles = await asyncio.to_thread(importlib.import_module, "watchfiles")
        seen = await asyncio.to_thread(folder.is_dir)
        while True:
            if not await asyncio.to_thread(folder.is_dir):
                seen = False
                await asyncio.sleep(MISSING_FOLDER_POLL)
                continue
            polling = await asyncio.to_thread(is_network_folder, folder)
            try:
                if not seen:  # it came while nobody watched, with what is in it
                    await self._tell(await asyncio.to_thread(lambda: list(folder.iterdir())))
                    seen = True
                watching = watchfiles.awatch(
                    folder,
                    watch_filter=None,
                    recursive=False,
                    debounce=DEBOUNCE_MS,
                    step=STEP_MS,
                    force_polling=polling,
                )
                async for changes in watching:
                    await self._tell({Path(path) for _, path in changes})
                    if not await asyncio.to_thread(folder.is_dir):
                        break
            except OSError as error:
                logger.warning("%s cannot be watched (%s); trying again", folder, error)
                await asyncio.sleep(MISSING_FOLDER_POLL)

    async def _tell(self, paths: Collection[Path]) -> None:
        try:
            await self._on_change(paths)
        except Exception:
            logger.exception("a change of %s could not be taken", ", ".join(sorted(map(str, paths))[:5]))


def is_network_folder(folder: Path) -> bool:
    """Whether a folder lies on a file system that sends no notices of change."""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    best, network = "", False
    target = str(folder.resolve())
    for mount in mounts:
        _, place, kind, *_ = mount.split(" ")
        place = place.replace("\\040", " ")
        inside = target == place or target.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, network = place, kind in _NETWORK
    return network
