"""The mask of a stead's secrets, for what is stored of its runs: keys, tokens and passwords that it knows itself.

Tools mask their own secrets in what they answer and log (`tools/handlers/secrets`). This is the same mask, with all
secrets at once: a person may have put one into a message, and a tool may have read one in a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from toolstead.app.keys import known_keys
from toolstead.app.masks import is_secret
from toolstead.tools.handlers.secrets import Mask

if TYPE_CHECKING:
    from toolstead.app.keys import Keys
    from toolstead.app.settings import Settings
    from toolstead.tools.generation import Generation
    from toolstead.tools.registry import Registry

FRESH_SECONDS = 1.0
"""For so long the mask is not made again: that takes 44 µs, and every run asks for it."""

_DATABASE = "TOOLSTEAD_DATABASE_URL"


class SecretMask:
    """Gives the mask of what is secret now."""

    def __init__(
        self,
        keys: Keys,
        registry: Registry,
        settings: Callable[[], Settings],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look nothing up yet.

        Args:
            keys: Those of model APIs and of search.
            registry: The tools, some of which take secrets from the environment.
            settings: The current settings, some of which are secret.
            monotonic: A clock.
        """
        self._keys, self._registry, self._settings, self._monotonic = keys, registry, settings, monotonic
        self._mask = Mask()
        self._generation: Generation | None = None
        self._tool_names = frozenset[str]()
        self._fresh_until = float("-inf")

    def __call__(self) -> Mask:
        """The mask: of the keys wherever they are kept, of settings, and of what tool files name."""
        now = self._monotonic()
        if now >= self._fresh_until:
            secrets = {str(number): value for number, value in enumerate(self._find_secrets())}
            self._mask = Mask.mask_names(secrets, secrets)
            self._fresh_until = now + FRESH_SECONDS
        return self._mask

    def _find_secrets(self) -> Iterator[str]:
        keys, settings = self._keys, self._settings()
        yield from (key for name in known_keys() if (key := keys(name)) is not None)
        yield from (keys.environ[name] for name in self._find_tool_names() if name in keys.environ)
        tables = {"plugins": settings.plugins, "mcp_servers": settings.mcp_servers}
        yield from _secret_texts((), {**tables, "server": {"token": settings.server.token}})
        yield from (profile.token for profile in settings.profiles.values() if profile.token)
        yield _find_password(keys.environ.get(_DATABASE, ""))

    def _find_tool_names(self) -> frozenset[str]:
        """The variables that the tools take from the environment; there may be thousands of tools."""
        generation = self._registry.current
        if generation is not self._generation:
            handlers: Iterator[Any] = (registered.tool.handler for registered in generation.tools.values())
            self._tool_names = frozenset(name for handler in handlers for name in getattr(handler, "secrets", ()))
            self._generation = generation
        return self._tool_names


def _secret_texts(path: tuple[str, ...], value: Any) -> Iterator[str]:
    """The texts in settings that are secret by their names."""
    match value:
        case str() if is_secret(path):
            yield value
        case Mapping():
            for key, item in cast("Mapping[str, Any]", value).items():
                yield from _secret_texts((*path, key), item)
        case list() | tuple():
            for item in cast("Sequence[Any]", value):
                yield from _secret_texts(path, item)
        case _:
            return


def _find_password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""
