"""docs/web.md: its settings are the plugin's, and its examples are answers of the tools."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec

from tests.flows.http_internet import reply, serving
from toolstead.extensions.web.settings import WebSettings
from toolstead.testing import memory_stead

PAGE = (Path(__file__).parents[2] / "docs" / "web.md").read_text("utf-8")


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_settings_are_shown_with_their_defaults() -> None:
    assert tomllib.loads(block("toml"))["plugins"]["web"] == msgspec.to_builtins(WebSettings())


async def test_the_shown_answers_are_those_of_the_tools() -> None:
    text = block("text").split("</web_content>")[0]
    page = '<title>Sea otters</title><main><h1>Sea otters</h1><p>They sleep <a href="/hands">holding hands</a>.</main>'
    found = json.loads(block("json"))
    search = reply(body=json.dumps({"results": [{"content": one["snippet"], **one} for one in found]}))
    async with serving(lambda seen: search if "format=json" in seen.target else reply(body=page)) as server:
        origin = f"http://127.0.0.1:{server.port}"
        settings = {"tools": {"allowed_hosts": ["127.0.0.1"]}, "plugins": {"web": {"searxng_url": origin}}}
        async with memory_stead(settings=settings) as stead:
            fetched = await stead.call("web_fetch", {"url": f"{origin}/otters"})
            assert fetched.text.split("</web_content>")[0] == text.replace("https://example.org", origin)
            assert json.loads((await stead.call("web_search", {"query": "otters"})).text) == found
