"""The template of a tool that is a prompt: `{{param}}` is replaced by the argument, and nothing else happens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

PLACEHOLDER = re.compile(r"\{\{ ?([A-Za-z0-9_.-]{1,64}) ?\}\}")


def find_placeholders(template: str) -> list[str]:
    """The names between double braces, in order, each once."""
    return list(dict.fromkeys(found[1] for found in PLACEHOLDER.finditer(template)))


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """The template with its placeholders replaced in one pass, so that braces in a value stay text.

    A text is inserted as it is, any other value as JSON; a placeholder without a value stays as it is.
    """

    def insert_value(found: re.Match[str]) -> str:
        if found[1] not in values:
            return found[0]
        value = values[found[1]]
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return PLACEHOLDER.sub(insert_value, template)
