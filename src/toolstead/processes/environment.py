"""The environment of commands that tools and gates run: an allow-list, so that no key of the user's is in it."""

from __future__ import annotations

from collections.abc import Mapping

ALLOWED_ENVIRONMENT = frozenset({"PATH", "HOME", "LANG", "TZ", "TERM", "TMPDIR", "USER"})


def select_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a command may see of the user's environment."""
    return {name: value for name, value in environ.items() if name in ALLOWED_ENVIRONMENT or name.startswith("LC_")}
