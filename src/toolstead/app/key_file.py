"""`keys.json` of the data folder: keys that `toolstead keys set` keeps where there is no keyring to keep them.

The file is private to the user, and counts only so: a link, another user's file, or one that others may read or write
is refused. It also has the names of the keys that are in the keyring, so that running processes see a change of those.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolstead.app.private_file import lock_file, write_private
from toolstead.errors import StateError

LARGEST = 262_144


class StoredKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds.

    Attributes:
        keys: The keys in the file, by the names of their variables.
        keyring: The names of the keys that are in the keyring.
    """

    keys: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    keyring: tuple[str, ...] = ()


class KeyFile:
    """The file in a data folder. No file means that no key is kept."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"

    def read(self) -> StoredKeys:
        """All of it.

        Raises:
            StateError: The file is not private, or cannot be read or understood.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return StoredKeys()
        except OSError as error:
            raise self._refuse_file("it is a link" if self.path.is_symlink() else str(error.strerror)) from None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise self._refuse_file("it is no file")
            if found.st_uid != os.geteuid():
                raise self._refuse_file("it is another user's")
            if found.st_mode & 0o077:
                raise self._refuse_file(f"others may use it (mode {found.st_mode & 0o777:o}): chmod 600 {self.path}")
            data = file.read(LARGEST + 1)
        try:
            return msgspec.json.decode(data[:LARGEST], type=StoredKeys)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refuse_file(
                f"it is not what `toolstead keys set` writes ({error}); repair or delete it"
            ) from None

    def record_key(self, name: str, *, key: str = "", in_keyring: bool = False) -> None:
        """Set where a key is: in this file, in the keyring, or, without either, nowhere.

        Raises:
            StateError: The file cannot be read, understood or written.
        """
        try:
            with lock_file(self.path):
                before = self.read()
                keys = {one: value for one, value in before.keys.items() if one != name}
                names = {*before.keyring} - {name}
                if key:
                    keys[name] = key
                if in_keyring:
                    names.add(name)
                # Written also where nothing changes in it: a key in the keyring may have another value now.
                after = StoredKeys(keys=keys, keyring=tuple(sorted(names)))
                write_private(self.path, msgspec.json.format(msgspec.json.encode(after), indent=2) + b"\n")
        except OSError as error:
            raise StateError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _refuse_file(self, reason: str) -> StateError:
        return StateError(f"the keys in {self.path} are not used: {reason}")
