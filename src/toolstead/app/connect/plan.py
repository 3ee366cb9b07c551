"""What changes in a client's configuration when it is connected, or not any more: worked out, checked, then written.

The new text is read again before it is written: everything but our own entry has to be what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

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
from toolstead.app.connect.target import PLACES, Target, read_target
from toolstead.app.connect.toml_table import remove_table, set_table
from toolstead.app.toml_text import parse_toml, toml_key, toml_value
from toolstead.errors import ClientConfigError, SettingsError

OURS = "toolstead"
"""The name of our entry, unless another is asked for."""
_KINDS = frozenset(
    {"type", "command", "args", "env", "environment", "cwd", "url", "httpUrl", "serverUrl", "headers", "oauth"}
    | {"bearer_token_env_var", "http_headers", "env_http_headers", "env_vars"}  # Codex
)
"""Keys that say what is started or reached: those of another kind of server go, all others stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An entry in the configuration of a client.

    Attributes:
        client: The client.
        scope: For all projects of the user, or for one.
        path: The file.
        name: The name of the entry.
    """

    client: McpClient
    scope: Scope
    path: Path
    name: str = OURS


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
    return Place(client=client, scope=scope, path=path, name=name)


def read_entry(place: Place) -> Mapping[str, Any] | None:
    """The entry as it is; None where there is none.

    Raises:
        ClientConfigError: The file cannot be read.
    """
    _, document = _read_document(place, read_file(place.path))
    return _find_entry(place, document)


def make_entry(place: Place, target: Target, *, is_free: bool) -> dict[str, Any]:
    """What a client writes for a target; `is_free` lets it call the tools without asking."""
    return {**place.client.make_entry(target), **(place.client.free_entry if is_free else {})}


def plan_connection(place: Place, target: Target, *, is_free: bool = False) -> Change:
    """How the file changes so that the client starts, or reaches, a target.

    Raises:
        ClientConfigError: The file cannot be read or changed, or another server has the name.
    """
    found = read_file(place.path)
    text, document = _read_document(place, found)
    before = _find_entry(place, document)
    _check_ours(place, before)
    wanted = make_entry(place, target, is_free=is_free)
    dropped = [key for key in before or {} if key in _KINDS and key not in wanted]
    for key in ("env", "environment"):
        kept = {**(before or {}).get(key, {})} if target.command else {}
        kept = {name: value for name, value in kept.items() if name not in PLACES}
        if kept:
            wanted[key] = {**kept, **wanted.get(key, {})}
            dropped = [one for one in dropped if one != key]
    if before is not None and before.get("enabled") is False:
        wanted["enabled"] = True
    entry = {**{key: value for key, value in (before or {}).items() if key not in dropped}, **wanted}
    if place.client.language == "toml":
        fresh = set_table(text, (place.client.table, place.name), wanted, dropped)
    else:
        fresh = text
        base = (place.client.table, place.name)
        if before is None:
            fresh = set_value(fresh, base, wanted)
        for key in dropped:
            fresh = remove_value(fresh, (*base, key))
        for key, value in wanted.items():
            if before is not None and (key not in before or before[key] != value):
                fresh = set_value(fresh, (*base, key), value)
    return _check_change(place, found, fresh, entry=entry, before=before)


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
    if fresh.strip() in ("", "{}") and not find_copies(found):  # it was made for our entry
        return replace(change, data=None)
    return change


def write_change(place: Place, change: Change) -> Path | None:
    """Write what was worked out; gives the path of the copy of what the file held, None where there was no file.

    Raises:
        ChangedMeanwhileError: The file is another one by now.
        ClientConfigError: It cannot be changed.
    """
    # Claude Code writes its file all the time, under this lock.
    has_lock = place.client.name == "claude-code" and place.scope == "user"
    with lock_folder(place.path) if has_lock else nullcontext():
        return replace_file(change.found, change.data, mode=0o600 if place.scope == "user" else 0o666)


def show_entry(place: Place, entry: Mapping[str, Any]) -> str:
    """The entry alone, as it stands in an otherwise empty file."""
    if place.client.language != "toml":
        whole = {place.client.table: {place.name: entry}}
        return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
    lines = [f"{toml_key([key])} = {toml_value(value)}" for key, value in entry.items()]
    return "\n".join([f"[{toml_key((place.client.table, place.name))}]", *lines])


def _check_ours(place: Place, entry: Mapping[str, Any] | None) -> None:
    """Refuse to touch the server of somebody else.

    Raises:
        ClientConfigError: It is.
    """
    if entry is None or place.name == OURS:
        return
    target = read_target(entry)
    if target is None or not target.is_ours:
        raise ClientConfigError(
            f"{place.path} has another server called {place.name!r}, which is not Toolstead's; choose another --name"
        )


def _read_document(place: Place, found: FoundFile) -> tuple[str, dict[str, Any]]:
    try:
        text = (found.data or b"").decode("utf-8").removeprefix("\ufeff")
        if place.client.language == "toml":
            return text, parse_toml(text, "")
        return text, parse_json(text, comments=place.client.language == "jsonc")
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
            f"{place.path} stays as it is: it is written in a way that cannot be edited safely. Change it by hand:"
            f" `toolstead connect {place.client.name} --print` shows the entry {place.client.table}.{place.name}"
        )
    return Change(found=found, data=data, entry=entry, before=before)


def _drop_entry(place: Place, document: Mapping[str, Any]) -> dict[str, Any]:
    servers = {key: value for key, value in document.get(place.client.table, {}).items() if key != place.name}
    rest = {key: value for key, value in document.items() if key != place.client.table}
    return {**rest, place.client.table: servers} if servers else rest


def _encode_text(text: str, found: FoundFile) -> bytes:
    mark = b"\xef\xbb\xbf" if (found.data or b"").startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8")
