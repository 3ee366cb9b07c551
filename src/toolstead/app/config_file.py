"""`config.toml`, changed one key at a time: its comments, its order and everything else in it stay.

A change is made in the text, then the text is read again: only one that says exactly what was said before, with the
one value changed, and that the loader of settings accepts, is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.app.agent_reading import find_model_problem
from toolstead.app.layers import FIXED_NAMES, PREFIX, nest_value, parse_value, read_document
from toolstead.app.masks import mask_value
from toolstead.app.places import Places
from toolstead.app.private_file import lock_file, write_private
from toolstead.app.settings_check import checked_leaves
from toolstead.app.toml_text import KeyPath, find_comment, read_toml, split_key, toml_key, toml_value
from toolstead.app.trust.approved import ProjectTrust
from toolstead.errors import SettingsError

_BOM = "\ufeff"
_GONE = object()


class ConfigFile:
    """A settings file of the user or of a project. It may be absent."""

    def __init__(self, path: Path, data: Path) -> None:
        """Read nothing yet.

        Args:
            path: The file.
            data: The data folder, where the lock is: a lock beside the file would be a part of the project.
        """
        self.path = path
        self._lock = data / "config.toml"

    def set_value(self, key: str, text: str) -> Any:
        """Set a key; return its value, as TOML reads it.

        Args:
            key: Such as `tools.timeout`.
            text: The value, as after `--set`.

        Raises:
            SettingsError: The key is unknown, the value is wrong, or the file cannot be changed so.
        """
        path, value = find_path(key), parse_value(text)
        checked_leaves(nest_value(path, value), lambda _: "config set")
        if path == ("runtime", "model") and value and (problem := find_model_problem(str(value))):
            raise SettingsError(key=key, origin="config set", reason=problem)
        self._change(path, value)
        return value

    def unset_value(self, key: str) -> bool:
        """Remove a key; return whether the file had it. Raises like `set_value`."""
        return self._change(find_path(key), _GONE)

    def _change(self, path: KeyPath, value: Any) -> bool:
        # The file of a link is changed, not the link: dotfiles are often kept so.
        target = self.path.resolve()
        try:
            with lock_file(self._lock):
                target.parent.mkdir(parents=True, exist_ok=True)
                data = target.read_bytes() if target.exists() else b""
                table, _ = read_document(self.path, data)
                wanted = _with_value(table, path, value)
                if _find_value(table, path) == value:  # also where it is to go, and is not there
                    return False
                text = _edit_text(data.decode("utf-8"), path, value, wanted)
                if text is None:
                    raise SettingsError(
                        key=toml_key(path),
                        origin=str(self.path),
                        reason="stands where it cannot be changed alone, as in an inline table; edit the file",
                    )
                changed = text.encode()
                checked_leaves(*read_document(self.path, changed))
                mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
                if value is not _GONE and mask_value(path, value) != value:
                    mode &= 0o600  # a secret is for the user alone, whoever made the file
                write_private(target, changed, mode=mode)
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}"
            raise SettingsError(key="", origin=str(self.path), reason=reason) from None
        return True


class ConfigLayer(msgspec.Struct, frozen=True, kw_only=True):
    """Where settings come from.

    Attributes:
        name: The layer.
        path: The file, or the variable.
        exists: Whether it is there.
        state: Whether it counts, in words.
    """

    name: str
    path: str
    exists: bool
    state: str


def list_layers(places: Places, environ: Mapping[str, str] | None = None) -> list[ConfigLayer]:
    """The layers that may set something here, lowest first; a value's own history is `explain_values`."""
    environ = os.environ if environ is None else environ
    users, projects = places.user / "config.toml", places.project / ".toolstead" / "config.toml"
    trust = ProjectTrust(places)
    trust.refresh_approval()
    approved = trust.approved_config()
    if approved is None:
        state = "not approved: toolstead trust" if projects.exists() else "not there"
    elif projects.is_file() and projects.read_bytes() == approved:
        state = "counts, as approved"
    else:
        state = "the approved version counts; the file differs: toolstead trust"
    return [
        ConfigLayer(
            name="user", path=str(users), exists=users.exists(), state="counts" if users.exists() else "not there"
        ),
        ConfigLayer(name="project", path=str(projects), exists=projects.exists(), state=state),
        *(
            ConfigLayer(name="environment", path=name, exists=True, state="counts")
            for name in sorted(environ)
            if name.startswith(PREFIX) and name not in FIXED_NAMES
        ),
    ]


def find_path(key: str) -> KeyPath:
    """The parts of a key, such as `tools.timeout`.

    Raises:
        SettingsError: It is none.
    """
    found = split_key(f"{key} =")
    if found is None or found[1]:
        raise SettingsError(
            key="", origin="config set", reason=f"{key[:80]!r} is not of the form section.key, such as tools.timeout"
        )
    return found[0]


def _edit_text(text: str, path: KeyPath, value: Any, wanted: dict[str, Any]) -> str | None:
    """The first changed text that means what is wanted; None when none does."""
    mark = _BOM if text.startswith(_BOM) else ""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.removeprefix(_BOM).replace("\r\n", "\n").split("\n")
    for changed in _change_lines(lines, path, value):
        candidate = "\n".join(changed)
        if candidate and not candidate.endswith("\n"):
            candidate += "\n"
        if read_toml(candidate) == wanted:
            return mark + candidate.replace("\n", newline)
    return None


def _change_lines(lines: list[str], path: KeyPath, value: Any) -> Iterator[list[str]]:
    """Texts that may be what is wanted, best first; what is no TOML or means something else is not taken."""
    statements = list(_find_statements(lines))
    for table, start, end in statements:
        key = split_key(lines[start])
        if key is None or (*table, *key[0]) != path:
            continue
        if value is _GONE:
            yield [*lines[:start], *lines[end:]]
            continue
        name = lines[start][: lines[start].index("=", len(lines[start]) - len(key[1]) - 1)].rstrip()
        comment = find_comment(lines[end - 1])
        yield [*lines[:start], f"{name} = {toml_value(value)}{comment}", *lines[end:]]
    if value is _GONE:
        return
    assignment = f"{toml_key(path[-1:])} = {toml_value(value)}"
    places = [end for table, _, end in statements if table == path[:-1]]
    if places:  # below the last key of its table
        yield [*lines[: places[-1]], assignment, *lines[places[-1] :]]
    kept = lines[: len(lines) - next((n for n, line in enumerate(reversed(lines)) if line.strip()), len(lines))]
    yield [*kept, *([""] if kept else []), f"[{toml_key(path[:-1])}]", assignment, ""]
    dotted = f"{toml_key(path)} = {toml_value(value)}"
    for table, _, end in statements:  # where the table is written as dotted keys
        if table == ():
            yield [*lines[:end], dotted, *lines[end:]]


def _find_statements(lines: list[str]) -> Iterator[tuple[KeyPath, int, int]]:
    """Each header and each key with its value: the table it is in, its first line, and the line after it."""
    table: KeyPath = ()
    number = 0
    while number < len(lines):
        start, number = number, number + 1
        line = lines[start].strip()
        if line.startswith("["):
            opened = read_toml(line)
            path: list[str] = []
            inner: Any = opened
            while isinstance(inner, dict) and inner:
                ((name, inner),) = cast("dict[str, Any]", inner).items()
                path.append(name)
            table = tuple(path)
            yield table, start, number
        elif split_key(lines[start]) is not None:
            end = next((end for end in range(number, len(lines) + 1) if read_toml("\n".join(lines[start:end]))), None)
            number = end or number
            yield table, start, number


def _with_value(table: dict[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    """The table with one value changed; tables that this empties stay."""
    name, *rest = path
    if rest:
        inner = table.get(name, {})
        if not isinstance(inner, dict):  # a value is in the way, and the check of the whole file says so
            inner = {}
        return {**table, name: _with_value(cast("dict[str, Any]", inner), tuple(rest), value)}
    return {key: item for key, item in table.items() if key != name} | ({} if value is _GONE else {name: value})


def _find_value(table: dict[str, Any], path: KeyPath) -> Any:
    found: Any = table
    for name in path:
        found = cast("dict[str, Any]", found).get(name, _GONE) if isinstance(found, dict) else _GONE
    return found
