"""`validate_tool_file`: whether a JSON value is a good tool file, without loading anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.sources.json_file import FileReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The verdict on a tool file.

    Attributes:
        valid: Whether every tool in it could be registered.
        errors: What is wrong, each with its tool and field.
        config: The value itself when it is valid, else None.
    """

    valid: bool
    errors: tuple[str, ...]
    config: Mapping[str, Any] | None


def validate_tool_file(data: Any) -> Validation:
    """Check a tool file's content, such as what `json.load` gave.

    Nothing is run and nothing is read: examples are validated and their commands and addresses built.
    """
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:
        return Validation(valid=False, errors=(f"not a JSON value: {error}",), config=None)
    surroundings = Surroundings(root=Path("/"), environ={})
    loaded = FileReader(surroundings, GuardedClient).read(Path("tool file"), text.encode())
    errors = tuple(
        f"tool {problem.tool_name!r}: {problem.message}" if problem.tool_name else problem.message
        for problem in loaded.problems
    )
    return Validation(valid=not errors, errors=errors, config=data if not errors else None)
