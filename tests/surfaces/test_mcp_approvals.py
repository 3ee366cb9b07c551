"""Approvals at MCP clients: a real client's person gets a link or a form, and whoever decides first decides."""

from __future__ import annotations

import asyncio
import html
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.programs.clients import EVERY_WAY, Door, Era, connected, text_of
from tests.programs.running import MODERN, PROGRAMS, modern_meta, served, text_in
from tests.surfaces.http_wire import HttpWire, json_of
from tests.surfaces.test_mcp_fast_path_attack import RIGHT
from tests.waiting import PATIENCE, until
from toolstead import Tool
from toolstead.testing import memory_stead
from toolstead.types.call import Ask, Decision, ToolCall

ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])
SERVER = [sys.executable, str(PROGRAMS / "careful_server.py")]
Answer = Callable[[Any], Awaitable[mcp_types.ElicitResult]]


def form(action: Any, **content: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action=action, content=content or None)


@dataclass
class Place:
    """A client of a server whose gate asks, and a browser beside it."""

    folder: Path
    client: Client
    answer: Answer | None = None
    asked: list[Any] = field(default_factory=list[Any])
    address: str = ""

    @property
    def sent(self) -> list[str]:
        file = self.folder / "sent.txt"
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    async def private_token(self) -> str:
        ((server,),) = json.loads(await text_in(self.folder / "home" / "data" / "server.json")).values()
        return server["token"]

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx2.AsyncClient]:
        async with httpx2.AsyncClient(base_url=self.address, timeout=PATIENCE) as browser:
            yield browser

    async def pending(self) -> list[Any]:
        async with self.browser() as person:
            headers = {"Authorization": f"Bearer {await self.private_token()}"}
            return (await person.get("/api/approvals", headers=headers)).json()["approvals"]

    async def decide(self, decision: str) -> None:
        (waiting,) = await until(self.pending)
        async with self.browser() as person:
            headers = {"Authorization": f"Bearer {await self.private_token()}"}
            place = f"/api/approvals/{waiting['id']}"
            assert (await person.post(place, json={"decision": decision}, headers=headers)).status_code == 200

    async def send(self, to: str) -> mcp_types.CallToolResult:
        return await self.client.call_tool("send", {"to": to})


@asynccontextmanager
async def place(
    door: Door, era: Era, folder: Path, *settings: str, answer: Answer | None = None
) -> AsyncIterator[Place]:
    """Connected to a server of its own; what it is asked is answered like this."""
    home, file = {"TOOLSTEAD_HOME": str(folder / "home")}, str(folder / "sent.txt")
    here: Place

    async def take(context: Any, params: Any) -> mcp_types.ElicitResult:
        here.asked.append(params)
        assert here.answer is not None
        return await here.answer(params)

    if door == "http":
        async with (
            served([*SERVER, "http", file, *settings], folder, env=home) as (_, address),
            connected(f"{address}/mcp", era, elicitation_callback=take) as client,
        ):
            here = Place(folder, client, answer, address=address)
            yield here
        return
    command, *arguments = [*SERVER, "stdio", file, *settings]
    with (folder / "stderr.txt").open("w") as errors:
        params = StdioServerParameters(command=command, args=arguments, cwd=folder, env={**os.environ, **home})
        async with connected(stdio_client(params, errlog=errors), era, elicitation_callback=take) as client:
            here = Place(folder, client, answer)
            yield here


def origin_of_form(page: httpx2.Response, address: str) -> str:
    """What browsers send as the origin of a page's form that leads to its own server (the Fetch standard)."""
    return "null" if page.headers["referrer-policy"] == "no-referrer" else address


@ERAS
@pytest.mark.promise("B10")
async def test_a_link_leads_to_a_page_where_only_the_private_token_decides(era: Era, tmp_path: Path) -> None:
    async with place("http", era, tmp_path) as here:

        async def visit(params: mcp_types.ElicitRequestURLParams) -> mcp_types.ElicitResult:
            assert params.url.startswith(f"{here.address}/approvals/approval_")
            async with here.browser() as person:
                stranger = await person.get(params.url)
                assert stranger.status_code == 403
                assert "emmeline" not in stranger.text
                for way in ("allow", "deny"):
                    assert (await person.post(f"{params.url}/{way}")).status_code == 403
                wrong = await person.get(params.url, params={"token": "guessed"})
                assert wrong.status_code == 403
                entered = await person.get(params.url, params={"token": await here.private_token()})
                assert (entered.status_code, entered.headers["location"]) == (
                    303,
                    params.url.removeprefix(here.address),
                )
                page = await person.get(params.url)
                assert page.status_code == 200
                assert html.escape('"to": "emmeline <b>\\u{202e}"') in page.text
                assert "it goes to &lt;others&gt;" in page.text
                policy = page.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "script" not in policy + page.text
                assert "frame-ancestors 'none'" in policy
                foreign = await person.post(f"{params.url}/allow", headers={"Origin": "http://evil.example"})
                assert (foreign.status_code, here.sent) == (403, [])
                allowed = await person.post(
                    f"{params.url}/allow", headers={"Origin": origin_of_form(page, here.address)}
                )
                assert allowed.status_code == 303
                assert "Decided: allow" in (await person.get(params.url)).text
                late = await person.post(f"{params.url}/deny", headers={"Origin": here.address})
                assert late.status_code == 303
                assert "Decided: allow" in (await person.get(allowed.headers["location"])).text
            return form("accept")

        here.answer = visit
        done = await here.send("emmeline <b>\u202e")
        assert (text_of(done), done.is_error) == ("sent to emmeline <b>\u202e", False)
        assert len(here.asked) == 1


@ERAS
@pytest.mark.promise("B10")
async def test_behind_a_proxy_the_link_and_the_cookie_are_those_of_the_public_url(era: Era, tmp_path: Path) -> None:
    public = "https://stead.example.org:8443"
    async with place("http", era, tmp_path, f"server.public_url={public}/") as here:

        async def visit(params: mcp_types.ElicitRequestURLParams) -> mcp_types.ElicitResult:
            assert params.url.startswith(f"{public}/approvals/approval_")
            path = params.url.removeprefix(public)
            async with here.browser() as person:
                token = {"token": await here.private_token()}
                near = await person.get(path, params=token)  # not by the proxy: over http no browser sends it
                assert "Secure" not in near.headers["set-cookie"]
            async with here.browser() as person:
                person.headers["Host"] = "stead.example.org"  # as nginx passes `$host` on, without the port
                entered = await person.get(path, params=token)
                assert entered.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
                shown = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
                foreign = await person.post(f"{path}/allow", headers={**shown, "Origin": "https://stead.example.org:1"})
                assert foreign.status_code == 403
                assert (await person.post(f"{path}/allow", headers={**shown, "Origin": public})).status_code == 303
            return form("accept")

        here.answer = visit
        assert text_of(await here.send("ada")) == "sent to ada"


@ERAS
@pytest.mark.promise("B10")
async def test_what_a_client_answers_to_a_link_decides_nothing(era: Era, tmp_path: Path) -> None:
    async def obey(params: Any) -> mcp_types.ElicitResult:
        assert isinstance(params, mcp_types.ElicitRequestURLParams)
        return form("accept", decision="allow")

    async with place("http", era, tmp_path, answer=obey) as here:
        calling = asyncio.create_task(here.send("ada"))
        await until(lambda: here.asked)
        (waiting,) = await until(here.pending)
        assert (waiting["decision"], here.sent, calling.done()) == (None, [], False)
        await here.decide("deny")
        assert (text_of(await calling), here.sent) == ("send was refused: a person denied it", [])
        here.answer = lambda _: asyncio.sleep(0, form("decline"))
        calling = asyncio.create_task(here.send("bob"))
        await here.decide("allow")
        assert text_of(await calling) == "sent to bob"


@ERAS
async def test_a_form_decides_where_the_user_set_that(era: Era, tmp_path: Path) -> None:
    async with place("stdio", era, tmp_path, "server.client_approvals=form") as here:
        for given, text in (
            (form("accept", decision="allow"), "sent to ada"),
            (form("accept", decision="deny", reason="not her"), "send was refused: not her"),
            (form("decline"), "send was refused: denied at the client 'mcp'"),
        ):
            here.answer = lambda _, given=given: asyncio.sleep(0, given)
            assert text_of(await here.send("ada")) == text
        assert here.sent == ["ada"]
        assert "it goes to <others>" in here.asked[0].message
        assert '"to": "ada"' in here.asked[0].message
        for undecided in (form("cancel"), form("accept", decision="maybe")):
            here.answer = lambda _, given=undecided: asyncio.sleep(0, given)
            assert "no answer within 0.3 seconds" in text_of(await here.send("quick"))
        asked = len(here.asked)
        long = await here.client.call_tool("send", {"to": "quick", "more": "x" * 8_000})
        assert "no answer within 0.3 seconds" in text_of(long)
        assert len(here.asked) == asked, "nobody is asked to allow what is not shown"


@ERAS
async def test_no_form_is_asked_unless_the_user_set_that(era: Era, tmp_path: Path) -> None:
    async with place("stdio", era, tmp_path) as here:
        assert "no answer within 0.3 seconds" in text_of(await here.send("quick"))
        assert (here.asked, here.sent) == ([], [])


@ERAS
async def test_the_first_decision_counts_and_a_later_one_at_the_client_does_not(era: Era, tmp_path: Path) -> None:
    async with place("http", era, tmp_path, "server.client_approvals=form") as here:

        async def be_late(params: Any) -> mcp_types.ElicitResult:
            await here.decide("deny")
            return form("accept", decision="allow")

        here.answer = be_late
        assert text_of(await here.send("ada")) == "send was refused: a person denied it"
        assert here.sent == []


async def test_a_question_at_the_client_is_withdrawn_when_it_was_decided_elsewhere(tmp_path: Path) -> None:
    withdrawn = asyncio.Event()

    async def think(params: Any) -> mcp_types.ElicitResult:
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return form("cancel")

    async with place("http", "handshake", tmp_path, answer=think) as here:
        calling = asyncio.create_task(here.send("ada"))
        await until(lambda: here.asked)
        await here.decide("allow")
        assert text_of(await calling) == "sent to ada"
        await asyncio.wait_for(withdrawn.wait(), PATIENCE)


async def test_a_form_that_is_answered_after_the_decision_decides_nothing(tmp_path: Path) -> None:
    """A client over HTTP that shows forms alone, word for word."""
    async with (
        place("http", "modern", tmp_path, "server.client_approvals=form") as here,
        HttpWire(here.address) as wire,
    ):

        async def send(**more: Any) -> Any:
            meta = modern_meta({"elicitation": {}})
            params = {"name": "send", "arguments": {"to": "ada"}, "_meta": meta, **more}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            about = [("Mcp-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "send")]
            (said,) = (await wire.post([*RIGHT, *about], json_of(message))).messages
            return said["result"]

        asked = await send()
        ((key, question),) = asked["inputRequests"].items()
        assert question["params"]["requestedSchema"]["properties"]["decision"]["enum"] == ["allow", "deny"]
        await here.decide("deny")
        yes = {"action": "accept", "content": {"decision": "allow"}}
        done = await send(requestState=asked["requestState"], inputResponses={key: yes})
        assert (done["content"][0]["text"], here.sent) == ("send was refused: a person denied it", [])


@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_clients_are_not_asked_where_that_is_off(door: Door, era: Era, tmp_path: Path) -> None:
    async with place(door, era, tmp_path, "server.client_approvals=none") as here:
        assert "no answer within 0.3 seconds" in text_of(await here.send("quick"))
        assert here.asked == []


async def test_an_agent_of_ours_is_not_asked_about_its_own_call() -> None:
    """The MCP servers that runtimes are given: whatever answers there is the model's own program."""
    asked: list[Any] = []

    async def gate(call: ToolCall) -> Decision:
        return Ask("it goes to others", timeout=0.2)

    async def send(ctx: Any, input: dict[str, Any], meta: Any) -> str:
        return "sent"

    async def obey(context: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params)
        return form("accept", decision="allow")

    settings = {"server": {"client_approvals": "form"}}
    tool = Tool(name="send", description="Send.", handler=send)
    async with memory_stead(tool, settings=settings, gates=[gate]) as stead:
        server = stead.registry.to_mcp_server_config()["instance"]
        async with Client(server, mode="legacy", elicitation_callback=obey) as client:
            assert "no answer within 0.2 seconds" in text_of(await client.call_tool("send"))
    assert asked == []
