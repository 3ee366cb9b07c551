"""Tunes the garbage collector, so that it delays neither the start nor requests."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

COLLECT_AFTER: Final = 20_000
"""Allocations minus deallocations before a collection; Python's default is reached within a few requests."""


@contextmanager
def collecting_later() -> Generator[None]:
    """Disable collection until `collect_seldom`: a start makes many objects, and hardly a cycle."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_seldom() -> None:
    """Collect seldom: every request that is answered meanwhile waits for it.

    What the start made lives as long as the server does, so the collector never walks it again. Tools that a reload
    replaces are freed as always unless they are in a cycle, and then only those of the start are kept.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    gc.enable()
