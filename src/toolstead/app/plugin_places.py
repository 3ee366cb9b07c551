"""Where a stead's plugins are: first-party ones, installed ones, and files of the user and of the project.

A project's own are read as they were approved, never from its folder.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolstead.app.version import VERSION
from toolstead.errors import TrustError, UnreadableTrustError
from toolstead.plugins.discovery import Discovered, entry_point_plugins, file_plugins, unreadable_file
from toolstead.schema.visible import escape_unseen
from toolstead.types.tool import Problem

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.plugins.contract import Plugin

logger = logging.getLogger(__name__)

FIRST_PARTY = ("agents", "context", "delegation", "plan", "time", "validation", "vfs", "web")
OPTIONAL = frozenset({"validation"})
"""First-party plugins that are off until they are switched on, because they cost something."""
BARE = frozenset({"agents", "plan", "vfs", "web"})
"""First-party plugins whose tools keep the names the documents give them."""

PROJECT_FOLDER = Path(".toolstead/plugins")
LARGEST_FILE = 8 * 1024 * 1024


def is_switched_on(name: str, stored: bool | None, table: Mapping[str, Any], *, is_first_party: bool) -> bool:
    """Whether a plugin is in use.

    Args:
        name: The plugin.
        stored: What a person switched, which comes first.
        table: Its table in the settings files.
        is_first_party: Whether it comes with us.
    """
    if stored is not None:
        return stored
    return bool(table.get("enabled", not (is_first_party and name in OPTIONAL)))


class PluginPlaces:
    """Looks for plugins.

    Attributes:
        problems: What could not be read at the last look.
    """

    def __init__(
        self, places: Places, trust: ProjectTrust, *, given: Callable[[], Sequence[Plugin]], installed: bool = True
    ) -> None:
        """Look for nothing yet.

        Args:
            places: Where the user's folder is.
            trust: What of the project may be loaded.
            given: Plugins that the program brings itself, as they are now.
            installed: Look for installed ones too.
        """
        self._places = places
        self._trust = trust
        self._given = given
        self._installed = installed
        self.problems: list[Problem] = []
        self._before: list[Problem] = []
        self._approved: list[Discovered] = []

    def discover_plugins(self) -> list[Discovered]:
        """The plugins that exist, in the order of registration. Runs none of their code."""
        first = [
            Discovered(
                name=name,
                origin=f"toolstead.extensions.{name}",
                load=partial(_first_party, name),
                first_party=True,
                bare=name in BARE,
                version_key=VERSION,
            )
            for name in FIRST_PARTY
        ]
        given = [
            Discovered(name=plugin.name, origin="python", load=partial(_as_given, plugin), version_key=str(id(plugin)))
            for plugin in self._given()
        ]
        self._before, self.problems = self.problems, []
        others = entry_point_plugins(self._search_path()) if self._installed else []
        files = [*self._users_plugins(), *self._approved_plugins()]
        return [*first, *sorted([*given, *others], key=lambda found: found.name), *files]

    def _users_plugins(self) -> list[Discovered]:
        folder = self._places.user_content / "plugins"
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".py")
        except OSError:  # no such folder, as for most
            return []
        found: list[Discovered] = []
        for path in paths:
            if path.name.startswith(("_", ".")):
                continue
            try:
                if not path.is_file():  # a pipe would be waited for
                    raise OSError("it is no file")
                if path.stat().st_size > LARGEST_FILE:
                    raise OSError(f"it is larger than {LARGEST_FILE:,} bytes")
                found += file_plugins([(path, path.read_bytes())])
            except OSError as error:
                found.append(unreadable_file(path, f"{path} cannot be read: {error.strerror or error}"))
        return found

    def _search_path(self) -> list[str]:
        """Where installed packages are. `python -m` puts the current folder there, which may be an untrusted clone."""
        here = {os.path.realpath(folder) for folder in (os.curdir, self._places.project)}
        return [folder for folder in sys.path if folder and os.path.realpath(folder) not in here]

    def _approved_plugins(self) -> list[Discovered]:
        """The project's own as they are approved; where these cannot be read at the moment, as they were before."""
        try:
            self._approved = self._read_approved()
        except UnreadableTrustError as error:
            self._note_unreadable(escape_unseen(str(self._places.project)), str(error))
        except TrustError as error:
            self._note_unreadable(escape_unseen(str(self._places.project)), str(error))
            self._approved = []
        return self._approved

    def _read_approved(self) -> list[Discovered]:
        found: list[Discovered] = []
        approval = self._trust.read_approval()  # read again: it may just have been revoked
        for within in sorted(approval.files) if approval is not None else ():
            if not within.endswith(".py") or Path(within).parent != PROJECT_FOLDER:
                continue
            if Path(within).name.startswith(("_", ".")):
                continue
            shown = Path(escape_unseen(str(self._places.project / within)))
            try:
                content = self._trust.approvals.approved_content(self._places.project, within)
                if content is not None:
                    found += file_plugins([(shown, content)])
            except UnreadableTrustError:
                raise
            except TrustError as error:
                found.append(unreadable_file(shown, str(error)))
        return found

    def _note_unreadable(self, source: str, message: str) -> None:
        problem = Problem(source=source, message=message)
        if problem not in self._before:
            logger.warning("%s: %s", source, message)
        self.problems.append(problem)


def _first_party(name: str) -> Plugin:
    return importlib.import_module(f"toolstead.extensions.{name}").plugin


def _as_given(plugin: Plugin) -> Plugin:
    return plugin
