"""Searching with Gemini: one request with the tool `google_search`, whose answer says which pages it rests on.

The model searches by itself and answers in its own words; the pages are the *chunks* of the answer's grounding, and
the sentences that rest on a page are its snippet. Addresses lead to the pages by a redirect of Google's.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from toolstead.adapters.providers.catalogue import find_model
from toolstead.adapters.search.apis import SearchRequest, as_object, as_objects, text_in
from toolstead.adapters.search.choice import SearchChoice
from toolstead.errors import ToolError
from toolstead.plugins.ports import Found

_PROMPT = "Search the web and say in short sentences what each of the best {count} pages says about: {query}"


def build_request(choice: SearchChoice, query: str, max_results: int, model: str) -> SearchRequest:
    """The request for a search.

    Args:
        choice: The provider.
        query: What to search for.
        max_results: How many pages are wanted.
        model: The model's name; empty is the usual one.

    Raises:
        RuntimeFailureError: The model is unknown.
    """
    vendor, _ = find_model("google:any")
    name = find_model(model)[1] if model else vendor.model
    prompt = _PROMPT.format(count=max_results, query=query)
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": prompt}]}],
        "tools": [{"google_search": {}}],
    }
    url = f"{choice.url}/v1beta/models/{quote(name, safe='')}:generateContent"
    return SearchRequest(url, {"x-goog-api-key": choice.key}, {}, body)


def read_results(answer: Any) -> list[Found]:
    """The pages that an answer rests on.

    Raises:
        ToolError: There is no answer.
    """
    candidates = as_objects(as_object(answer).get("candidates"))
    if not candidates:
        reason = text_in(as_object(as_object(answer).get("promptFeedback")), "blockReason") or "no reason was given"
        raise ToolError(f"Google gave no answer to this search ({reason}); search for something else")
    grounding = as_object(candidates[0].get("groundingMetadata"))
    chunks = [as_object(chunk.get("web")) for chunk in as_objects(grounding.get("groundingChunks"))]
    snippets: list[list[str]] = [[] for _ in chunks]
    for support in as_objects(grounding.get("groundingSupports")):
        text = text_in(as_object(support.get("segment")), "text")
        indices: Any = support.get("groundingChunkIndices")
        for index in indices if isinstance(indices, list) else ():  # pyright: ignore[reportUnknownVariableType] - being looked at
            if isinstance(index, int) and 0 <= index < len(snippets) and text not in snippets[index]:
                snippets[index].append(text)
    return [
        Found(title=text_in(chunk, "title"), url=text_in(chunk, "uri"), snippet=" ".join(texts))
        for chunk, texts in zip(chunks, snippets, strict=True)
    ]
