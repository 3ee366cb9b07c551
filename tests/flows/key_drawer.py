"""A keyring in memory, as the keyring of this process for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError


class Drawer(KeyringBackend):
    """Keeps passwords, and remembers what it was asked for."""

    priority: ClassVar[Any] = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.asked: list[str] = []
        self.fails: KeyringError | None = None

    def get_password(self, service: str, username: str) -> str | None:
        self.asked.append(username)
        if self.fails is not None:
            raise self.fails
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@contextmanager
def keyring_of_the_test() -> Iterator[Drawer]:
    before, drawer = keyring.get_keyring(), Drawer()
    keyring.set_keyring(drawer)
    try:
        yield drawer
    finally:
        keyring.set_keyring(before)
