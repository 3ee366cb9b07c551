"""The documentation: the OpenAPI document, the page made from it, and `docs/http.md`."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.surfaces.fake_plugins import FakePlugins
from tests.surfaces.rest_server import SAY, Live
from tests.surfaces.rest_server import running as running_with
from toolstead import Toolstead
from toolstead.adapters.http.asgi import Receive, Scope, Send
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.rest.problems import KINDS
from toolstead.adapters.rest.run_routes import HANDLE, RESULTS_PATH
from toolstead.app.shown_state import explain_settings, list_sessions
from toolstead.app.stead_tasks import SteadTasks
from toolstead.app.stead_tool_files import SteadToolFiles
from toolstead.app.stead_trust import SteadTrust
from toolstead.errors import StorageError
from toolstead.orchestrator.approvals import Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.types.result import RESULTS

HTTP_PAGE = Path(__file__).parents[2] / "docs" / "http.md"
PRIVATE = "the-private-token"
ROUTE = re.compile(r"^\| `(GET|POST|PUT|PATCH|DELETE) (/[^`]*)` \|", re.MULTILINE)


REACHED = ("/docs#storage", "/docs#unknown-tool-file", "/docs#bad-body")
OVERLAPS = {"/api/tools/reload": {"GET"}, "/api/tool-files/check": {"GET", "PUT", "DELETE"}}
"""What a tool or a file that is called so has at the same address."""


async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def no_database() -> Any:
    raise StorageError("there is no database here")


class NoAgents:
    """Every name is that of an agent without anything."""

    async def list_agents(self) -> Any:
        return [], []

    async def describe_agent(self, name: str) -> Any:
        return {"name": name}

    async def explain_tools(self, name: str, profile: str | None) -> Any:
        return []


def running(*tools: Any, **given: Any) -> AbstractAsyncContextManager[Live]:
    """A server with every route there is."""
    parts = Toolstead(Path.cwd(), project_tools=False)._parts
    approvals = Approvals(open_store=no_database, log=EventLog())
    every: dict[str, Any] = {
        "conversations": no_database,
        "plugins": FakePlugins("say"),
        "approvals": approvals,
        "agents": NoAgents(),
        "files": no_database,
        "tasks": SteadTasks(no_database, Path.cwd()),
        "owner": (partial(explain_settings, parts), partial(list_sessions, parts)),
        "trust": SteadTrust(parts),
        "tool_files": SteadToolFiles(parts),
    }
    return running_with(*tools, private_token=PRIVATE, **every, **given)


def routes_of(document: Any) -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}


class Page(HTMLParser):
    """What a browser would load, run and jump to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a":
            self.links.append(str(given["href"]))
        self.loads += [str(given[name]) for name in ("src", "data", "srcset") if name in given]
        if tag == "link":
            self.loads.append(str(given["href"]))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("with_mcp", [False, True])
@pytest.mark.parametrize("token", ["", "s3cret"])
async def test_the_openapi_document_is_valid_and_describes_exactly_the_routes_that_exist(
    with_mcp: bool, token: str
) -> None:
    async with running(SAY, mcp=mcp if with_mcp else None, token=token) as live:
        reply = await live.get("/openapi.json", authorization="Bearer s3cret")
        assert reply.headers["content-type"] == "application/json"
        document = reply.json
        OpenAPIV31SpecValidator(document).validate()
        assert document["info"]["version"] == "1.2.3"
        # A handle may also be written as an address, which is another form of the same path.
        endpoints = [endpoint for endpoint in live.app.routes.endpoints if "://" not in endpoint.path]
        table = {(endpoint.method, endpoint.path) for endpoint in endpoints}
        extra = {(method, "/mcp") for method in ("GET", "POST", "DELETE")} if with_mcp else set()
        alias = {("GET", RESULTS_PATH + RESULTS + HANDLE)}  # another spelling of a path that is described
        assert routes_of(document) == table - alias | extra
        assert ("security" in document) is bool(token)


async def test_every_route_of_the_document_is_there_and_no_other_method_is() -> None:
    async with running(SAY, mcp=mcp) as live:
        routes = routes_of(await live.document())
        for method, path in routes:
            bodies = {
                "/api/plugins/{name}": {"enabled": True},
                "/api/approvals/{id}": {"decision": "deny"},
                "/api/trust": {"decision": "revoke"} if method == "POST" else None,
                "/api/tool-files/check": {"text": "{}"},
            }
            private = {"Authorization": f"Bearer {PRIVATE}"}
            reply = await live.ask(method, path.replace("{name}", "say"), bodies.get(path), private)
            reached = reply.status in (200, 307) or reply.problem["type"] in REACHED
            assert reached, (method, path)
        for path in {path for _, path in routes} - {"/mcp"}:
            described = {method for method, found in routes if found == path}
            allowed = (await live.ask("OPTIONS", path.replace("{name}", "x"))).headers["allow"].split(", ")
            overlap = OVERLAPS.get(path, set())
            assert set(allowed) - {"HEAD", "OPTIONS"} == described | overlap


@pytest.mark.parametrize("token", ["", "s3cret"])
async def test_the_page_says_of_each_route_which_token_it_needs_as_the_document_does(token: str) -> None:
    async with running(SAY, mcp=mcp, token=token) as live:
        document = (await live.get("/openapi.json", authorization="Bearer s3cret")).json
        page = (await live.get("/docs", authorization="Bearer s3cret")).body.decode()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    found = {"public": 0, "private": 0}
    for operation in operations:
        article = page.partition(f'<article id="{operation["operationId"]}"')[2].partition("</article>")[0]
        security = operation.get("security", document.get("security", []))
        private, public = security == [{"privateToken": []}], not security
        found["public"] += public
        found["private"] += private
        assert ("Needs the private token" in article) is private, operation["operationId"]
        assert ("Authorization: Bearer" in article.partition("<h4>Example")[2]) is not public, operation["operationId"]
    assert min(found.values()) >= 2


async def test_every_example_fits_the_shape_it_stands_beside() -> None:
    async with running(SAY, mcp=mcp) as live:
        document = await live.document()
        checked = 0
        for media in _media(document["paths"]):
            if "example" in media:
                schema = {**media["schema"], "components": document["components"]}
                assert not [
                    error.message for error in jsonschema_rs.validator_for(schema).iter_errors(media["example"])
                ]
                checked += 1
        assert checked >= 6


def _media(node: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(node, dict):
        if "schema" in node:
            found.append(node)
        for item in node.values():
            found += _media(item)
    elif isinstance(node, list):
        for item in node:
            found += _media(item)
    return found


async def _page(live: Live) -> Page:
    reply = await live.get("/docs")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    return Page(reply.body.decode())


async def test_the_page_shows_every_route_with_an_example_that_names_the_address_it_was_asked_by() -> None:
    async with running(SAY, mcp=mcp) as live:
        page = await _page(live)
        text = "".join(page.text)
        for method, path in routes_of(await live.document()):
            assert path in text
            assert method in text
        assert f"curl http://127.0.0.1:{live.port}/api/tools" in text
        assert "toolstead.invalid" not in text


async def test_the_page_loads_nothing_runs_nothing_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    async with running(SAY, mcp=mcp, console=tmp_path) as live:
        page = await _page(live)
        assert "script" not in page.tags
        assert all(load.startswith("data:") for load in page.loads)
        assert len(page.ids) == len(set(page.ids))
        for link in page.links:
            if link.startswith("#"):
                assert link[1:] in page.ids, link
            else:
                assert (await live.get(link, accept="text/html")).status == 200, link


async def test_every_problem_has_its_place_on_the_page() -> None:
    async with running(SAY) as live:
        page = await _page(live)
        for kind in KINDS:
            assert kind.slug in page.ids
        refused = (await live.get("/nowhere")).problem
        assert refused["type"].removeprefix("/docs#") in page.ids


async def test_a_strange_host_header_is_not_written_into_the_page_as_it_is() -> None:
    async with running(SAY) as live:
        reply = await live.get("/docs", host="[::1]:8420")
        assert b"curl http://[::1]:8420/api/tools" in reply.body
        refused = await live.get("/docs", host="<script>alert(1)</script>")
        assert (refused.status, refused.headers["content-type"]) == (421, "application/problem+json")


async def test_the_http_page_lists_every_route_every_problem_and_every_setting() -> None:
    text = HTTP_PAGE.read_text("utf-8")
    async with running(SAY, mcp=mcp) as live:
        assert set(ROUTE.findall(text)) == routes_of(await live.document())
    for kind in KINDS:
        assert f"| {kind.status} | `{kind.slug}` |" in text
    for setting in ServerOptions.__dataclass_fields__.keys() - {"private_token"}:  # which is made, not set
        assert f"`{setting}`" in text
