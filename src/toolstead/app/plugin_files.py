"""The shared files as a power of a plugin: each call in the thread tree, and in the name, of its caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolstead.orchestrator.shared_files import SharedFiles
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.types.vfs import FileVersion, SharedFile

CLIENT = "client"
"""The author of what a call writes that comes from no agent: from an MCP client, a program, the command line."""


class PluginFiles:
    """The files that the agents of a thread tree share."""

    def __init__(self, plugin: str, open_files: Callable[[], Awaitable[SharedFiles]]) -> None:
        self._plugin = plugin
        self._open_files = open_files

    async def read(
        self, path: str, *, version: int | None = None, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> SharedFile:
        """A file's newest text, or that of a version."""
        files = await self._open_files()
        return await files.read_file(_choose_thread(meta, thread_id), path, version=version)

    async def list(
        self, prefix: str = "", *, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> Sequence[FileVersion]:
        """The newest version of each file whose path begins so."""
        return await (await self._open_files()).list_files(_choose_thread(meta, thread_id), prefix)

    async def log(
        self, path: str, *, limit: int = 100, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> Sequence[FileVersion]:
        """A file's versions, the newest first."""
        return await (await self._open_files()).list_versions(_choose_thread(meta, thread_id), path, limit=limit)

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_version: int | None = None,
        meta: ToolMeta | None = None,
        thread_id: str = "default",
    ) -> FileVersion:
        """Write the file's next version."""
        return await self._change(path, content, meta, thread_id, expected_version=expected_version)

    async def edit(
        self, path: str, old: str, new: str, *, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> FileVersion:
        """Replace a part of the newest text that is there exactly once."""
        return await self._change(path, new, meta, thread_id, replaces=old)

    async def delete(self, path: str, *, meta: ToolMeta | None = None, thread_id: str = "default") -> FileVersion:
        """Delete the file; its history stays."""
        return await self._change(path, None, meta, thread_id)

    async def _change(
        self,
        path: str,
        content: str | None,
        meta: ToolMeta | None,
        thread_id: str,
        *,
        expected_version: int | None = None,
        replaces: str | None = None,
    ) -> FileVersion:
        author = self._plugin if meta is None else meta.agent_id or CLIENT
        return await (await self._open_files()).write_file(
            _choose_thread(meta, thread_id),
            path,
            content,
            author=author,
            run_id=None if meta is None else meta.run_id,
            expected_version=expected_version,
            replaces=replaces,
        )


def _choose_thread(meta: ToolMeta | None, thread_id: str) -> str:
    return thread_id if meta is None else meta.thread_id
