"""How Brave, Tavily and SearXNG are asked, and what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from toolstead.adapters.search.choice import SearchChoice
from toolstead.plugins.ports import Found


class SearchRequest(NamedTuple):
    """One request to a provider; with a body it is a POST, else a GET."""

    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any] | None = None


def build_request(choice: SearchChoice, query: str, max_results: int) -> SearchRequest:
    """The request for a search, to any provider but Gemini."""
    match choice.name:
        case "brave":
            headers = {"x-subscription-token": choice.key}
            return SearchRequest(
                f"{choice.url}/res/v1/web/search", headers, {"q": query, "count": str(min(max_results, 20))}
            )
        case "tavily":
            body = {"query": query, "max_results": min(max_results, 20), "search_depth": "basic"}
            return SearchRequest(f"{choice.url}/search", {"authorization": f"Bearer {choice.key}"}, {}, body)
        case _:
            return SearchRequest(f"{choice.url}/search", {}, {"q": query, "format": "json"})


def read_results(choice: SearchChoice, answer: Any) -> list[Found]:
    """What was found, best first, as the provider spells it."""
    if choice.name == "brave":
        answer = as_object(answer).get("web")
    snippet = "description" if choice.name == "brave" else "content"
    return [
        Found(title=text_in(entry, "title"), url=text_in(entry, "url"), snippet=text_in(entry, snippet))
        for entry in as_objects(as_object(answer).get("results"))
    ]


def as_object(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_objects(value: object) -> list[Mapping[str, Any]]:
    """The objects of a JSON list; none for anything else."""
    return [as_object(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def text_in(entry: Mapping[str, Any], name: str) -> str:
    """A text of an object; an empty one for anything else."""
    value = entry.get(name)
    return value if isinstance(value, str) else ""
