"""Keys and addresses of model APIs: from the environment, else from the system's keyring.

A key is never written down, shown or handed to a tool's child: those get an allow-list of the environment.
Addresses come from the environment alone, so that no project's file can send a key elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

logger = logging.getLogger(__name__)

SERVICE = "toolstead"
"""Under which name keys are kept: `keyring set toolstead ANTHROPIC_API_KEY`."""


class Keys:
    """Looks names up. Looking never waits: the keyring, which may be slow, is asked by `load` alone.

    Attributes:
        environ: The user's environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self._kept: dict[str, str] = {}

    def __call__(self, name: str) -> str | None:
        """The value of an environment's name; None when there is none, or an empty one."""
        return self.environ.get(name, "").strip() or self._kept.get(name) or None

    def origin_of(self, name: str) -> str:
        """Where the value comes from, in words."""
        return "the environment" if self.environ.get(name, "").strip() else "the keyring"

    def load(self, names: Iterable[str]) -> None:
        """Ask the keyring for names that the environment does not have, each once. It may wait for a person."""
        wanted = [name for name in names if self(name) is None and name not in self._kept]
        if not wanted or find_spec("keyring") is None:
            return
        import keyring
        from keyring.errors import KeyringError, NoKeyringError

        for name in wanted:
            self._kept[name] = ""  # asked once, whatever comes of it
            try:
                self._kept[name] = (keyring.get_password(SERVICE, name) or "").strip()
            except NoKeyringError:
                return  # the package is there, and nothing on this machine that keeps keys
            except KeyringError as error:
                logger.warning("the keyring cannot be asked for %s: %s", name, error)
