"""The layers of settings, lowest first: defaults, user, project, environment, Python, `--set`; and what they merge to.

`settings_for` is what a process calls; `load_settings` is the same with everything handed in.
What reads TOML is imported when there is TOML to read: a server without a file starts sooner.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolstead.app.masks import mask_value
from toolstead.app.places import Places
from toolstead.app.settings import (
    IN_EFFECT,
    OPEN_IN_EFFECT,
    OPEN_TABLES,
    PROFILES,
    Settings,
    find_key,
    is_union,
    known_keys,
    profile_keys,
)
from toolstead.app.settings_check import Leaf, OriginOf, checked_leaves
from toolstead.app.toml_text import (
    LARGEST,
    TOO_LARGE,
    KeyPath,
    find_excess,
    find_lines,
    parse_toml,
    read_toml,
    split_key,
    toml_key,
)
from toolstead.errors import SettingsError
from toolstead.nearest_names import find_nearest

PREFIX = "TOOLSTEAD_"
FIXED_NAMES = (
    "TOOLSTEAD_HOME",
    "TOOLSTEAD_TOOLS_DIR",
    "TOOLSTEAD_DATABASE_URL",
    "TOOLSTEAD_TOKEN",
    "TOOLSTEAD_REQUIRE",
)
"""The environment names with a single underscore; every other one is a mistake."""
MARK = "TOOLSTEAD_CALL"
"""Is in the environment of whatever a tool starts (`processes.mark`, which a server does not import at its start)."""

DEFAULT = "default"
GIVEN = "Toolstead(settings=…)"
SET = "--set"

_MEND = (
    "the project's settings count as you approved them: mend the file and run `toolstead trust`, or refuse them with"
    " `toolstead trust --revoke`"
)


logger = logging.getLogger(__name__)


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One effective value and its history.

    Attributes:
        key: The dotted key, as TOML writes it.
        path: The key's parts.
        value: The effective value; a secret is masked.
        origin: Where it was set; for a list that grows with every layer, all of them.
        origins: The same, one by one.
        overrode: The values it took the place of, nearest layer first, each with its origin.
        in_effect: Whether anything in this version reads it.
        masked: Whether the value shown is not the real one.
    """

    key: str
    path: KeyPath
    value: Any
    origin: str
    origins: tuple[str, ...] = ()
    overrode: tuple[tuple[Any, str], ...] = ()
    in_effect: bool = True
    masked: bool = False


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings a process runs with, and how they came about."""

    settings: Settings
    explained: tuple[Explained, ...]

    def explain_values(self) -> list[Explained]:
        """Every value with its origin, in the order of the documentation."""
        return list(self.explained)


def settings_for(
    places: Places,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
    approved_config: bytes | None = None,
) -> LoadedSettings:
    """Load the settings of a project as this process finds it.

    Args:
        places: The project's and the user's folders.
        environ: The environment; this process's own unless given.
        overrides: The values of `--set`, each `section.key=value`.
        given: The argument of `Toolstead(settings=…)`.
        approved_config: The project's own `config.toml` as the user approved it; the file itself is
            never read.

    Raises:
        SettingsError: A layer cannot be read, or has an unknown key or a bad value.
    """
    project_config = places.project / ".toolstead" / "config.toml"
    return load_settings(
        environ=os.environ if environ is None else environ,
        user_config=places.user / "config.toml",
        project_config=(project_config, approved_config) if approved_config is not None else None,
        overrides=overrides,
        given=given,
    )


def load_settings(
    *,
    environ: Mapping[str, str],
    user_config: Path | None,
    project_config: tuple[Path, bytes] | None,
    overrides: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Read every layer, check each separately, merge them.

    Args:
        environ: The environment; only names that begin with `TOOLSTEAD_` are looked at.
        user_config: The user's `config.toml`; it may be absent.
        project_config: The project's name and content, or None when it must not count.
        overrides: The values of `--set`, each `section.key=value`; a later one wins.
        given: The argument of `Toolstead(settings=…)`, nested as in TOML.

    Raises:
        SettingsError: A layer cannot be read, or has an unknown key or a bad value.
    """
    return merge_layers(
        [
            *(_from_file(user_config) if user_config is not None else ()),
            *(_from_project(*project_config) if project_config is not None else ()),
            *_from_environment(environ),
            *checked_leaves(given or {}, _constant_origin(GIVEN)),
            *(leaf for override in overrides for leaf in _from_override(override)),
        ]
    )


def reread_plugins(loaded: LoadedSettings, load: Callable[[], LoadedSettings]) -> LoadedSettings:
    """What a running process goes on with after a reload: the plugins' settings of now, all others as they were.

    Files that are not valid change nothing; that, and what needs a restart, is in the log.
    """
    try:
        fresh = load()
    except SettingsError as error:
        logger.warning("the settings of plugins stay as they were: %s", error)
        return loaded
    settings = msgspec.structs.replace(loaded.settings, plugins=fresh.settings.plugins)
    if settings != fresh.settings:
        logger.warning("settings changed that are not those of plugins; they apply after a restart")
    return msgspec.structs.replace(loaded, settings=settings)


def list_accesses(settings: Settings) -> dict[str, tuple[str, str]]:
    """What of the profiles a running server has read at its start."""
    return {name: (profile.token, profile.scope) for name, profile in settings.profiles.items()}


def environment_name(path: KeyPath) -> str:
    """Write a key as the environment does: `tools.timeout` is `TOOLSTEAD_TOOLS__TIMEOUT`."""
    return PREFIX + "__".join(path).upper() + ("" if find_key(path) is not None else "__<KEY>")


def _from_file(path: Path) -> list[Leaf]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingsError(key="", origin=str(path), reason=f"cannot be read: {error.strerror or error}") from None
    return checked_leaves(*read_document(path, data))


def _from_project(path: Path, data: bytes) -> list[Leaf]:
    try:
        return checked_leaves(*read_document(path, data))
    except SettingsError as error:
        raise SettingsError(key=error.key, origin=error.origin, reason=f"{error.reason}\n{_MEND}") from None


def read_document(path: Path, data: bytes) -> tuple[dict[str, Any], OriginOf]:
    """Read a settings file's content: its table, and where each value in it stands.

    Raises:
        SettingsError: It is no TOML, or beyond the bounds.
    """
    if len(data) > LARGEST:
        raise SettingsError(key="", origin=str(path), reason=TOO_LARGE)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            key="", origin=f"{path}:{line}", reason="is not UTF-8, as TOML must be; save it as UTF-8"
        ) from None
    table = parse_toml(text, str(path))
    lines = find_lines(text, table)

    def origin_of(where: tuple[str | int, ...]) -> str:
        # A key without a line is inside a table that has one.
        line = next((lines[upper] for end in range(len(where), 0, -1) if (upper := where[:end]) in lines), None)
        return f"{path}:{line}" if line is not None else str(path)

    return table, origin_of


def _from_environment(environ: Mapping[str, str]) -> Iterator[Leaf]:
    # Sorted, so that a name for a whole table comes before the names for its keys.
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        origin = f"environment {name}"
        if name in FIXED_NAMES or name == MARK:
            if name == "TOOLSTEAD_TOKEN" and environ[name]:
                yield from checked_leaves({"server": {"token": environ[name]}}, _constant_origin(origin))
            continue
        parts = name.removeprefix(PREFIX).split("__")
        if len(parts) < 2 or not all(parts):
            raise SettingsError(key="", origin=origin, reason=_unknown_name(name))
        if name != name.upper():
            raise SettingsError(
                key="", origin=origin, reason=f"settings in the environment are written in capitals: {name.upper()}"
            )
        path = tuple(part.lower() for part in parts)
        yield from checked_leaves(
            nest_value(path, parse_value(environ[name])), _constant_origin(origin), environment_name
        )


_PATHS = frozenset({("runtime", "scripted", "script"), ("runtime", "scripted", "folder")})
"""The settings that are a path."""


def _from_override(override: str) -> list[Leaf]:
    key = split_key(override)
    if key is None:
        shown = f"{override.partition('=')[0][:80]!r}"
        excess = find_excess(override)
        wrong = excess[1] if excess else "is not of the form section.key=value, such as tools.timeout=30"
        raise SettingsError(key="", origin=SET, reason=f"{shown} {wrong}")
    path, text = key
    value = parse_value(text)
    if path in _PATHS and isinstance(value, str) and value:  # as a shell means it; in a file, as its project does
        value = str(Path.cwd() / Path(value).expanduser())
    return checked_leaves(nest_value(path, value), _constant_origin(SET))


def _constant_origin(origin: str) -> OriginOf:
    return lambda _: origin


def parse_value(text: str) -> Any:
    """Read a value as TOML; what is no TOML value, or one beyond the bounds, is text."""
    document = read_toml(f"value = {text}")
    # A line break in the text could bring further keys along: then it is no value either.
    return document["value"] if document is not None and document.keys() == {"value"} else text


_OF_KUBERNETES = re.compile(r"TOOLSTEAD_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP)).*")


def _unknown_name(name: str) -> str:
    if _OF_KUBERNETES.fullmatch(name):
        return (
            "Kubernetes sets this for a service called toolstead: set `enableServiceLinks: false` in the pod's spec,"
            " or rename the service"
        )
    rest = name.removeprefix(PREFIX).lower()
    meant = [path for path in known_keys() if rest in (path[-1], "_".join(path))]
    if meant and "__" not in name:
        shown = " or ".join(environment_name(path) for path in meant[:3])
        return f"unknown name; did you mean {shown}? Settings are written TOOLSTEAD_<SECTION>__<KEY>"
    names = [*FIXED_NAMES, *(environment_name(path) for path in known_keys())]
    (nearest,) = find_nearest(name.upper(), names, cutoff=0)
    return f"unknown name; the nearest is {nearest} (settings are written TOOLSTEAD_<SECTION>__<KEY>)"


def merge_layers(leaves: Iterable[Leaf]) -> LoadedSettings:
    """Put the layers on top of the defaults, lowest first.

    Tables merge, lists replace, the lists of what is blocked grow with every layer.
    """
    given = {path: [Leaf(path=path, value=key.default, origin=DEFAULT)] for path, key in known_keys().items()}
    below: dict[KeyPath, dict[KeyPath, None]] = {}
    for leaf in leaves:
        if leaf.path[0] == PROFILES:
            _add_profile(given, leaf)
        elif leaf.path in known_keys():
            given[leaf.path].append(leaf)
        else:
            _add_open(given, below, leaf)
    tree: dict[str, Any] = {}
    explained: list[Explained] = []
    for path in _in_order(given):
        value, explanation = _settle_value(path, given[path])
        _plant_value(tree, path, value)
        explained.append(explanation)
    return LoadedSettings(settings=msgspec.convert(tree, Settings), explained=tuple(explained))


def _add_profile(given: dict[KeyPath, list[Leaf]], leaf: Leaf) -> None:
    """Add a leaf of a profile, whose keys all have their values as soon as anything names it."""
    name = leaf.path[1]
    for key in profile_keys().values():
        path = (PROFILES, name, key.path[-1])
        given.setdefault(path, [Leaf(path=path, value=key.default, origin=DEFAULT)])
    if leaf.path in given:
        given[leaf.path].append(leaf)


def _add_open(given: dict[KeyPath, list[Leaf]], below: dict[KeyPath, dict[KeyPath, None]], leaf: Leaf) -> None:
    """Add a leaf of an open table, where a value may take a table's place and the other way round.

    Args:
        given: The history of each key.
        below: For each table the keys that were ever given in it, so that thousands of keys are not searched for each.
        leaf: The leaf.
    """
    path = leaf.path
    if leaf.value == {} and any(other in given for other in below.get(path, ())):
        return
    history = given.pop(path, [])
    for other in below.pop(path, ()):
        rest = other[len(path) :]
        history.extend(msgspec.structs.replace(old, value=nest_value(rest, old.value)) for old in given.pop(other, ()))
    for depth in range(1, len(path)):
        history.extend(old for old in given.pop(path[:depth], ()) if old.value != {})
        below.setdefault(path[:depth], {})[path] = None
    given[path] = [*history, leaf]


def nest_value(path: KeyPath, value: Any) -> Any:
    """The tables that lead to a value, with it in the innermost."""
    for name in reversed(path):
        value = {name: value}
    return value


def _settle_value(path: KeyPath, history: list[Leaf]) -> tuple[Any, Explained]:
    """The effective value of a key, and what may be shown of how it came about."""
    name = ".".join(path)
    value, origins, overrode = history[-1].value, (history[-1].origin,), history[-2::-1]
    if is_union(path):
        value = list(dict.fromkeys(item for old in history for item in old.value))
        origins = tuple(dict.fromkeys(old.origin for old in history[1:])) or (DEFAULT,)
        overrode = []
    shown = mask_value(path, value)
    return value, Explained(
        key=toml_key(path),
        path=path,
        value=shown,
        origin=" + ".join(origins),
        origins=origins,
        overrode=tuple((mask_value(path, old.value), old.origin) for old in overrode),
        in_effect=name in IN_EFFECT or path[0] in OPEN_IN_EFFECT,
        masked=shown != value,
    )


def _in_order(paths: Collection[KeyPath]) -> list[KeyPath]:
    order: list[KeyPath] = []
    for section in Settings.__struct_fields__:
        found = [path for path in paths if path[0] == section]
        # A table's own values before its sub-tables, or it could not be written as TOML.
        order.extend(sorted(found, key=lambda path: (path[:-1], path[-1])) if section in OPEN_TABLES else found)
    return order


def _plant_value(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
