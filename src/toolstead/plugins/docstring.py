"""Google-style docstrings: the summary for the model, and a line for each argument."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:\s*(.*)$")


def read_docstring(function: object) -> tuple[str, dict[str, str]]:
    """The description before the first section, and the descriptions under `Args:`."""
    lines = (inspect.getdoc(function) or "").splitlines()
    description: list[str] = []
    arguments: dict[str, str] = {}
    section, current, indent = "", "", 0
    for line in lines:
        if found := _SECTION.match(line):
            section, current = found.group(1), ""
            continue
        if not section:
            description.append(line)
            continue
        if not section.startswith(("Arg", "Param")) or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        entry = _ARGUMENT.match(line.strip())
        if not depth and (indent or not entry):  # back at the margin: a section of a name we do not know
            section = "other"
        elif entry and (not current or depth <= indent):
            current, indent = entry.group(1), depth
            arguments[current] = entry.group(2)
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return "\n".join(description).strip(), arguments
