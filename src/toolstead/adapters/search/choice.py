"""Which search provider is used: the one that is named, or the first that can be.

A plain table: whether `web_search` is shown is decided at every start, so nothing is imported for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

SearchName = Literal["gemini", "brave", "tavily", "searxng"]
KeyLookup = Callable[[str], str | None]
"""Returns the value of an environment name, or None."""


class SearchVendor(msgspec.Struct, frozen=True, kw_only=True):
    """A search provider.

    Attributes:
        title: Its name in messages.
        keys: Environment names of its key, the first one that is set wins; none when it needs no key.
        urls: Environment names of its address.
        url: Its address unless another is set; empty when there is no usual one.
    """

    title: str
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    url: str = ""


VENDORS: Mapping[SearchName, SearchVendor] = {
    "gemini": SearchVendor(
        title="Google",
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        urls=("GOOGLE_GEMINI_BASE_URL",),
        url="https://generativelanguage.googleapis.com",
    ),
    "brave": SearchVendor(
        title="Brave Search",
        keys=("BRAVE_API_KEY",),
        urls=("BRAVE_BASE_URL",),
        url="https://api.search.brave.com",
    ),
    "tavily": SearchVendor(
        title="Tavily", keys=("TAVILY_API_KEY",), urls=("TAVILY_BASE_URL",), url="https://api.tavily.com"
    ),
    "searxng": SearchVendor(title="SearXNG", urls=("SEARXNG_BASE_URL",)),
}
"""In the order in which `auto` tries them."""


class SearchChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that can be used.

    Attributes:
        name: Which one.
        url: Its address, without a slash at its end.
        key_name: The environment name that has its key; empty when it needs none.
        key: The key.
    """

    name: SearchName
    url: str
    key_name: str = ""
    key: str = ""

    def __repr__(self) -> str:
        """Leave the key out."""
        return f"SearchChoice(name={self.name!r}, url={self.url!r}, key_name={self.key_name!r})"


def choose_search(wanted: str, searxng_url: str, lookup: KeyLookup) -> SearchChoice | str:
    """The provider to use, or why there is none, in words that say what to set.

    Args:
        wanted: A provider's name, `auto` or `none`.
        searxng_url: The address of a SearXNG server; empty for none.
        lookup: Returns keys and addresses.
    """
    if wanted == "none":
        return 'the web is not searched: [plugins.web] search = "none"'
    names: list[SearchName] = [name for name in VENDORS if wanted in ("auto", name)]
    for name in names:
        if (choice := _find_choice(name, searxng_url, lookup)) is not None:
            return choice
    if wanted == "auto":
        return (
            "no search provider is configured: set GOOGLE_API_KEY, BRAVE_API_KEY or TAVILY_API_KEY, or [plugins.web]"
            " searxng_url"
        )
    needs = " or ".join(VENDORS[names[0]].keys) if names and VENDORS[names[0]].keys else "[plugins.web] searxng_url"
    return f'[plugins.web] search = "{wanted}" needs {needs}'


def key_names(wanted: str) -> list[str]:
    """The environment names of keys with which a provider could be used."""
    return [key for name, vendor in VENDORS.items() if wanted in ("auto", name) for key in vendor.keys]


def _find_choice(name: SearchName, searxng_url: str, lookup: KeyLookup) -> SearchChoice | None:
    vendor = VENDORS[name]
    key_name = next((key for key in vendor.keys if lookup(key)), "")
    if vendor.keys and not key_name:
        return None
    given = searxng_url.strip() if name == "searxng" else ""
    url = given or next((found for one in vendor.urls if (found := lookup(one))), "") or vendor.url
    if not url:
        return None
    return SearchChoice(
        name=name, url=url.rstrip("/"), key_name=key_name, key=(lookup(key_name) or "") if key_name else ""
    )
