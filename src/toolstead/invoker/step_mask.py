"""Masks secrets in a step before it is stored: with the mask that tools have for their results and logs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import msgspec

from toolstead.invoker.step_bounds import MOST_STEP, decode_step, encode_plain, make_plain
from toolstead.tools.handlers.secrets import Mask


def may_have_secrets(text: bytes, mask: Mask) -> bool:
    """Whether there may be a secret in JSON: a quick check, which is also true for some texts without one."""
    return bool(mask.values) and any(needle in text for needle in _find_needles(mask))


@lru_cache(maxsize=16)
def _find_needles(mask: Mask) -> tuple[bytes, ...]:
    """What stands in JSON that may have a secret in it: the secret, or what it may be spelled with."""
    written = [msgspec.json.encode(value.encode("utf-8", "replace").decode())[1:-1] for value in mask.values]
    return (*written, b"\\\\", b"%")


def mask_step(text: bytes, mask: Mask) -> bytes:
    """A step in which every secret is masked; names, too."""
    if not may_have_secrets(text, mask):
        return text
    return encode_plain(_mask_value(mask, make_plain(decode_step(text))))


def _mask_value(mask: Mask, value: Any) -> Any:
    match value:
        case str():
            return mask(value) if len(value) <= 2 * MOST_STEP else _mask_ends(mask, value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {_mask_value(mask, key): _mask_value(mask, item) for key, item in items}
        case list():
            return [_mask_value(mask, item) for item in cast("list[Any]", value)]
        case _:
            return value


def _mask_ends(mask: Mask, text: str) -> str:
    """A text of which only the ends can be stored: its middle is masked whole, since to look through it takes long."""
    edge = mask.longest  # so much of either part may belong to a secret whose rest is not in it
    first, last = mask(text[:MOST_STEP])[:-edge], mask(text[-MOST_STEP:])[edge:]
    return f"{first}{'*' * (len(text) - 2 * (MOST_STEP - edge))}{last}"
