"""What to say about files that a content filter covers: filters are programs, so none is run.

Without its filter (git-lfs has one) a file can look changed although it is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolstead.tools.builtin.git import StandIn, decode_output

_DRIVER = re.compile(r"filter\.(.+)\.(?:clean|process)", re.DOTALL)
_MOST_ASKED = 100


async def note_on_filters(stand_in: StandIn, changed: Sequence[str]) -> str | None:
    """A note on changed files whose filter was not run; None when there are none."""
    matches = (_DRIVER.fullmatch(name) for name, value in stand_in.repository.settings if value)
    drivers = {match[1] for match in matches if match}
    if not drivers or not changed:
        return None
    asked = await stand_in.run("check-attr", "-z", "filter", "--", *changed[:_MOST_ASKED])
    fields = decode_output(asked.stdout).split("\0")
    covered = {name: driver for name, driver in zip(fields[0::3], fields[2::3], strict=False) if driver in drivers}
    if not covered:
        return None
    return (
        f"[note: content filters ({', '.join(sorted(set(covered.values())))}) are not run, "
        f"so a file that one covers may be shown as changed although it is not, such as {next(iter(covered))}]"
    )
