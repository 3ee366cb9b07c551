"""The template of a tool that is a prompt: `{{param}}` is replaced by the argument, and nothing else happens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

PLACEHOLDER = re.compile(r"\{\{ ?([A-Za-z0-9_.-]{1,64}) ?\}\}")

LONGEST_PROMPT = 2_097_152
"""Characters of a filled-in prompt: a template can insert a long value many times."""


class LongPromptError(ValueError):
    """The filled-in prompt would be too long; the text says how long it may be."""


def find_placeholders(template: str) -> list[str]:
    """The names between double braces, in order, each once."""
    return list(dict.fromkeys(found[1] for found in PLACEHOLDER.finditer(template)))


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """The template with its placeholders replaced in one pass, so that braces in a value stay text.

    A text is inserted as it is, any other value as JSON; a placeholder without a value stays as it is.

    Raises:
        LongPromptError: The text would have more than `LONGEST_PROMPT` characters; it is not built.
    """
    written = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in values.items()
    }
    grown = sum(len(written[found[1]]) for found in PLACEHOLDER.finditer(template) if found[1] in written)
    if len(template) + grown > LONGEST_PROMPT:
        raise LongPromptError(f"the filled-in prompt would have more than {LONGEST_PROMPT:,} characters")
    return PLACEHOLDER.sub(lambda found: written.get(found[1], found[0]), template)
