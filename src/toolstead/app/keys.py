"""Keys and addresses of model APIs: from the environment, else from `keys.json`, else from the system's keyring.

A key is never shown or handed to a tool's child: those get an allow-list of the environment.
Addresses come from the environment alone, so that no project's file can send a key elsewhere.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolstead.app.key_file import KeyFile, StoredKeys
from toolstead.app.watching import POLL_SECONDS, PollingWatcher, Stamp, read_stamp
from toolstead.errors import StateError

logger = logging.getLogger(__name__)

KEYRING_FAULTS = (ImportError, AttributeError, ValueError, RuntimeError)
"""What the package raises where its own configuration names a keyring that is none."""

SERVICE = "toolstead"
"""Under which name keys are kept in the keyring."""

ENVIRONMENT, FILE, KEYRING = "the environment", "keys.json", "the keyring"
"""Where a key comes from, in words; the first one that has it counts."""


class Keys:
    """Looks names up. Looking never waits: the keyring, which may be slow, is asked by `load` alone.

    Attributes:
        environ: The user's environment.
        stamp: What the file was when it was read.
    """

    def __init__(self, environ: Mapping[str, str], file: KeyFile | None = None) -> None:
        """Read the file, if there is one.

        Args:
            environ: The user's environment.
            file: What `toolstead keys set` writes.
        """
        self.environ = environ
        self.stamp: Stamp | None = None
        self._kept: dict[str, str] = {}
        self._stored: Mapping[str, str] = {}
        if file is not None:
            self.stamp = read_stamp(file.path)
            try:
                self.apply_stored(file.read())
            except StateError as error:
                logger.warning("%s", error)

    def __call__(self, name: str) -> str | None:
        """The value of an environment's name; None when there is none, or an empty one."""
        return self.environ.get(name, "").strip() or self._stored.get(name) or self._kept.get(name) or None

    def origin_of(self, name: str) -> str:
        """Where the value comes from, in words."""
        if self.environ.get(name, "").strip():
            return ENVIRONMENT
        return FILE if name in self._stored else KEYRING

    def describe_set(self, name: str) -> str:
        """Why a name has a value, as a reason for a choice."""
        origin = self.origin_of(name)
        return f"{name} is set" if origin == ENVIRONMENT else f"{name} is in {origin}"

    def apply_stored(self, stored: StoredKeys) -> None:
        """Take what the file holds now; the keyring will be asked again."""
        known = known_keys() if stored.keys else ()
        self._stored = {name: stored.keys[name].strip() for name in known if stored.keys.get(name, "").strip()}
        self._kept = {}

    def find_unasked(self, names: Iterable[str]) -> list[str]:
        """Names without a value for which the keyring was not asked yet."""
        wanted = [name for name in names if self(name) is None and name not in self._kept]
        return wanted if wanted and find_spec("keyring") is not None else []

    def load(self, names: Iterable[str]) -> None:
        """Ask the keyring for names that have no value, each once. It may wait for a person."""
        wanted = self.find_unasked(names)
        if not wanted:
            return
        import keyring
        from keyring.errors import KeyringError, NoKeyringError

        for name in wanted:
            self._kept[name] = ""  # asked once, whatever comes of it
            try:
                self._kept[name] = (keyring.get_password(SERVICE, name) or "").strip()
            except NoKeyringError:
                self._kept.update(dict.fromkeys(wanted, ""))
                return  # the package is there, and nothing on this machine that keeps keys
            except (KeyringError, *KEYRING_FAULTS) as error:
                logger.warning("the keyring cannot be asked for %s: %s", name, error)


class KeyWatcher(PollingWatcher):
    """Gives the keys what `toolstead keys set` and `remove` changed: `async with watcher:`."""

    def __init__(
        self,
        keys: Keys,
        file: KeyFile,
        on_change: Callable[[StoredKeys], Awaitable[Any]],
        *,
        interval: float = POLL_SECONDS,
    ) -> None:
        super().__init__("keys", interval)
        self._keys, self._file, self._on_change = keys, file, on_change

    async def check(self) -> None:
        """Check once."""
        stamp = read_stamp(self._file.path)
        if stamp == self._keys.stamp:
            return
        self._keys.stamp = stamp
        try:
            stored = self._file.read()
        except StateError as error:
            logger.warning("the keys stay as they were: %s", error)
            return
        self._keys.apply_stored(stored)
        await self._on_change(stored)


def user_keys(data: Path) -> Keys:
    """The keys that this process finds: its own environment, and what is kept in a data folder."""
    return Keys(os.environ, KeyFile(data))


@cache
def known_keys() -> tuple[str, ...]:
    """The names of all keys that are looked up: of model APIs, and of search."""
    from toolstead.adapters.providers.catalogue import VENDORS  # not above: servers start without it
    from toolstead.adapters.search.choice import key_names

    return (*dict.fromkeys([*(key for vendor in VENDORS for key in vendor.keys), *key_names("auto")]),)


def key_providers() -> dict[str, str]:
    """What a key may be called besides its name: each provider, with the name of its key."""
    from toolstead.adapters.providers.catalogue import VENDORS
    from toolstead.adapters.search.choice import VENDORS as SEARCH

    named = {name: vendor.keys[0] for vendor in VENDORS for name in (vendor.name, *vendor.aliases) if vendor.keys}
    return {**{name: vendor.keys[0] for name, vendor in SEARCH.items() if vendor.keys}, **named}
