"""Writing files of tools and agents: the folder a new one goes to, how it gets there whole, and the user's editor."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shlex
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.app.places import Places, named_tools_folder
from toolstead.app.private_file import write_synced
from toolstead.errors import SettingsError, ToolsteadError

if TYPE_CHECKING:
    from toolstead.tools.sources.json_files import LoadedFile
    from toolstead.types.tool import ToolInfo

_USUAL_EDITORS = ("vi", "nano")


def authoring_folder(places: Places, *, in_project: bool, environ: Mapping[str, str] | None = None) -> Path:
    """Where a new tool file goes: into the project, else where the user's own files are read from.

    Raises:
        ToolsteadError: The project's folder is a link to elsewhere.
    """
    if in_project:
        return _project_folder(places, "tools")
    return named_tools_folder(os.environ if environ is None else environ) or places.user / "tools"


def agents_folder(places: Places, *, in_project: bool) -> Path:
    """Where a new agent's file goes: into the project, else into the user's folder.

    Raises:
        ToolsteadError: The project's folder is a link to elsewhere.
    """
    return _project_folder(places, "agents") if in_project else places.user / "agents"


def _project_folder(places: Places, name: str) -> Path:
    folder = places.project / ".toolstead" / name
    for part in (folder.parent, folder):
        if part.is_symlink():
            raise ToolsteadError(f"{part} is a link, and a project's own files are never read through one; remove it")
    return folder


def find_editor(*, at_terminal: bool, environ: Mapping[str, str] | None = None) -> list[str] | None:
    """The command of the user's editor, or None when there is none.

    Args:
        at_terminal: A person is there, so one of the usual editors will do where none is chosen.
        environ: The environment; this process's own unless given.

    Raises:
        SettingsError: `VISUAL` or `EDITOR` names something that cannot be started.
    """
    environ = os.environ if environ is None else environ
    path = environ.get("PATH")
    for variable in ("VISUAL", "EDITOR"):
        chosen = environ.get(variable, "")
        if not chosen.strip():
            continue
        try:
            command = shlex.split(chosen)
        except ValueError as error:
            raise SettingsError(
                key="",
                origin=f"environment {variable}",
                reason=f"{chosen!r} cannot be read as a command: {str(error).lower()}",
            ) from None
        if not command or shutil.which(command[0], path=path) is None:
            raise SettingsError(
                key="",
                origin=f"environment {variable}",
                reason=f"{chosen!r} begins with no program that can be found; name your editor, such as 'code --wait'",
            )
        return command
    usual = [found for name in _USUAL_EDITORS if (found := shutil.which(name, path=path))] if at_terminal else []
    return usual[:1] or None


def find_program(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Where a program is that a tool of a file would start, or None when it is not on the PATH."""
    return shutil.which(name, path=(os.environ if environ is None else environ).get("PATH"))


def is_variable_set(name: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether `${NAME}` in a tool file has a value in this environment."""
    return name in (os.environ if environ is None else environ)


def is_folder(project: Path, given: str) -> bool:
    """Whether a folder that a tool of a file names is there; relative to the project's root."""
    return (project / Path(given).expanduser()).is_dir()


def find_name_holder(
    name: str, path: Path, files: Iterable[LoadedFile], *, held: ToolInfo | None, is_hidden: bool
) -> str | None:
    """Who else has the name of a tool that a file is to hold: registered, hidden, or quarantined; None for nobody.

    Args:
        name: The tool's name.
        path: The file that is to hold it.
        files: The tool files that were read.
        held: The tool that the registry holds under this name.
        is_hidden: Whether that one is blocked or switched off.
    """
    for file in files:
        names = [*(tool.info.name for tool in file.tools), *(problem.tool_name for problem in file.problems)]
        if name in names and file.path != path:
            return str(file.path)
    if held is None or held.provenance.origin == str(path):
        return None
    if is_hidden:
        return "a tool that is blocked or switched off here"
    return f"{held.provenance.source} {held.provenance.origin}"


def add_file(path: Path, data: bytes) -> None:
    """Add a file, whole from its first moment, and never over another one; its folder is made.

    Raises:
        ToolsteadError: There is one already, or it cannot be written.
    """
    with _written_aside(path, data) as aside:
        _move_unless_there(aside, path)


def put_format_schema(folder: Path) -> None:
    """Put the schema that editors find beside tool files into their folder. Raises ToolsteadError."""
    from toolstead.tools.sources.json_draft import SCHEMA_FILE
    from toolstead.tools.sources.json_format import format_schema

    put_file(folder / SCHEMA_FILE, (json.dumps(format_schema(), indent=2) + "\n").encode())


def put_file(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Make a file hold this, whole at every moment; one that does already is left alone. Its folder is made.

    Args:
        path: The file. Where it is a link, the link itself is replaced.
        data: Its content.
        mode: Who may read and write it, as far as the umask allows.

    Raises:
        ToolsteadError: It cannot be written.
    """
    with suppress(OSError):
        if path.read_bytes() == data:
            return
    with _written_aside(path, data, mode) as aside:
        aside.replace(path)


@contextmanager
def _written_aside(path: Path, data: bytes, mode: int = 0o666) -> Generator[Path]:
    """A hidden file beside `path`, written and synced, to be moved there; no reader of tool files looks at it.

    Raises:
        ToolsteadError: It cannot be written or moved.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolsteadError(f"the folder {path.parent} cannot be made: {error.strerror or error}") from None
    aside = path.with_name(f".{path.name.lstrip('.')}.{secrets.token_hex(4)}.new")
    try:
        write_synced(aside, data, mode)
        yield aside
    except FileExistsError:
        raise ToolsteadError(f"{path} exists already; edit that file, or choose another name") from None
    except OSError as error:
        raise ToolsteadError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            aside.unlink()


def _move_unless_there(aside: Path, path: Path) -> None:
    """Give a file its name in one step that fails when the name is taken; a file system without links needs two."""
    try:
        os.link(aside, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        aside.rename(path)
