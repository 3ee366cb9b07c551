"""The default instructions of an agent, the same on every runtime."""

from __future__ import annotations

from toolstead.invoker.runtime import SessionSpec

_BUILT_IN = """\
You work for the user in the folder {cwd}. Use your tools where they help: look instead of guessing, and say what you
found. When a tool fails, read its error and do what it says would be right; do not repeat a call that failed.
When you are done, answer in plain words."""


def instructions_of(spec: SessionSpec) -> str:
    """The agent's own instructions, else the built-in ones."""
    return spec.instructions or _BUILT_IN.format(cwd=spec.cwd)
