"""The settings of the `web` plugin, for the plugin, what fetches for it, and the providers that search."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[plugins.web]`.

    Attributes:
        search: Who searches: `auto` takes the first that can be used, of `gemini`, `brave`, `tavily` and `searxng`.
        searxng_url: The address of a SearXNG server whose JSON format is on.
        gemini_model: The model that searches with Gemini; empty is the usual one.
        timeout: Seconds that a server may take to answer, and a search provider too.
        max_bytes: Bytes that are read of a page, after they were inflated.
        cache_bytes: Bytes of pages that are kept; 0 keeps none.
        cache_seconds: How long a page is used without asking its server, unless that says less.
    """

    search: Literal["auto", "gemini", "brave", "tavily", "searxng", "none"] = "auto"
    searxng_url: str = ""
    gemini_model: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=300)] = 20.0
    max_bytes: Annotated[int, msgspec.Meta(ge=1_024, le=52_428_800)] = 10_000_000
    cache_bytes: Annotated[int, msgspec.Meta(ge=0)] = 20_000_000
    cache_seconds: Annotated[float, msgspec.Meta(ge=0)] = 300.0
