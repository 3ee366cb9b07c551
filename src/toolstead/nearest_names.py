"""Names that are like one that is not known, for messages. Nothing is below it; every message may use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def find_nearest(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known names that are most like a name, the nearest first; with a cutoff of 0, some are always found."""
    from difflib import get_close_matches  # imported only for an error message

    return get_close_matches(name[:100], known, n=most, cutoff=cutoff)


def suggest(
    name: str,
    known: Iterable[str],
    *,
    otherwise: str = "",
    show: Callable[[str], str] = repr,
    most: int = 1,
    cutoff: float = 0.6,
) -> str:
    """`did you mean 'that'?`, for a message about a name that is not known.

    Args:
        name: The name.
        known: Those that would be right.
        otherwise: The text where none is like it.
        show: How a known name is written.
        most: How many are named.
        cutoff: How like it they must be, from 0 to 1.
    """
    nearest = find_nearest(name, known, most=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(show, nearest))}?" if nearest else otherwise
