"""`ctx.search`: the search provider that the settings and the keys allow now, and why there is none.

The provider is chosen by a table; what talks to it is imported by the first search.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.adapters.search.choice import SearchChoice, choose_search, key_names
from toolstead.errors import RuntimeFailureError, ToolError, UnavailableError
from toolstead.extensions.web.settings import WebSettings

if TYPE_CHECKING:
    from toolstead.adapters.search.searcher import Searcher
    from toolstead.app.keys import Keys
    from toolstead.plugins.ports import Found

logger = logging.getLogger(__name__)

TOOL = "web_search"


class WebSearch:
    """Searches the web for every plugin of a stead."""

    def __init__(self, keys: Keys, table: Callable[[], Mapping[str, Any]]) -> None:
        """Choose nothing yet.

        Args:
            keys: Where keys and addresses are.
            table: What is set in `[plugins.web]` now.
        """
        self._keys = keys
        self._table = table
        self._settings = WebSettings()
        self._searcher: Searcher | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, query: str, *, max_results: int = 5) -> Sequence[Found]:
        """What was found, best first.

        Raises:
            UnavailableError: There is no provider.
            ToolError: The provider refused, failed, or gave no answer in time.
        """
        choice = self.choose_provider()
        if isinstance(choice, str):
            raise UnavailableError("ctx.search", choice)
        searcher = await self._open_searcher(choice)
        settings = self._settings
        return await searcher.search(
            query, max_results=max_results, model=settings.gemini_model, timeout=settings.timeout
        )

    def choose_provider(self) -> SearchChoice | str:
        """The provider to use now, or why there is none."""
        table = self._table()
        try:
            self._settings = msgspec.convert(dict(table), WebSettings) if table else WebSettings()
        except msgspec.ValidationError:  # the plugin says so, and keeps the settings it had
            logger.debug("[plugins.web] has bad values; the search provider stays as it was")
        return choose_search(self._settings.search, self._settings.searxng_url, self._keys)

    def hidden_tools(self) -> dict[str, str]:
        """The tools that cannot work now, by name with the reason."""
        choice = self.choose_provider()
        return {TOOL: choice} if isinstance(choice, str) else {}

    def lacking_keys(self) -> list[str]:
        """The names of keys for which the keyring is asked, when the environment has no provider."""
        return key_names(self._settings.search) if isinstance(self.choose_provider(), str) else []

    async def aclose(self) -> None:
        """Close the connections."""
        if self._searcher is not None:
            await self._searcher.aclose()

    async def _open_searcher(self, choice: SearchChoice) -> Searcher:
        async with self._opening:
            if self._searcher is None or self._searcher.choice != choice:
                before, self._searcher = self._searcher, await asyncio.to_thread(_create_searcher, choice, self._keys)
                if before is not None:
                    await before.aclose()
            return self._searcher


def _create_searcher(choice: SearchChoice, keys: Keys) -> Searcher:
    """In a worker: the client takes half a second to import."""
    from toolstead.adapters.search.searcher import Searcher

    try:
        return Searcher(choice, keys)
    except RuntimeFailureError as error:
        raise ToolError(str(error)) from error
