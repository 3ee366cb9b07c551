"""What changes in a client's configuration when it is connected, or not any more: worked out, checked, then written.

The new text is read again before it is written: everything but our own entry has to be what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolstead.app.connect.clients import Home, McpClient, Scope
from toolstead.app.connect.json_text import parse_json, remove_value, set_value
from toolstead.app.connect.kept_file import (
    FoundFile,
    find_copies,
    lock_folder,
    read_file,
    replace_file,
)
from toolstead.app.connect.target import PLACES, Target, read_target, take_table
from toolstead.app.connect.toml_table import remove_table, set_table
from toolstead.app.toml_text import parse_toml, toml_key, toml_value
from toolstead.errors import ClientConfigError, SettingsError

OURS = "toolstead"
"""The name of our entry, unless another is asked for."""
_STARTED = frozenset({"command", "args", "env", "environment", "cwd", "envFile", "env_vars"})
_ADDRESSES = frozenset({"url", "httpUrl", "serverUrl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An entry in the configuration of a client.

    Attributes:
        client: The client.
        scope: For all projects of the user, or for one.
        path: The file.
        root: The folder that stays, whatever is taken out: the project, the home, or one that a variable names.
        name: The name of the entry.
    """

    client: McpClient
    scope: Scope
    path: Path
    root: Path
    name: str = OURS

    @property
    def removal_command(self) -> str:
        """The command that takes the entry out."""
        named = f" --name {self.name}" if self.name != OURS else ""
        scope = " --scope project" if self.scope == "project" else ""
        return f"toolstead connect {self.client.name}{named}{scope} --remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How a file changes.

    Attributes:
        found: The file as it is.
        data: What it is to hold; None where it is to go.
        entry: The entry that will be in it, None where there will be none.
        before: The entry that was in it.
    """

    found: FoundFile
    data: bytes | None
    entry: Mapping[str, Any] | None
    before: Mapping[str, Any] | None

    @property
    def is_needed(self) -> bool:
        """Whether anything changes."""
        return self.data != self.found.data


def find_place(client: McpClient, scope: Scope, home: Home, project: Path, name: str = OURS) -> Place:
    """Where a client keeps the entry.

    Raises:
        ClientConfigError: It has no configuration for one project.
    """
    if scope == "project" and not client.project_file:
        raise ClientConfigError(f"{client.title} has no configuration for one project; leave --scope project out")
    path = client.user_file(home) if scope == "user" else project / client.project_file
    if client.has_two_names and not path.exists():
        other = path.with_suffix(".json" if path.suffix == ".jsonc" else ".jsonc")
        path = other if other.exists() else path
    named = [Path(value) for value in home.environ.values() if value.startswith("/")]
    roots = [project] if scope == "project" else [folder for folder in (home.folder, *named) if folder in path.parents]
    root = max(roots, key=lambda folder: len(folder.parts), default=path.parent)
    return Place(client=client, scope=scope, path=path, root=root, name=name)


def read_entry(place: Place) -> Mapping[str, Any] | None:
    """The entry as it is; None where there is none.

    Raises:
        ClientConfigError: The file cannot be read.
    """
    _, document = _read_document(place, read_file(place.path))
    return _find_entry(place, document)


def find_entries(client: McpClient, scope: Scope, home: Home, project: Path) -> list[tuple[Place, Mapping[str, Any]]]:
    """All servers that a client has in one of its files, ours or not.

    Raises:
        ClientConfigError: The file cannot be read.
    """
    place = find_place(client, scope, home, project)
    _, document = _read_document(place, read_file(place.path))
    _find_entry(place, document)
    servers: Mapping[str, Any] = document.get(client.table) or {}
    return [(replace(place, name=name), entry) for name, entry in servers.items() if isinstance(entry, Mapping)]


def find_stronger(place: Place, home: Home, project: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Entries of the same name that count instead of this one: where each holds, and what it says.

    Raises:
        ClientConfigError: A file cannot be read.
    """
    found: list[tuple[str, Mapping[str, Any]]] = []
    if place.client.name == "claude-code":  # `claude mcp add` without --scope writes into its own list of projects
        user = find_place(place.client, "user", home, project)
        folders = take_table(_read_document(user, read_file(user.path))[1].get("projects"))
        for folder, kept in folders.items():
            entry = take_table(take_table(kept).get("mcpServers")).get(place.name)
            if isinstance(entry, Mapping) and (place.scope == "user" or folder == str(project)):
                found.append((folder, cast("Mapping[str, Any]", entry)))
    return found


def make_entry(place: Place, target: Target, *, is_free: bool) -> dict[str, Any]:
    """A new entry for a target; `is_free` lets the client call the tools without asking."""
    client = place.client
    return {**client.make_entry(target), **client.make_defaults(target), **(client.free_entry if is_free else {})}


def plan_connection(place: Place, target: Target, *, is_free: bool = False) -> Change:
    """How the file changes so that the client starts, or reaches, a target.

    Raises:
        ClientConfigError: The file cannot be read or changed, or another server has the name.
    """
    found = read_file(place.path)
    text, document = _read_document(place, found)
    before = _find_entry(place, document)
    _check_ours(place, before, target)
    if before is None:
        entry = make_entry(place, target, is_free=is_free)
    else:
        entry = _renew_entry(place, before, target, is_free=is_free)
    base = (place.client.table, place.name)
    dropped = [key for key in before or {} if key not in entry]
    if place.client.language == "toml":
        fresh = set_table(text, base, entry, dropped)
    elif before is None:
        fresh = set_value(text, base, entry)
    else:
        fresh = text
        for key in dropped:
            fresh = remove_value(fresh, (*base, key))
        for key, value in entry.items():
            if key not in before or before[key] != value:
                fresh = set_value(fresh, (*base, key), value)
    return _check_change(place, found, fresh, entry=entry, before=before)


def _renew_entry(place: Place, before: Mapping[str, Any], target: Target, *, is_free: bool) -> dict[str, Any]:
    """An entry that leads to a target now, and has everything else that a person put into it, or took out of it."""
    client, old = place.client, read_target(before) or target
    entry = dict(before)
    if target.url and not old.url:  # what belongs to a command
        entry = {key: value for key, value in entry.items() if key not in {"type", *_STARTED}}
        for key, value in client.make_defaults(old).items():
            if entry.get(key) == value:
                del entry[key]
        entry = {**client.make_defaults(target), **entry}
    for key in _ADDRESSES:
        entry.pop(key, None)
    if target.url:
        _forget_token(entry)
    written = client.make_entry(target)
    for key in ("env", "environment", "headers"):
        kept = {name: value for name, value in take_table(entry.get(key)).items() if name not in PLACES}
        if kept or key in written:
            written[key] = {**kept, **written.get(key, {})}
        else:
            entry.pop(key, None)
    if "env_vars" in written:
        kept_names: list[Any] = entry.get("env_vars") or []
        written["env_vars"] = [*kept_names, *(name for name in written["env_vars"] if name not in kept_names)]
    # Keys keep their order, so that a line is changed where it stands.
    return {**entry, **written, **(client.free_entry if is_free else {})}


def _forget_token(entry: dict[str, Any]) -> None:
    """Take the reference to a token out of an entry, in the ways in which we write it."""
    entry.pop("bearer_token_env_var", None)
    if entry.get("oauth") is False:
        del entry["oauth"]
    headers = take_table(entry.get("headers"))
    if headers and read_target({"url": "_", "headers": headers}) != Target(url="_"):
        entry["headers"] = {name: value for name, value in headers.items() if name != "Authorization"}


def plan_removal(place: Place) -> Change:
    """How the file changes so that the entry is gone; to what it was before, where nothing else has changed since.

    Raises:
        ClientConfigError: The file cannot be read or changed, or the entry is another server's.
    """
    found = read_file(place.path)
    text, document = _read_document(place, found)
    before = _find_entry(place, document)
    if before is None:
        return Change(found=found, data=found.data, entry=None, before=None)
    _check_ours(place, before)
    client = place.client
    if client.language == "toml":
        fresh = remove_table(text, (client.table, place.name))
    else:
        unpruned = remove_value(text, (client.table, place.name))
        is_empty = parse_json(unpruned, comments=True).get(client.table) == {}
        fresh = remove_value(unpruned, (client.table,)) if is_empty else unpruned
        if any(path.read_bytes() == _encode_text(unpruned, found) for path in find_copies(found)):
            fresh = unpruned
    change = _check_change(place, found, fresh, entry=None, before=before)
    if fresh.strip() in ("", "{}") and all(_find_ours(place, copy) for copy in find_copies(found)):
        # It was made for our entry: it was never there without one of ours.
        return replace(change, data=None)
    return change


def _find_ours(place: Place, path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Our entries in a file."""
    try:
        servers = take_table(_read_document(place, read_file(path))[1].get(place.client.table))
    except ClientConfigError:
        return []
    tables = {name: take_table(entry) for name, entry in servers.items()}
    targets = {name: read_target(entry) for name, entry in tables.items()}
    return [(name, entry) for name, entry in tables.items() if (found := targets[name]) is not None and found.is_ours]


def _can_write_again(place: Place, path: Path) -> bool:
    """Whether a file holds nothing but what `toolstead connect` wrote, so that a copy of it is worth nothing."""
    try:
        document = _read_document(place, read_file(path))[1]
    except ClientConfigError:
        return False
    entries = dict(_find_ours(place, path))
    for entry in entries.values():
        target = read_target(entry) or Target()
        written = [make_entry(place, target, is_free=is_free) for is_free in (False, True)]
        if entry not in written or not target.environ.keys() <= set(PLACES):
            return False
    return document == {place.client.table: entries}


def write_change(place: Place, change: Change) -> Path | None:
    """Write what was worked out; gives the path of the copy of what the file held, None where there was no file.

    Raises:
        ChangedMeanwhileError: The file is another one by now.
        ClientConfigError: It cannot be changed.
    """
    # Claude Code writes its file all the time, under this lock.
    has_lock = place.client.name == "claude-code" and place.scope == "user"
    with lock_folder(place.path) if has_lock else nullcontext():
        copy = replace_file(change.found, change.data, mode=0o600 if place.scope == "user" else 0o666)
    if change.data is not None:
        return copy
    for old in find_copies(change.found):
        if _can_write_again(place, old):
            with suppress(OSError):
                old.unlink()
    with suppress(OSError):  # a folder holds something else
        for folder in change.found.target.parents:
            if place.root not in folder.parents:
                break
            folder.rmdir()
    return copy if copy is not None and copy.exists() else None


def show_entry(place: Place, entry: Mapping[str, Any]) -> str:
    """The entry alone, as it stands in an otherwise empty file."""
    if place.client.language != "toml":
        whole = {place.client.table: {place.name: entry}}
        return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
    lines = [f"{toml_key([key])} = {toml_value(value)}" for key, value in entry.items()]
    return "\n".join([f"[{toml_key((place.client.table, place.name))}]", *lines])


def _check_ours(place: Place, entry: Mapping[str, Any] | None, wanted: Target | None = None) -> None:
    """Refuse to touch a server that is not ours, or one of ours that leads to another server or serves another file.

    Raises:
        ClientConfigError: It is.
    """
    if entry is None:
        return
    target = read_target(entry)
    if target is None or not target.is_ours:
        leads = f" ({target.describe()})" if target is not None else ""
        raise ClientConfigError(
            f"{place.path} has another server called {place.name!r}{leads}, which is not Toolstead's; choose another"
            " --name, or take it out by hand first"
        )
    is_same = wanted is None or urlsplit(target.url)[:2] == urlsplit(wanted.url)[:2]
    if target.url and not is_same:  # an address may be anybody's, and what belongs to it would be lost
        raise ClientConfigError(
            f"{place.path} has {place.name!r} for {target.url} already; choose another --name, or take that out first:"
            f" {place.removal_command}"
        )
    file = target.python_file
    if wanted is not None and wanted.python_file not in ("", file) and file and Path(file).exists():
        raise ClientConfigError(
            f"{place.path} has {place.name!r} for another file already, {file}; choose another --name"
        )


def _read_document(place: Place, found: FoundFile) -> tuple[str, dict[str, Any]]:
    try:
        text = (found.data or b"").decode("utf-8").removeprefix("\ufeff")
        if place.client.language == "toml":
            return text, parse_toml(text, "")
        language = place.client.language
        return text, parse_json(text, comments=language != "json", commas=language == "jsonc")
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except SettingsError as error:
        line = error.origin.strip(":")
        why = f"{f'line {line}: ' if line else ''}{error.reason.removeprefix('is not valid TOML: ')}"
    except ClientConfigError as error:
        why = str(error)
    kind = "TOML" if place.client.language == "toml" else "JSON"
    raise ClientConfigError(
        f"{place.path} cannot be read as {kind}, so it stays as it is: {why}. {place.client.title} cannot read it"
        " either; correct it first"
    )


def _find_entry(place: Place, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    servers: Any = document.get(place.client.table)
    if servers is not None and not isinstance(servers, Mapping):
        raise ClientConfigError(f"{place.path} stays as it is: its {place.client.table!r} is no table of servers")
    if servers is None and place.client.table in document:
        raise ClientConfigError(
            f'{place.path} stays as it is: its "{place.client.table}" is null; make it {{}}, or take it out'
        )
    entry: Any = cast("Mapping[str, Any]", servers or {}).get(place.name)
    if entry is not None and not isinstance(entry, Mapping):
        raise ClientConfigError(f"{place.path} stays as it is: its {place.name!r} is no server")
    return cast("Mapping[str, Any] | None", entry)


def _check_change(
    place: Place,
    found: FoundFile,
    fresh: str,
    *,
    entry: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
) -> Change:
    """Read the new text: our entry has to be in it, and everything else as it was.

    Raises:
        ClientConfigError: It is not so.
    """
    data = _encode_text(fresh, found)
    document = _read_document(place, found)[1]
    try:
        after = _read_document(place, FoundFile(path=found.path, target=found.target, data=data))[1]
    except ClientConfigError:
        after = {}
    if _find_entry(place, after) != entry or _drop_entry(place, after) != _drop_entry(place, document):
        raise ClientConfigError(
            f"{place.path} stays as it is: it is written in a way that cannot be edited safely. Give"
            f" {place.client.table!r} its usual form, each server in a table of its own, and try again"
        )
    return Change(found=found, data=data, entry=entry, before=before)


def _drop_entry(place: Place, document: Mapping[str, Any]) -> dict[str, Any]:
    servers = {key: value for key, value in document.get(place.client.table, {}).items() if key != place.name}
    rest = {key: value for key, value in document.items() if key != place.client.table}
    return {**rest, place.client.table: servers} if servers else rest


def _encode_text(text: str, found: FoundFile) -> bytes:
    mark = b"\xef\xbb\xbf" if (found.data or b"").startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8")
