"""The pages that were read lately: bounded in size and age, and kept as their servers allow."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

_BYTES_BESIDE = 1_000
_MAX_AGE = re.compile(r"max-age\s{0,4}=\s{0,4}\"?(\d{1,10})")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """A page as text.

    Attributes:
        url: Where it was found in the end.
        title: Its title; empty for none.
        text: Its text.
        notes: What was left out.
        headers: Those of its answer.
        fresh_until: When its server must be asked again.
    """

    url: str
    title: str
    text: str
    notes: tuple[str, ...]
    headers: Mapping[str, str]
    fresh_until: float = 0.0

    @property
    def validators(self) -> dict[str, str]:
        """The headers that ask whether it has changed; none when its server gave nothing to ask with."""
        found = {"if-none-match": self.headers.get("etag"), "if-modified-since": self.headers.get("last-modified")}
        return {name: value for name, value in found.items() if value}

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.text) * 2 + _BYTES_BESIDE


class PageCache:
    """Pages by the address that was asked for; the one that was used longest ago goes first."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._pages: OrderedDict[str, CachedPage] = OrderedDict()
        self.size = 0

    def find_page(self, url: str) -> tuple[CachedPage | None, bool]:
        """The page of an address, and whether it may be used without asking its server."""
        page = self._pages.get(url)
        if page is None:
            return None, False
        self._pages.move_to_end(url)
        return page, self._now() < page.fresh_until

    def keep_page(self, url: str, page: CachedPage, *, most_bytes: int, most_seconds: float) -> None:
        """Keep a page as long as its headers allow and the settings say; one that may not be kept is forgotten."""
        self.forget_page(url)
        control = page.headers.get("cache-control", "").lower()
        if "no-store" in control or page.size > most_bytes:
            return
        seconds = 0.0 if "no-cache" in control else most_seconds
        if (found := _MAX_AGE.search(control)) is not None:
            seconds = min(seconds, float(found[1]))
        if not seconds and not page.validators:
            return
        self._pages[url] = replace(page, fresh_until=self._now() + seconds)
        self.size += page.size
        while self.size > most_bytes:
            self.size -= self._pages.popitem(last=False)[1].size

    def forget_page(self, url: str) -> None:
        """Remove the page of an address, if there is one."""
        page = self._pages.pop(url, None)
        if page is not None:
            self.size -= page.size
