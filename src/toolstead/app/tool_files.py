"""The tool files in use: the user's own, and those of the project as they were approved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolstead.app.places import Places, explain_wide_root, named_tools_folder
from toolstead.app.trust.approved import TOOLS, ApprovedFiles, ApprovedReader, ProjectTrust
from toolstead.app.version import VERSION
from toolstead.tools.sources.json_files import JsonFiles, LoadedFile, Reader

if TYPE_CHECKING:
    from toolstead.app.settings import ToolsSettings
    from toolstead.schema.compiled import Documents
    from toolstead.tools.handlers.http_client import GuardedClient
    from toolstead.tools.handlers.http_guard import AllowedHosts
    from toolstead.tools.sources import ToolSource

_for_handlers = attrgetter("max_output", "allowed_hosts", "proxy")
"""What handlers are built with, of `[tools]`."""


class ToolFiles:
    """The sources of tools from files, and what they share.

    Attributes:
        environ: The environment that handlers take from.
    """

    def __init__(
        self,
        places: Places,
        trust: ProjectTrust,
        settings: ToolsSettings,
        *,
        environ: Mapping[str, str],
        tools_dir: Path | None,
        schemas: Documents | None,
    ) -> None:
        self._places = places
        self._trust = trust
        self.environ = environ
        self._schemas = schemas
        self._clients = AsyncExitStack()
        self._settings = settings
        named = named_tools_folder(environ if places.offers_users else {}, tools_dir)
        own, approved = self._make_readers(settings)
        self.users = JsonFiles((named or places.user_content / "tools",), own)
        self.projects = None if named else ApprovedFiles(trust, approved)

    @property
    def sources(self) -> list[ToolSource]:
        """In the order in which names are taken."""
        return [self.users, self._trust, *([self.projects] if self.projects is not None else [])]

    def loaded_files(self) -> list[LoadedFile]:
        """Every file's good version, with its examples."""
        return [*self.users.loaded_files(), *(self.projects.loaded_files() if self.projects is not None else ())]

    def find_examples(self, name: str) -> list[Mapping[str, Any]]:
        """The arguments that a tool's file gives as examples."""
        return [example.input for file in self.loaded_files() for example in file.examples.get(name, ())]

    def read_aside(self, paths: Sequence[Path], taken: Mapping[str, str]) -> list[LoadedFile]:
        """Read files and folders without registering them; without any, the user's folder and the project's.

        What is read here is not loaded, so a project's files are read as they are now, approved or not.
        """
        if not paths:
            of_project = self._places.project / TOOLS
            counts = self.projects is not None and not self._trust.is_ignored and of_project.is_dir()
            paths = [*self.users.folders, *([of_project] if counts else [])]
        return self.users.read_aside(paths, taken)

    def apply_settings(self, settings: ToolsSettings) -> None:
        """Apply other settings; the next load reads every file again if they matter to handlers."""
        before, self._settings = self._settings, settings
        if _for_handlers(before) != _for_handlers(settings):
            own, approved = self._make_readers(settings)
            self.users.read_with(own)
            if self.projects is not None:
                self.projects.read_with(approved)

    def http_parts(self) -> tuple[GuardedClient, AllowedHosts]:
        """The guarded client, and the hosts that the settings allow."""
        from toolstead.tools.handlers.http_guard import AllowedHosts

        return self._client(), AllowedHosts.parse_entries(self._settings.allowed_hosts)

    async def aclose(self) -> None:
        """Close the connections of http tools."""
        await self._clients.aclose()

    def _make_readers(self, settings: ToolsSettings) -> tuple[Reader, ApprovedReader]:
        """The readers for these settings. They, and the client they share, are made when something needs them.

        Raises:
            SettingsError: The proxy's address cannot be used.
        """

        @cache
        def client() -> GuardedClient:
            from toolstead.tools.handlers.http_client import GuardedClient

            made = GuardedClient(proxy=settings.proxy, user_agent=f"toolstead/{VERSION}")
            self._clients.push_async_callback(made.aclose)
            return made

        self._client = client
        if settings.proxy:  # a bad one is refused now
            client()
        own = _LateReader(partial(self._make_reader, settings, client))
        projects = _LateReader(partial(self._make_reader, settings, client, is_projects=True))
        return own, ApprovedReader(projects, self._trust)

    def _make_reader(
        self, settings: ToolsSettings, client: Callable[[], GuardedClient], *, is_projects: bool = False
    ) -> Reader:
        from toolstead.tools.handlers.handler_context import Surroundings
        from toolstead.tools.sources.json_file import FileReader

        return FileReader(
            Surroundings(
                root=self._places.project,
                wide_root=explain_wide_root(self._places.project, self.environ),
                environ=self.environ,
                max_output=settings.max_output,
                allowed_hosts=settings.allowed_hosts,
                proxy=settings.proxy,
                pinned=self._trust.pinned if is_projects else None,
                private=self._places.data,
            ),
            client,
            self._schemas,
        )


class _LateReader:
    """A reader that is made for the first file: it knows every kind of handler, and many steads have no file."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        self._made = cache(make)

    def read(self, path: Path, data: bytes) -> LoadedFile:
        """Read a file's content."""
        return self._made().read(path, data)
