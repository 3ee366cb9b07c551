"""Approvals over HTTP: a call through any door waits, a person sees it and decides, here or for another process."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page_blocks import read_blocks, read_commands
from tests.programs import running as programs
from tests.surfaces.rest_server import Client, Reply, nothing_left, running, tool
from tests.surfaces.rest_stead import SCRIPT, ended, follow, settings_of
from tests.waiting import PATIENCE
from toolstead import Toolstead
from toolstead.app.server_file import ServerFile
from toolstead.errors import StorageError
from toolstead.orchestrator.approvals import CLOSING, STOPPED, WITHDRAWN, Approvals
from toolstead.orchestrator.event_log import EventLog
from toolstead.types.call import Ask, Decision, ToolCall

HTTP_PAGE = Path(__file__).parents[2] / "docs" / "http.md"
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string", "minLength": 1}},
    "required": ["to"],
    "additionalProperties": False,
}
SENDING = f"""
- when: ^send
  call: [{{tool: send, input: {{to: everybody}}}}]
- say: "It says: {{{{result}}}}"
{SCRIPT}"""


class Person(Client):
    """Somebody who has the private token, and the stead that asks them."""

    stead: Toolstead
    sent: list[str]
    private: dict[str, str]

    async def approvals(self) -> Any:
        reply = await self.ask("GET", "/api/approvals", headers=self.private)
        assert reply.status == 200, reply.body
        return reply.json["approvals"]

    async def waiting(self) -> Any:
        """The one call that waits."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await self.approvals()):
                await asyncio.sleep(0.01)
        (one,) = found
        return one

    async def decide(self, approval_id: str, body: Any) -> Reply:
        return await self.ask("POST", f"/api/approvals/{approval_id}", body, self.private)

    def calling(self, input: Any, **more: Any) -> asyncio.Task[Reply]:
        return asyncio.create_task(self.call("send", input, **more))

    async def told(self) -> list[tuple[str, Any]]:
        stream = await follow(self, "/api/events?after=0&type=approval.requested,approval.resolved")
        found: list[tuple[str, Any]] = []
        while len(found) < 2:
            event = await stream.next()
            assert event is not None
            found.append((event.type, event.data))
        await stream.close()
        return found


async def careful(call: ToolCall) -> Decision:
    if call.name == "send" and call.input["to"] != "myself":
        return Ask("it goes to others", timeout=0.1 if call.input["to"] == "quick" else 600)
    return None


@asynccontextmanager
async def asked(folder: Path, gate: Callable[[ToolCall], Awaitable[Decision]] = careful) -> AsyncIterator[Person]:
    """A stead with a gate that asks, served."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (folder / "script.yaml").write_text(SENDING)
    sent: list[str] = []

    async def send(input: dict[str, Any]) -> str:
        sent.append(input["to"])
        return f"sent to {input['to']}"

    async with Toolstead(project, settings=settings_of(folder / "script.yaml"), gates=[gate], watch=False) as stead:
        stead.registry.register(tool("send", send, schema=SCHEMA, timeout=0.5))
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(
            stead.serve_http(port=0, on_ready=lambda address: ready.set_result(address.url), stop=stop)
        )
        person = Person(await asyncio.wait_for(ready, PATIENCE))
        person.stead, person.sent = stead, sent
        server = ServerFile(stead.places.data).find_server(stead.places.project)
        assert server is not None
        person.private = {"Authorization": f"Bearer {server.token}"}
        try:
            yield person
        finally:
            person.leave()
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


@pytest.fixture
async def person(tmp_path: Path) -> AsyncIterator[Person]:
    async with asked(tmp_path) as person:
        yield person


@pytest.mark.promise("B10")
async def test_a_call_waits_until_a_person_who_sees_it_allows_it(person: Person) -> None:
    assert await person.approvals() == []
    calling = person.calling({"to": "everybody"}, threadId="th")
    shown = await person.waiting()
    assert (shown["tool"], shown["input"], shown["reason"]) == ("send", {"to": "everybody"}, "it goes to others")
    assert (shown["threadId"], shown["runId"], shown["decision"]) == ("th", None, None)
    assert shown["expiresAt"] == shown["requestedAt"] + 600
    assert (calling.done(), person.sent) == (False, [])
    reply = await person.decide(shown["id"], {"decision": "allow"})
    assert (reply.status, reply.json["decision"], reply.json["decidedInput"]) == (200, "allow", None)
    assert (await calling).json["content"] == [{"type": "text", "text": "sent to everybody"}]
    assert person.sent == ["everybody"]
    assert await person.approvals() == []
    (_, requested), (_, resolved) = await person.told()
    assert requested["data"]["approvalId"] == resolved["data"]["approvalId"] == shown["id"]
    assert requested["threadId"] == resolved["threadId"] == "th"
    assert resolved["data"] | {"approvalId": ""} == {
        "approvalId": "",
        "decision": "allow",
        "reason": "",
        "edited": False,
    }


async def test_waiting_does_not_use_up_the_tools_own_deadline(person: Person) -> None:
    calling = person.calling({"to": "everybody"})
    shown = await person.waiting()
    await asyncio.sleep(0.6)  # longer than the tool may take
    await person.decide(shown["id"], {"decision": "allow"})
    assert (await calling).json["isError"] is False


async def test_a_no_is_read_by_the_model_and_nothing_is_sent(person: Person) -> None:
    calling = person.calling({"to": "everybody"})
    shown = await person.waiting()
    await person.decide(shown["id"], {"decision": "deny", "reason": "not on a Sunday"})
    answer = (await calling).json
    assert (answer["isError"], answer["content"][0]["text"]) == (True, "send was refused: not on a Sunday")
    assert person.sent == []


async def test_a_person_may_write_other_arguments_which_must_fit(person: Person) -> None:
    calling = person.calling({"to": "everybody"})
    shown = await person.waiting()
    refused = await person.decide(shown["id"], {"decision": "allow", "input": {"to": 5, "cc": 1}})
    assert (refused.status, refused.problem["type"]) == (422, "/docs#bad-body")
    assert "/input: /to" in refused.problem["detail"]
    assert (await person.waiting())["id"] == shown["id"]
    reply = await person.decide(shown["id"], {"decision": "allow", "input": {"to": "ada"}})
    assert reply.json["decidedInput"] == {"to": "ada"}
    assert (await calling).json["content"][0]["text"] == "sent to ada"
    assert person.sent == ["ada"]


async def test_the_http_page_shows_what_waits_and_how_it_is_allowed_with_other_arguments(person: Person) -> None:
    (block,) = (one for one in read_blocks(HTTP_PAGE) if "/api/approvals" in one.text)
    listing, deciding = read_commands(block)
    (listed,) = json.loads(listing.shown[0])["approvals"]
    calling = person.calling(listed["input"])
    waiting = await person.waiting()
    assert (waiting.keys(), waiting["shown"]) == (listed.keys(), {**listed["shown"], "reason": waiting["reason"]})
    words = shlex.split(deciding.line.replace(listed["id"], waiting["id"]))
    assert words[2].endswith(f"/api/approvals/{waiting['id']}")
    decided = await person.decide(waiting["id"], json.loads(words[words.index("-d") + 1]))
    assert decided.status == 200
    assert (await calling).json["content"][0]["text"] == "sent to ada@example.com"


async def test_a_second_decision_is_a_409_that_says_how_it_was_decided(person: Person) -> None:
    calling = person.calling({"to": "everybody"})
    shown = await person.waiting()
    await person.decide(shown["id"], {"decision": "deny", "reason": "no"})
    late = await person.decide(shown["id"], {"decision": "allow"})
    assert (late.status, late.problem["type"]) == (409, "/docs#approval-decided")
    assert (late.problem["decision"], late.problem["reason"]) == ("deny", "no")
    await calling
    assert person.sent == []


@pytest.mark.promise("B10")
async def test_nobodys_answer_is_a_no(person: Person) -> None:
    answer = (await person.call("send", {"to": "quick"})).json
    assert answer["content"][0]["text"] == "send was refused: no answer within 0.1 seconds"
    assert (answer["isError"], person.sent) == (True, [])


async def test_a_caller_who_leaves_withdraws_the_question(person: Person) -> None:
    calling = person.calling({"to": "everybody"})
    shown = await person.waiting()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    async with asyncio.timeout(PATIENCE):
        while await person.approvals():
            await asyncio.sleep(0.01)
    late = await person.decide(shown["id"], {"decision": "allow"})
    assert (late.status, late.problem["reason"]) == (409, WITHDRAWN)


async def test_a_run_waits_too_and_its_stream_tells_it_in_order(person: Person) -> None:
    run = (await person.ask("POST", "/api/runs", {"prompt": "send it"})).json
    shown = await person.waiting()
    assert (shown["runId"], shown["threadId"]) == (run["runId"], run["threadId"])
    await person.decide(shown["id"], {"decision": "allow"})
    assert (await ended(person, run["runId"]))["result"] == "It says: sent to everybody"
    stream = await follow(person, f"/api/runs/{run['runId']}/events")
    types = [event.type for event in await stream.rest()]
    await stream.close()
    order = ["tool_use", "approval.requested", "approval.resolved", "tool_result", "completed"]
    assert [kind for kind in types if kind in order] == order


async def test_a_cancelled_run_withdraws_its_question_before_its_own_end(person: Person) -> None:
    run = (await person.ask("POST", "/api/runs", {"prompt": "send it"})).json
    await person.waiting()
    assert (await person.ask("POST", f"/api/runs/{run['runId']}/cancel")).json["status"] == "cancelled"
    stream = await follow(person, f"/api/runs/{run['runId']}/events")
    told = [event for event in await stream.rest() if event.type in ("approval.resolved", "cancelled")]
    await stream.close()
    assert [event.type for event in told] == ["approval.resolved", "cancelled"]
    assert told[0].data["data"]["reason"] == WITHDRAWN
    assert (await person.approvals(), person.sent) == ([], [])


async def test_a_stead_that_closes_denies_what_waits(tmp_path: Path) -> None:
    async with nothing_left():
        async with asked(tmp_path) as person:
            calling = asyncio.create_task(person.stead.call("send", {"to": "everybody"}))
            shown = await person.waiting()
        result = await asyncio.wait_for(calling, PATIENCE)
        assert result.text == f"send was refused: {CLOSING}"
    async with asked(tmp_path) as person:
        late = await person.decide(shown["id"], {"decision": "allow"})
        assert (late.status, late.problem["reason"]) == (409, CLOSING)


@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer wrong"}], ids=["nothing", "wrong"])
@pytest.mark.promise("B10")
async def test_nobody_without_the_private_token_sees_or_decides_anything(person: Person, shown: Any) -> None:
    calling = person.calling({"to": "everybody"})
    waiting = await person.waiting()
    for method, path in (("GET", "/api/approvals"), ("POST", f"/api/approvals/{waiting['id']}")):
        body = {"decision": "allow"} if method == "POST" else None
        refused = await person.ask(method, path, body, shown)
        assert (refused.status, refused.problem["type"]) == (403, "/docs#private")
        assert b"everybody" not in refused.body
    assert (await person.waiting(), person.sent) == (waiting, [])
    await person.decide(waiting["id"], {"decision": "deny"})
    await calling


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, ""),
        ({}, 422, "decision"),
        ({"decision": "maybe"}, 422, "/decision"),
        ({"decision": None}, 422, "/decision"),
        ({"decision": "allow", "input": [1]}, 422, "/input"),
        ({"decision": "deny", "input": {}}, 422, "/input: a denied call takes none"),
        ({"decision": "deny", "reason": 5}, 422, "/reason"),
        ({"decision": "deny", "reason": "x" * 2_001}, 422, "/reason"),
        ({"decision": "allow", "inputs": {}}, 422, "input"),
        ([], 422, "object"),
    ],
)
async def test_what_is_no_decision_is_refused_by_name(person: Person, body: Any, status: int, said: str) -> None:
    calling = person.calling({"to": "everybody"})
    waiting = await person.waiting()
    refused = await person.decide(waiting["id"], body)
    assert refused.status == status
    assert said in refused.problem["detail"]
    assert await person.waiting() == waiting
    reply = await person.decide(waiting["id"], {"decision": "deny", "input": None, "reason": None})
    assert reply.status == 200
    await calling


@pytest.mark.parametrize("name", ["nobody", "a%00b", "%F0%9F%90%A6"])
async def test_an_unknown_approval_is_a_404(person: Person, name: str) -> None:
    refused = await person.decide(name, {"decision": "allow"})
    assert (refused.status, refused.problem["type"]) == (404, "/docs#unknown-approval")
    assert ("null character" in refused.problem["detail"]) is ("%00" in name)  # for which no database is asked


async def test_a_database_that_does_not_answer_is_a_503() -> None:
    async def closed() -> Any:
        raise StorageError("toolstead.db cannot be opened")

    approvals = Approvals(open_store=closed, log=EventLog())
    async with running(approvals=approvals, private_token="private") as live:
        for method, path in (("GET", "/api/approvals"), ("POST", "/api/approvals/x")):
            body = {"decision": "deny"} if method == "POST" else None
            reply = await live.ask(method, path, body, {"Authorization": "Bearer private"})
            assert (reply.status, reply.problem["detail"]) == (503, "toolstead.db cannot be opened.")
            assert "retry-after" in reply.headers


_ELSEWHERE = """
import asyncio, os, sys
from toolstead import Toolstead, tool
from toolstead.types.call import Ask

async def careful(call):
    return Ask("it goes to others", timeout=600)

@tool
async def send(to: str) -> str:
    "Send it."
    return f"process {os.getpid()} sent to {to}"

async def main():
    async with Toolstead(sys.argv[1], gates=[careful], watch=False) as stead:
        stead.registry.register(send)
        print(os.getpid(), flush=True)
        print((await stead.call("send", {"to": "everybody"})).text, flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def asking_elsewhere(person: Person, folder: Path) -> AsyncIterator[programs.Program]:
    """Another process of the same user, in which a call waits."""
    command = [sys.executable, "-c", _ELSEWHERE, str(person.stead.places.project)]
    async with programs.running(command, errors=folder / "elsewhere.txt", cwd=folder) as program:
        pid = (await program.line()).decode().strip()
        assert pid == str(program.pid) != str(os.getpid()), program.stderr
        yield program


@pytest.mark.promise("B10")
async def test_a_call_of_another_process_is_shown_and_decided_here(person: Person, tmp_path: Path) -> None:
    async with asking_elsewhere(person, tmp_path) as program:
        shown = await person.waiting()
        reply = await person.decide(shown["id"], {"decision": "allow", "input": {"to": "ada"}})
        assert reply.status == 200, reply.body
        assert (await program.line()).decode() == f"process {program.pid} sent to ada\n"
        assert await program.ended() == 0


@pytest.mark.promise("B10")
async def test_what_a_killed_process_asked_is_denied_and_can_never_be_allowed(person: Person, tmp_path: Path) -> None:
    async with asking_elsewhere(person, tmp_path) as program:
        shown = await person.waiting()
        program.process.kill()
        await program.ended()
    late = await person.decide(shown["id"], {"decision": "allow"})
    assert (late.status, late.problem["reason"]) == (409, STOPPED)
    assert await person.approvals() == []
    kinds = await person.told()
    assert [kind for kind, _ in kinds] == ["approval.requested", "approval.resolved"]
    assert kinds[1][1]["data"]["decision"] == "deny"
