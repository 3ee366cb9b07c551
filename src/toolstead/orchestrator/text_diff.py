"""The lines in which two texts differ, in bounded time and size, whatever the texts are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

MOST_COMPARED = 1_000
"""Lines of a text that are compared line by line; where more differ, they are shown as one block."""

MOST_SHOWN = 200
LONGEST_LINE = 500
_CONTEXT = 3


def render_diff(before: str, after: str, names: tuple[str, str], *, most: int = MOST_SHOWN) -> str:
    """A unified diff; empty when the texts are alike.

    What both texts begin and end with is skipped first. Comparing what is left takes time that grows with its square,
    so that only `MOST_COMPARED` lines are compared.

    Args:
        before: The older text.
        after: The newer text.
        names: What each is called.
        most: Lines that are shown.
    """
    if before == after:
        return ""
    old, new = _split_lines(before), _split_lines(after)
    start = _count_common(old, new)
    end = _count_common(old[start:][::-1], new[start:][::-1])
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(old), len(new)) > MOST_COMPARED:
        head = f"@@ -{_show_range(0, len(old), first)} +{_show_range(0, len(new), first)} @@"
        half = max(1, (most - 2 * _CONTEXT) // 2 - 2)
        whole: Iterator[str] = iter([head, *_replace_block(old, new, start - first, end - last, half)])
    else:
        whole = _compare_lines(old, new, first)
    shown = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in islice(whole, most)]
    left = sum(1 for _ in whole)
    note = [f"[{left:,} more lines of this diff are left out]"] if left else []
    return "\n".join([f"--- {names[0]}", f"+++ {names[1]}", *shown, *note])


def _split_lines(text: str) -> list[str]:
    """The lines; a last one without a line break carries the note that diff programs give it."""
    lines = text.split("\n")
    if not lines[-1]:
        return lines[:-1]
    lines[-1] += "\n\\ No newline at end of file"
    return lines


def _count_common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both begin with."""
    common = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        common += 1
    return common


def _compare_lines(old: list[str], new: list[str], skipped: int) -> Iterator[str]:
    from difflib import SequenceMatcher  # imported only where two versions are compared

    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
        _, old_first, _, new_first, _ = group[0]
        _, _, old_last, _, new_last = group[-1]
        removed, added = _show_range(old_first, old_last, skipped), _show_range(new_first, new_last, skipped)
        yield f"@@ -{removed} +{added} @@"
        for tag, begin, end, new_begin, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[begin:end])
            else:
                yield from (f"-{line}" for line in old[begin:end])
                yield from (f"+{line}" for line in new[new_begin:new_end])


def _show_range(first: int, last: int, skipped: int) -> str:
    """Where some lines stand; those of an empty range come after the line that is named."""
    return f"{first + skipped + (last > first)},{last - first}"


def _replace_block(old: list[str], new: list[str], before: int, after: int, most: int) -> Iterator[str]:
    """All lines between the common ones as removed, and then as added; of each at most so many."""
    yield from (f" {line}" for line in old[:before])
    for sign, lines in (("-", old[before : len(old) - after]), ("+", new[before : len(new) - after])):
        yield from (f"{sign}{line}" for line in lines[:most])
        if len(lines) > most:
            yield f"[{len(lines) - most:,} more lines with {sign} are left out]"
    yield from (f" {line}" for line in old[len(old) - after :])
