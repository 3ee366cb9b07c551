"""One search: a request to the chosen provider, its answer bounded and brought into one form."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec

from toolstead.adapters.providers.http_client import open_client
from toolstead.adapters.search import apis, gemini
from toolstead.adapters.search.choice import VENDORS, KeyLookup, SearchChoice
from toolstead.errors import RuntimeFailureError, ToolError
from toolstead.plugins.ports import Found

if TYPE_CHECKING:
    from toolstead.adapters.search.apis import SearchRequest

LARGEST_ANSWER = 2_097_152
LONGEST_TITLE, LONGEST_SNIPPET, LONGEST_URL = 300, 1_000, 2_048
_LONGEST_REASON = 300
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_REFUSED_KEY = (401, 403)


class Searcher:
    """Searches with one provider; connections are kept until `aclose`."""

    def __init__(self, choice: SearchChoice, lookup: KeyLookup) -> None:
        """Open nothing yet.

        Raises:
            RuntimeFailureError: The provider's address, or the proxy to it, cannot be used.
        """
        self.choice = choice
        self._title = VENDORS[choice.name].title
        self._client = open_client(choice.url, lookup)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def search(self, query: str, *, max_results: int, model: str, timeout: float) -> list[Found]:
        """What was found, best first: at most so many, each with a title and an http(s) address.

        Raises:
            ToolError: The provider refused, failed, or gave no answer in time.
        """
        is_gemini = self.choice.name == "gemini"
        try:
            request = (
                gemini.build_request(self.choice, query, max_results, model)
                if is_gemini
                else apis.build_request(self.choice, query, max_results)
            )
            async with asyncio.timeout(timeout):
                answer = await self._send(request)
        except TimeoutError:
            raise ToolError(f"{self._title} gave no complete answer within {timeout:g} seconds; try again") from None
        except RuntimeFailureError as error:
            raise ToolError(f"[plugins.web] gemini_model: {error}") from None
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ToolError(f"{self._title} ({self.choice.url}) could not be reached: {self._mask(reason)}") from None
        found = gemini.read_results(answer) if is_gemini else apis.read_results(self.choice, answer)
        return normalize_results(found)[:max_results]

    async def _send(self, request: SearchRequest) -> Any:
        content = None if request.body is None else msgspec.json.encode(request.body)
        headers = {**request.headers, "accept": "application/json"}
        if content is not None:
            headers["content-type"] = "application/json"
        sent = self._client.build_request(
            "GET" if content is None else "POST", request.url, params=request.query, headers=headers, content=content
        )
        response = await self._client.send(sent, stream=True)
        try:
            data = bytearray()
            async for part in response.aiter_bytes():
                data += part
                if len(data) > LARGEST_ANSWER:
                    raise ToolError(f"the answer of {self._title} has more than {LARGEST_ANSWER:,} bytes")
        finally:
            await response.aclose()
        return self._read_body(response.status_code, bytes(data))

    def _read_body(self, status: int, data: bytes) -> Any:
        try:
            body = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            body = None
        if status == HTTPStatus.OK and isinstance(body, dict):
            return body  # pyright: ignore[reportUnknownVariableType] - the reader looks at every part
        reason = self._mask(_find_reason(body) or data[:_LONGEST_REASON].decode("utf-8", "replace"))
        if status in _REFUSED_KEY and self.choice.key_name:
            raise ToolError(f"{self._title} refuses the key that {self.choice.key_name} holds ({status}): {reason}")
        if status in _REFUSED_KEY and self.choice.name == "searxng":
            reason += "; its settings must list json among search.formats"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise ToolError(f"{self._title} limits the rate of searches ({status}): {reason}; try again later")
        if status == HTTPStatus.OK:
            raise ToolError(
                f"{self._title} ({self.choice.url}) answered with something that is no JSON object: {reason}"
            )
        raise ToolError(f"{self._title} answered with HTTP {status}: {reason}")

    def _mask(self, text: str) -> str:
        text = " ".join(text.split())
        text = text.replace(self.choice.key, "…") if self.choice.key else text
        return text[:_LONGEST_REASON] or "no reason was given"


def normalize_results(found: list[Found]) -> list[Found]:
    """Results as every caller gets them: plain text in one line, http(s) addresses, each once."""
    normal: dict[str, Found] = {}
    for one in found:
        url = one.url.strip()
        if not url.lower().startswith(("http://", "https://")) or len(url) > LONGEST_URL or url in normal:
            continue
        title = _plain_text(one.title, LONGEST_TITLE) or url[:LONGEST_TITLE]
        normal[url] = Found(title=title, url=url, snippet=_plain_text(one.snippet, LONGEST_SNIPPET))
    return list(normal.values())


def _plain_text(text: str, longest: int) -> str:
    line = " ".join(unescape(_MARKUP.sub("", text[: longest * 8])).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _find_reason(body: object) -> str:
    """What an error's body says, wherever the providers put it."""
    entry = apis.as_object(body)
    for name in ("error", "detail", "message"):
        inner = entry.get(name)
        if isinstance(inner, str):
            return inner
        nested = apis.as_object(inner)
        if text := next((text for key in ("message", "detail", "error") if (text := apis.text_in(nested, key))), ""):
            return text
    return ""
