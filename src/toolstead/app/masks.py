"""What must not be shown: tokens, keys and passwords, wherever a setting is printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

MASK = "********"

_TELLING = re.compile(r"token|secret|key|passw|credential|authorization", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_WHOLE = frozenset({"env", "headers"})
_SERVER_TOKEN = ("server", "token")


def is_secret(path: Sequence[str]) -> bool:
    """Whether the value at this path is a secret by its name.

    In the open tables any part below the owner's name may be secret; of an upstream server all of
    `env` and `headers` counts, because that is where its secrets are put.
    """
    if tuple(path) == _SERVER_TOKEN:
        return True
    if len(path) < 3 or path[0] not in ("plugins", "mcp_servers"):
        return False
    if path[0] == "mcp_servers" and path[2] in _WHOLE:
        return True
    return any(_TELLING.search(part) for part in path[2:])


def mask_value(path: Sequence[str], value: Any) -> Any:
    """Give the value as it may be shown; secrets become `********`, whatever their length.

    Nothing is hidden by showing that a secret is empty, a switch, or the word "auto" that asks
    for a token to be made; and a number of tokens is a limit.
    """
    if is_secret(path):
        open_word = value == "" or isinstance(value, bool) or (value == "auto" and tuple(path) == _SERVER_TOKEN)
        open_word = open_word or (isinstance(value, int) and path[-1].endswith("tokens"))
        return value if open_word else MASK
    match value:
        case str():
            return _USER_INFO.sub(MASK, value)
        case list():
            return [mask_value(path, item) for item in cast("list[Any]", value)]
        case Mapping():
            table = cast("Mapping[str, Any]", value)
            return {key: mask_value((*path, key), item) for key, item in table.items()}
        case _:
            return value
