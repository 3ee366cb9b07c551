"""The keys that `toolstead keys` keeps for its user: in the system's keyring if there is one, else in `keys.json`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from toolstead.app.key_file import KeyFile
from toolstead.app.keys import ENVIRONMENT, FILE, KEYRING, KEYRING_FAULTS, SERVICE, key_providers, known_keys
from toolstead.errors import StateError, ToolsteadError
from toolstead.nearest_names import suggest

LONGEST_KEY = 4096
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_ALIKE = 0.75
"""How alike the first word of a misspelled variable is, at least: they all end with the same words."""
_LIKE = 0.7
"""How alike a misspelled provider is, at least: their names are short, and share their letters."""
_SHOWN = 4
_SHORTEST_SHOWN = 16
"""Of a shorter key nothing is shown: its end would be too much of it."""


class FoundKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, as it may be shown.

    Attributes:
        name: The name of its variable.
        origin: Where it is, in words.
        ending: Its last characters; empty where the key is short.
        used: Whether it counts; the environment comes before the file, and the file before the keyring.
    """

    name: str
    origin: str
    ending: str
    used: bool


class KeptKeys:
    """The keys of this user, from everywhere they may be."""

    def __init__(self, data: Path, *, environ: Mapping[str, str] | None = None) -> None:
        """Read nothing yet.

        Args:
            data: The data folder.
            environ: The environment; this process's own unless given.
        """
        self._file = KeyFile(data)
        self._environ = os.environ if environ is None else environ

    def is_overridden(self, name: str) -> bool:
        """Whether the environment has this key, which counts before every other."""
        return bool(self._environ.get(name, "").strip())

    def set_key(self, name: str, key: str) -> str:
        """Keep a key; return where, in words. It may wait for a person who unlocks the keyring.

        Raises:
            StateError: It can be kept nowhere.
        """
        self._file.read()  # what is wrong with the file is found before anything is changed
        if not self._has_keyring():
            self._file.record_key(name, key=key)
            return str(self._file.path)
        import keyring
        from keyring.errors import KeyringError

        try:
            keyring.set_password(SERVICE, name, key)
        except KeyringError as error:
            raise StateError(
                f"the keyring does not take the key: {error}; unlock it, or set PYTHON_KEYRING_BACKEND="
                f"keyring.backends.null.Keyring, and the key is kept in {self._file.path}"
            ) from None
        self._file.record_key(name, in_keyring=True)
        return KEYRING

    def remove_key(self, name: str) -> list[str]:
        """Forget a key; return where it was.

        Raises:
            StateError: The file or the keyring cannot be used.
        """
        found = [str(self._file.path)] if name in self._file.read().keys else []
        if self._has_keyring() and self._read_keyring(name):
            import keyring
            from keyring.errors import KeyringError

            try:
                keyring.delete_password(SERVICE, name)
            except KeyringError as error:
                raise StateError(f"the keyring does not remove {name}: {error}") from None
            found.append(KEYRING)
        if found:
            self._file.record_key(name)
        return found

    def list_keys(self) -> list[FoundKey]:
        """Every key of every place; those of one name stand together, the one that counts first."""
        stored, has_keyring = self._file.read(), self._has_keyring()
        found: list[FoundKey] = []
        for name in known_keys():
            places = {
                ENVIRONMENT: self._environ.get(name, "").strip(),
                FILE: stored.keys.get(name, "").strip(),
                KEYRING: self._read_keyring(name) if has_keyring else "",
            }
            held = [(origin, key) for origin, key in places.items() if key]
            found += [
                FoundKey(name=name, origin=origin, ending=_show_ending(key), used=number == 0)
                for number, (origin, key) in enumerate(held)
            ]
        return found

    def _has_keyring(self) -> bool:
        if find_spec("keyring") is None:
            return False
        import keyring

        try:
            priority: Any = keyring.get_keyring().priority
            return priority >= 1  # as the package recommends; below are those that refuse, or keep nothing
        except KEYRING_FAULTS as error:
            raise StateError(f"the keyring cannot be used: {error}; see PYTHON_KEYRING_BACKEND") from None

    def _read_keyring(self, name: str) -> str:
        import keyring
        from keyring.errors import KeyringError

        try:
            return (keyring.get_password(SERVICE, name) or "").strip()
        except KeyringError as error:
            raise StateError(f"the keyring cannot be asked for {name}: {error}") from None


def find_key_name(text: str) -> str:
    """The name of a key's variable, from that name or from the provider's.

    Raises:
        ToolsteadError: There is no such provider or key; the text has the nearest.
    """
    providers = key_providers()
    if text.upper() in known_keys():
        return text.upper()
    if text.lower() in providers:
        return providers[text.lower()]
    if _VARIABLE.fullmatch(text) and not _names_vendor(text):
        raise ToolsteadError(
            f"{text[:100]!r} is no key of a model or of search; tools take secrets from the environment: "
            "docs/tools.md#secrets"
        )
    hint = suggest(
        text.lower(),
        [*providers, *map(str.lower, known_keys())],
        show=_spell_name,
        cutoff=0.6 if "_" in text else _LIKE,
    )
    known = f"the providers are {', '.join(sorted(providers))}; tools take their own secrets from the environment"
    raise ToolsteadError(f"there is no key {text[:100]!r}; {hint or known}")


def check_key(name: str, text: str) -> str:
    """A key as it is kept, without the spaces around it.

    Raises:
        ToolsteadError: It is none.
    """
    key = text.strip()
    if not key:
        raise ToolsteadError(f"no key was given; {name} is unchanged")
    if key.partition("=")[0].removeprefix("export").strip() == name:
        raise ToolsteadError(f"that is a whole assignment; give what stands after {name}=")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ToolsteadError(
            f"that is no key: it has spaces, line breaks or letters that no key has; {name} is unchanged"
        )
    if len(key) > LONGEST_KEY:
        raise ToolsteadError(f"that is no key: it has more than {LONGEST_KEY:,} characters; {name} is unchanged")
    return key


def _names_vendor(variable: str) -> bool:
    """Whether a variable begins like one of the keys, and is thus a slip rather than something else."""
    first_words = {name.partition("_")[0] for name in known_keys()}
    return bool(get_close_matches(variable.partition("_")[0], first_words, 1, _ALIKE))


def _spell_name(name: str) -> str:
    return repr(name.upper() if name.upper() in known_keys() else name)


def _show_ending(key: str) -> str:
    return key[-_SHOWN:] if len(key) >= _SHORTEST_SHOWN else ""
