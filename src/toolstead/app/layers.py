"""The layers of settings, lowest first: defaults, user, project, environment, Python, `--set`.

`settings_for` is what a process calls; `load_settings` is the same with everything handed in.
What reads TOML is imported when there is TOML to read: a server without a file starts sooner.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolstead.app.effective_settings import LoadedSettings, merge_layers, nest_value
from toolstead.app.places import Places
from toolstead.app.settings import known_keys
from toolstead.app.settings_check import KeyPath, Leaf, OriginOf, checked_leaves
from toolstead.errors import SettingsError, find_nearest

PREFIX = "TOOLSTEAD_"
FIXED_NAMES = (
    "TOOLSTEAD_HOME",
    "TOOLSTEAD_TOOLS_DIR",
    "TOOLSTEAD_DATABASE_URL",
    "TOOLSTEAD_TOKEN",
    "TOOLSTEAD_REQUIRE",
)
"""The environment names with a single underscore; every other one is a mistake."""

GIVEN = "Toolstead(settings=…)"
SET = "--set"

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)")


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
    return load_settings(
        environ=os.environ if environ is None else environ,
        user_config=places.user_config,
        project_config=(places.project_config, approved_config) if approved_config is not None else None,
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
    leaves: list[Leaf] = []
    if user_config is not None:
        leaves.extend(_from_file(user_config))
    if project_config is not None:
        leaves.extend(_from_bytes(*project_config))
    leaves.extend(_from_environment(environ))
    leaves.extend(checked_leaves(given or {}, _said_by(GIVEN)))
    for override in overrides:
        leaves.extend(_from_override(override))
    return merge_layers(leaves)


def environment_name(path: KeyPath) -> str:
    """Write a key as the environment does: `tools.timeout` is `TOOLSTEAD_TOOLS__TIMEOUT`."""
    return PREFIX + "__".join(path).upper() + ("" if path in known_keys() else "__<KEY>")


def _from_file(path: Path) -> list[Leaf]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise SettingsError(key="", origin=str(path), reason=reason) from None
    return _from_bytes(path, data)


def _from_bytes(path: Path, data: bytes) -> list[Leaf]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = "is not UTF-8, as TOML must be; save it as UTF-8"
        raise SettingsError(key="", origin=f"{path}:{line}", reason=reason) from None
    return _from_text(path, text)


def _from_text(path: Path, text: str) -> list[Leaf]:
    import tomllib

    from toolstead.app.toml_keys import find_lines

    try:
        table = tomllib.loads(text)
        lines = find_lines(text, table)
    except RecursionError:
        raise SettingsError(key="", origin=str(path), reason="is nested too deeply to be read") from None
    except ValueError as error:  # TOMLDecodeError is one; a number of 5,000 digits is another
        raise _syntax_error(path, text, error) from None

    def origin_of(where: tuple[str | int, ...]) -> str:
        # A key without a line is inside a table that has one.
        line = next((lines[upper] for end in range(len(where), 0, -1) if (upper := where[:end]) in lines), None)
        return f"{path}:{line}" if line is not None else str(path)

    return checked_leaves(table, origin_of)


def _syntax_error(path: Path, text: str, error: ValueError) -> SettingsError:
    message = str(error)
    found = _AT_LINE.search(message)
    if found is not None:
        origin, message = f"{path}:{found[1]}", f"{message[: found.start()]} at column {found[2]}"
    elif "end of document" in message:
        origin = f"{path}:{text.rstrip().count(chr(10)) + 1}"
    else:
        origin = str(path)
    return SettingsError(key="", origin=origin, reason=f"is not valid TOML: {message}")


def _from_environment(environ: Mapping[str, str]) -> Iterator[Leaf]:
    # Sorted, so that a name for a whole table comes before the names for its keys.
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        origin = f"environment {name}"
        if name in FIXED_NAMES:
            if name == "TOOLSTEAD_TOKEN" and environ[name]:
                yield from checked_leaves({"server": {"token": environ[name]}}, _said_by(origin))
            continue
        parts = name.removeprefix(PREFIX).split("__")
        if len(parts) < 2 or not all(parts):
            raise SettingsError(key="", origin=origin, reason=_unknown_name(name))
        if name != name.upper():
            reason = f"settings in the environment are written in capitals: {name.upper()}"
            raise SettingsError(key="", origin=origin, reason=reason)
        path = tuple(part.lower() for part in parts)
        yield from checked_leaves(nest_value(path, _parse_value(environ[name])), _said_by(origin), environment_name)


def _from_override(override: str) -> list[Leaf]:
    from toolstead.app.toml_keys import split_key

    key = split_key(override)
    if key is None:
        shown = override.partition("=")[0][:80]
        reason = f"{shown!r} is not of the form section.key=value, such as tools.timeout=30"
        raise SettingsError(key="", origin=SET, reason=reason)
    path, value = key
    return checked_leaves(nest_value(path, _parse_value(value)), _said_by(SET))


def _said_by(origin: str) -> OriginOf:
    return lambda _: origin


def _parse_value(text: str) -> Any:
    """Read a value as TOML; what is no TOML value is text."""
    import tomllib

    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # A line break in the text could bring further keys along: then it is no value either.
    return document["value"] if document.keys() == {"value"} else text


def _unknown_name(name: str) -> str:
    names = [*FIXED_NAMES, *(environment_name(path) for path in known_keys())]
    (nearest,) = find_nearest(name.upper(), names, cutoff=0)
    return f"unknown name; the nearest is {nearest} (settings are written TOOLSTEAD_<SECTION>__<KEY>)"
