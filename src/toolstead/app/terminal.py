"""What the environment says about the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping


def can_redraw(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a line of a terminal can be written anew: not on a `dumb` one, or where its kind is not known."""
    environ = os.environ if environ is None else environ
    return environ.get("TERM", "dumb") != "dumb"


def allows_colour(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a terminal may be given colours: `NO_COLOR` is not set, and it is not a `dumb` one."""
    environ = os.environ if environ is None else environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
