"""`web_search` with each provider, and what is seen of it without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.flows.http_internet import Seen, Server, reply, serving
from toolstead import Toolstead, UnknownToolError
from toolstead.adapters.providers import catalogue
from toolstead.adapters.search.choice import VENDORS
from toolstead.adapters.search.searcher import LARGEST_ANSWER, LONGEST_SNIPPET
from toolstead.testing import connect, memory_stead, scripted_models
from toolstead.types.result import Failure, ToolResult

pytestmark = pytest.mark.promise("K4")

KEY = "k3y-of-the-test"
SCRIPT = """
- when: blue whales
  say: |
    [whales.example](https://whales.example/blue): Blue whales are the largest animals.
    [sea.example](https://sea.example/) [whales.example](https://whales.example/blue): They eat krill.
- when: nothing
  say: I know of nothing.
- when: fail
  fault: {kind: rate_limit}
"""
RESULTS = [
    {"title": "A <strong>bold</strong> title &amp; more", "url": "https://a.example/1", "content": "First\n line"},
    {"title": "", "url": "https://b.example/2", "content": "x" * 5_000},
    {"title": "Twice", "url": "https://a.example/1", "content": "again"},
    {"title": "Elsewhere", "url": "javascript:alert(1)", "content": "no"},
    {"title": 7, "url": "https://c.example/3", "content": None},
    "nonsense",
]


def brave_body() -> dict[str, Any]:
    renamed = [one | {"description": one["content"]} if isinstance(one, dict) else one for one in RESULTS]
    return {"web": {"results": renamed}}


PROVIDERS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "brave": ({"BRAVE_API_KEY": KEY, "BRAVE_BASE_URL": "{}"}, brave_body()),
    "tavily": ({"TAVILY_API_KEY": KEY, "TAVILY_BASE_URL": "{}"}, {"results": RESULTS}),
    "searxng": ({"SEARXNG_BASE_URL": "{}/"}, {"results": RESULTS}),
}


@asynccontextmanager
async def stead_with(
    provider: str, script: Callable[[Seen], Any] | bytes, **web: Any
) -> AsyncGenerator[tuple[Toolstead, Server]]:
    async with serving(script) as server:
        given = PROVIDERS[provider][0]
        environ = {name: value.format(f"http://127.0.0.1:{server.port}") for name, value in given.items()}
        async with memory_stead(settings={"plugins": {"web": web}}, environ=environ) as stead:
            yield stead, server


async def search(stead: Toolstead, query: str = "cats & dogs", **input: Any) -> ToolResult:
    return await stead.call("web_search", {"query": query, **input})


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_results_of_every_provider_come_in_one_form(provider: str) -> None:
    body = json.dumps(PROVIDERS[provider][1])
    async with stead_with(provider, reply(body=body, content_type="application/json")) as (stead, server):
        result = await search(stead)
        assert not result.is_error, result.text
        found = json.loads(result.text)
        assert len(json.loads((await search(stead, maxResults=1)).text)) == 1
        seen = server.seen[0]
    assert [one["url"] for one in found] == ["https://a.example/1", "https://b.example/2", "https://c.example/3"]
    assert found[0] == {"title": "A bold title & more", "url": "https://a.example/1", "snippet": "First line"}
    assert found[1]["title"] == "https://b.example/2"
    assert len(found[1]["snippet"]) == LONGEST_SNIPPET
    query = parse_qs(urlsplit(seen.target).query)
    match provider:
        case "brave":
            assert seen.headers["x-subscription-token"] == KEY
            assert (query["q"], query["count"]) == (["cats & dogs"], ["5"])
        case "tavily":
            assert seen.headers["authorization"] == f"Bearer {KEY}"
            assert json.loads(seen.body)["query"] == "cats & dogs"
        case _:
            assert (query["q"], query["format"]) == (["cats & dogs"], ["json"])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_failing_provider_gives_a_sentence_without_the_key(provider: str) -> None:
    cases = [
        (reply("401 Unauthorized", json.dumps({"detail": {"error": f"bad key {KEY}"}})), "401"),
        (reply("429 Too Many Requests", json.dumps({"error": {"message": "slow down"}})), "limits the rate"),
        (reply("500 Oops", "<html>broken"), "HTTP 500: <html>broken"),
        (reply(body="<html>a page"), "no JSON object"),
        (reply(body="[1]"), "no JSON object"),
        (reply(body=b'{"results": "' + b"x" * LARGEST_ANSWER + b'"}'), "more than 2,097,152 bytes"),
        (reply("302 Found", location="http://169.254.169.254/"), "HTTP 302"),
        (b"garbage\r\n\r\n", "could not be reached"),
    ]
    for answer, said in cases:
        async with stead_with(provider, answer) as (stead, _):
            result = await search(stead)
            assert result.failure is Failure.TOOL, (said, result.text)
            assert said in result.text
            assert KEY not in result.text or provider == "searxng"  # which has no key
    async with stead_with(provider, lambda _: asyncio.Event().wait(), timeout=0.2) as (stead, _):
        assert "no complete answer within 0.2 seconds" in (await search(stead)).text


@pytest.mark.requires("models")
async def test_gemini_searches_with_grounding() -> None:
    async with scripted_models(SCRIPT) as api:
        environ = {name: value for name, value in api.environ().items() if name.startswith("GOOGLE")}
        async with memory_stead(environ=environ) as stead:
            result = await search(stead, "blue whales")
            assert json.loads(result.text) == [
                {
                    "title": "whales.example",
                    "url": "https://whales.example/blue",
                    "snippet": "Blue whales are the largest animals.",
                },
                {"title": "sea.example", "url": "https://sea.example/", "snippet": "They eat krill."},
            ]
            assert json.loads((await search(stead, "nothing")).text) == []
            assert "Google limits the rate of searches (429)" in (await search(stead, "fail")).text
        asked = api.requests[0]
        assert asked.body["tools"] == [{"google_search": {}}]
        assert asked.headers["x-goog-api-key"] == environ["GOOGLE_API_KEY"]
        assert asked.model == next(vendor.model for vendor in catalogue.VENDORS if vendor.name == "google")


def test_the_key_and_the_address_of_gemini_are_those_of_its_models() -> None:
    google = next(vendor for vendor in catalogue.VENDORS if vendor.name == "google")
    search_vendor = VENDORS["gemini"]
    assert (search_vendor.keys, search_vendor.urls, search_vendor.url) == (google.keys, google.urls, google.url)


async def test_without_a_provider_it_is_hidden_with_its_reason_and_unknown_to_every_caller() -> None:
    async with memory_stead() as stead:
        assert "web_search" not in [tool.name for tool in stead.registry.list_tools()]
        assert stead.registry.get_tool_info("web_search") is None
        assert stead.registry.holds("web_search")
        hidden = stead._parts.registry.current.hidden["web_search"]
        assert "set GOOGLE_API_KEY, BRAVE_API_KEY or TAVILY_API_KEY" in hidden
        with pytest.raises(UnknownToolError):
            await search(stead)
        async with connect(stead) as client:
            assert "web_search" not in [tool.name for tool in (await client.list_tools()).tools]
        assert "web_search" not in json.dumps(stead.registry.to_tool_definitions("openai"))


async def test_the_setting_chooses_the_provider_and_a_change_applies_at_once() -> None:
    keys = {"BRAVE_API_KEY": KEY, "TAVILY_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    expected = {
        "auto": None,
        "brave": None,
        "none": 'the web is not searched: [plugins.web] search = "none"',
        "searxng": '[plugins.web] search = "searxng" needs [plugins.web] searxng_url',
    }
    async with memory_stead(environ=keys) as stead:
        for setting, reason in expected.items():
            await stead.plugins.change_plugin("web", settings={"search": setting})
            assert stead._parts.registry.current.hidden.get("web_search") == reason
            assert stead.registry.has_tool("web_search") is (reason is None)
        await stead.plugins.change_plugin("web", settings={"searxng_url": "http://127.0.0.1:9"})
        assert stead.registry.has_tool("web_search")
        assert "SearXNG (http://127.0.0.1:9) could not be reached" in (await search(stead)).text
        await stead.plugins.change_plugin("web", enabled=False)
        assert not stead.registry.holds("web_search")
    for wanted, needs in (("brave", "BRAVE_API_KEY"), ("gemini", "GOOGLE_API_KEY or GEMINI_API_KEY")):
        async with memory_stead(settings={"plugins": {"web": {"search": wanted}}}) as stead:
            assert stead._parts.registry.current.hidden["web_search"].endswith(f"needs {needs}")


async def test_a_plugin_of_the_users_searches_too(tmp_path: Path) -> None:
    body = json.dumps(PROVIDERS["tavily"][1])
    async with stead_with("tavily", reply(body=body, content_type="application/json")) as (stead, _):
        context = stead._parts.plugins.context_for("mine")
        assert [found.url for found in await context.search("cats", max_results=1)] == ["https://a.example/1"]
