"""Where things live: the project's root, the user's folder and the data folder.

Folders are named here, never made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolstead.errors import SettingsError
from toolstead.schema.visible import escape_unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The three folders everything is found from; all are absolute.

    Attributes:
        project: The project's root.
        user: The user's folder, with `config.toml`, `tools/`, `agents/` and `plugins/`.
        data: What is kept: the switches, later the database.
        offers_users: Whether what lies in the user's folder is offered; `config.toml` counts in any case.
    """

    project: Path
    user: Path
    data: Path
    offers_users: bool = True

    @property
    def user_content(self) -> Path:
        """Where the user's tools, plugins, agents and prompts lie; where they are left out, a place without any."""
        return self.user if self.offers_users else self.data / "nothing"


def find_places(
    *, explicit: Path | None = None, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Places:
    """Find the folders.

    `TOOLSTEAD_HOME` moves the user's folder and, into a folder `data` inside it, the data: one
    variable isolates a test or a second installation.

    Args:
        explicit: The project's root, when the caller names it.
        environ: The environment; this process's own unless given.
        cwd: The current folder; this process's own unless given.

    Raises:
        SettingsError: A folder that was named is none, or nothing says where the user's home is.
    """
    environ = os.environ if environ is None else environ
    cwd = _current_folder() if cwd is None else cwd
    project = find_project_root(cwd, explicit)
    if own := environ.get("TOOLSTEAD_HOME"):
        user = _own_folder(own, cwd, environ)
        return Places(project=project, user=user, data=user / "data")
    return Places(
        project=project,
        user=_xdg_folder(environ, "XDG_CONFIG_HOME", ".config"),
        data=_xdg_folder(environ, "XDG_DATA_HOME", ".local/share"),
    )


def named_tools_folder(environ: Mapping[str, str], explicit: Path | None = None) -> Path | None:
    """The folder that takes the place of the user's and the project's tools: named, or `TOOLSTEAD_TOOLS_DIR`."""
    named = explicit if explicit is not None else environ.get("TOOLSTEAD_TOOLS_DIR")
    return Path(named).expanduser().absolute() if named else None


def find_project_root(start: Path, explicit: Path | None = None) -> Path:
    """Give the named folder, else the nearest one upward with `.toolstead` or `.git`, else `start`.

    Links are resolved, so that a project has one name however it was reached.

    Raises:
        SettingsError: The named one is no folder.
    """
    if explicit is not None:
        named = start / explicit
        if not _is_folder(named):
            what = "is not a folder" if os.path.lexists(named) else "does not exist"
            raise SettingsError(
                key="", origin="project", reason=f"{str(named)!r} {what}; name the project's root folder"
            )
        return named.resolve()
    start = start.resolve()
    for folder in (start, *start.parents):
        # `.git` is a file in a worktree or submodule; `.toolstead` holds files, so it is a folder.
        if _is_folder(folder / ".toolstead") or os.path.lexists(folder / ".git"):
            return folder
    return start


def explain_wide_root(project: Path, environ: Mapping[str, str] | None = None) -> str:
    """Why no files are read below a project's root: it is `/`, the home folder, or holds that. Empty where they are.

    A client that starts a server anywhere must not give a model every file of the user.
    """
    try:
        home: Path | None = _home_folder(os.environ if environ is None else environ).resolve()
    except SettingsError:
        home = None  # a service's user may have none
    if project == Path(project.anchor):
        what = f"{project}, which is the whole machine"
    elif project == home:
        what = f"{project}, which is your home folder"
    elif home is not None and home.is_relative_to(project):
        what = f"{project}, which holds your home folder"
    else:
        return ""
    return (
        f"the project's root is {escape_unseen(what)}, and no files are read below it;"
        " start Toolstead in a project's folder, or name one with --project"
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # what this user may not look into is no place for their project
        return False


def _own_folder(own: str, cwd: Path, environ: Mapping[str, str]) -> Path:
    folder = _home_folder(environ) / own[2:] if own.startswith("~/") else cwd / own
    if os.path.lexists(folder) and not _is_folder(folder):
        raise SettingsError(
            key="",
            origin="environment TOOLSTEAD_HOME",
            reason=f"{str(folder)!r} is not a folder; it must name the folder for settings and data",
        )
    return folder.resolve()


def _xdg_folder(environ: Mapping[str, str], name: str, usual: str) -> Path:
    # The XDG specification: a relative path is invalid and has to be ignored.
    chosen = Path(environ.get(name, ""))
    return (chosen if chosen.is_absolute() else _home_folder(environ) / usual) / "toolstead"


def _home_folder(environ: Mapping[str, str]) -> Path:
    named = Path(environ.get("HOME", ""))
    if named.is_absolute():
        return named
    try:
        return Path.home()
    except RuntimeError:
        raise SettingsError(
            key="",
            origin="environment",
            reason="no home folder is known for this user; set HOME, or TOOLSTEAD_HOME to a folder of your choice",
        ) from None


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SettingsError(
            key="", origin="project", reason="the current folder does not exist any more; change to one that does"
        ) from None
