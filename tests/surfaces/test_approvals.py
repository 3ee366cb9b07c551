"""A person is asked, with real processes: a plugin file that asks, `toolstead serve` and `toolstead mcp` that wait."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import TOOLSTEAD, Program, running, wire_to
from tests.surfaces.rest_server import Client, Reply
from tests.surfaces.rest_stead import follow
from tests.waiting import PATIENCE
from toolstead.app.server_file import ServerFile
from toolstead.orchestrator.approvals import STOPPED, WITHDRAWN

CAREFUL = """
import os
from pathlib import Path

from toolstead import Ask, Hooks, Plugin, Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 1},
        "within": {"type": "number", "default": 600},
        "sign": {"type": "string", "default": "yours"},
    },
    "required": ["to"],
    "additionalProperties": False,
}


async def send(ctx, input, meta):
    text = f"{os.getpid()} sent to {input['to']}, {input['sign']}"
    with Path(__file__).with_name("sent.txt").open("a") as file:
        file.write(text + "\\n")
    return text


async def careful(call):
    if call.name == "careful__send" and call.input["to"] != "myself":
        return Ask("it goes to " + call.input["to"], timeout=call.input["within"])


async def register(ctx):
    return Hooks(on_before_tool=careful)


plugin = Plugin(
    name="careful",
    version="1.0.0",
    register=register,
    tools=[Tool(name="send", description="Send it.", schema=SCHEMA, handler=send, timeout=1)],
)
"""
TOKEN = "the-general-token"

pytestmark = pytest.mark.promise("B10")


class Person(Client):
    """Somebody with the private token of a server, which is another process."""

    pid: int
    program: Program
    private: dict[str, str]

    async def approvals(self) -> Any:
        reply = await self.ask("GET", "/api/approvals", headers=self.private)
        assert reply.status == 200, reply.body
        return reply.json["approvals"]

    async def waiting(self) -> Any:
        """The one call that waits."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await self.approvals()):
                await asyncio.sleep(0.02)
        (one,) = found
        return one

    async def decide(self, approval_id: str, decision: str, **more: Any) -> Reply:
        return await self.ask("POST", f"/api/approvals/{approval_id}", {"decision": decision, **more}, self.private)

    def sending(self, to: str, **more: Any) -> asyncio.Task[Reply]:
        return asyncio.create_task(self.call("careful__send", {"to": to, **more}))

    async def resolved(self, approval_id: str) -> Any:
        """What the log says of how it was resolved: once."""
        stream = await follow(self, "/api/events?after=0&type=approval.resolved")
        while (event := await stream.next()) is not None:
            if event.data["data"]["approvalId"] == approval_id:
                await stream.close()
                return event.data["data"]
        raise AssertionError("the stream ended")


class Place:
    """A project, and the user's folder with the plugin in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder.resolve() / "project"
        self.home = Path(os.environ["TOOLSTEAD_HOME"])
        (self.project / ".toolstead").mkdir(parents=True)
        (self.home / "plugins").mkdir(parents=True)
        (self.home / "plugins/careful.py").write_text(CAREFUL)

    @property
    def sent(self) -> list[str]:
        path = self.home / "plugins" / "sent.txt"
        return path.read_text().splitlines() if path.exists() else []

    @asynccontextmanager
    async def serve(self, **environ: str) -> AsyncIterator[Person]:
        errors = self.folder / f"serve-{len(list(self.folder.glob('serve-*')))}.txt"
        command = [*TOOLSTEAD, "serve", "--port", "0"]
        async with running(command, errors=errors, cwd=self.project, env=environ) as program:
            await program.stderr_with("/docs")
            server = ServerFile(self.home / "data").find_server(self.project)
            assert server is not None, program.stderr
            assert server.pid == program.pid != os.getpid()
            person = Person(server.url)
            person.pid, person.program = program.pid, program
            person.private = {"Authorization": f"Bearer {server.token}"}
            try:
                yield person
            finally:
                person.leave()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
async def person(place: Place) -> AsyncIterator[Person]:
    async with place.serve() as person:
        yield person


def text(reply: Reply) -> str:
    assert reply.status == 200, reply.body
    return reply.json["content"][0]["text"]


async def test_a_call_is_allowed_denied_or_edited_by_a_person(person: Person, place: Place) -> None:
    assert text(await person.call("careful__send", {"to": "myself"})) == f"{person.pid} sent to myself, yours"
    calling = person.sending("ada")
    shown = await person.waiting()
    assert (shown["tool"], shown["askedBy"], shown["reason"]) == ("careful__send", "careful", "it goes to ada")
    assert shown["input"] == {"to": "ada", "within": 600, "sign": "yours"}
    assert len(place.sent) == 1
    assert (await person.decide(shown["id"], "allow")).status == 200
    assert text(await calling) == f"{person.pid} sent to ada, yours"

    calling = person.sending("bob")
    shown = await person.waiting()
    assert (await person.decide(shown["id"], "deny", reason="not on a Sunday")).status == 200
    assert text(await calling) == "careful__send was refused: not on a Sunday"

    calling = person.sending("everybody")
    shown = await person.waiting()
    for bad in ({"to": 5}, {"too": "ada"}, {"to": ""}):
        refused = await person.decide(shown["id"], "allow", input=bad)
        assert (refused.status, "/input" in refused.problem["detail"]) == (422, True)
    edited = await person.decide(shown["id"], "allow", input={"to": "carl"})
    assert (edited.status, edited.json["decidedInput"]["to"]) == (200, "carl")
    assert text(await calling) == f"{person.pid} sent to carl, yours", "with defaults, as any call has"
    assert await person.resolved(shown["id"]) == {
        "approvalId": shown["id"],
        "decision": "allow",
        "reason": "",
        "edited": True,
    }
    assert [line.split()[-2] for line in place.sent] == ["myself,", "ada,", "carl,"]


async def test_nobodys_answer_in_time_is_a_no(person: Person, place: Place) -> None:
    answer = await person.call("careful__send", {"to": "ada", "within": 0.2})
    assert text(answer) == "careful__send was refused: no answer within 0.2 seconds"
    for nonsense in (0, -1, 1e9):
        assert "was refused" in text(await person.call("careful__send", {"to": "ada", "within": nonsense}))
    assert (place.sent, await person.approvals()) == ([], [])


async def test_the_tools_deadline_does_not_run_while_a_person_thinks(person: Person) -> None:
    calling = person.sending("ada")
    shown = await person.waiting()
    await asyncio.sleep(2)  # twice what the tool may take
    await person.decide(shown["id"], "allow")
    assert text(await calling) == f"{person.pid} sent to ada, yours"


async def test_what_a_killed_server_asked_is_denied_by_the_next_one_and_told_once(place: Place) -> None:
    async with place.serve() as first:
        calling = first.sending("ada")
        shown = await first.waiting()
        first.program.process.kill()
        await first.program.ended()
        await asyncio.gather(calling, return_exceptions=True)
    async with place.serve() as second:
        assert second.pid != first.pid
        late = await second.decide(shown["id"], "allow")
        assert (late.status, late.problem["decision"], late.problem["reason"]) == (409, "deny", STOPPED)
        assert await second.resolved(shown["id"]) == {
            "approvalId": shown["id"],
            "decision": "deny",
            "reason": STOPPED,
            "edited": False,
        }
        assert (await second.approvals(), place.sent) == ([], [])
        assert (await second.decide("approval_unknown", "allow")).status == 404


async def test_of_two_people_at_once_one_decides(person: Person, place: Place) -> None:
    for _ in range(5):
        calling = person.sending("ada")
        shown = await person.waiting()
        replies = await asyncio.gather(
            person.decide(shown["id"], "allow"), person.decide(shown["id"], "deny", reason="no")
        )
        assert sorted(reply.status for reply in replies) == [200, 409]
        (won,) = (reply.json for reply in replies if reply.status == 200)
        (lost,) = (reply.problem for reply in replies if reply.status == 409)
        assert lost["decision"] == won["decision"] == (await person.resolved(shown["id"]))["decision"]
        before = len(place.sent)
        assert ("sent to ada" in text(await calling)) is (won["decision"] == "allow")
        assert len(place.sent) <= before + 1


async def test_a_caller_who_disconnects_withdraws_the_question(person: Person, place: Place) -> None:
    calling = person.sending("ada")
    shown = await person.waiting()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert (await person.resolved(shown["id"]))["reason"] == WITHDRAWN
    late = await person.decide(shown["id"], "allow")
    assert (late.status, late.problem["reason"], place.sent) == (409, WITHDRAWN, [])


async def test_what_a_server_on_stdio_asks_is_decided_at_another_process(person: Person, place: Place) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], place.project) as wire:
        assert wire.program.pid not in (person.pid, os.getpid())
        await wire.shake_hands()
        for decision, said in (("allow", f"{wire.program.pid} sent to ada, yours"), ("deny", "no thanks")):
            calling = asyncio.create_task(wire.call(f"call-{decision}", "careful__send", {"to": "ada"}))
            shown = await person.waiting()
            more = {"reason": "no thanks"} if decision == "deny" else {}
            assert (await person.decide(shown["id"], decision, **more)).status == 200
            answer = (await calling)["result"]
            assert (said in answer["content"][0]["text"], answer["isError"]) == (True, decision == "deny")
        calling = asyncio.create_task(wire.call("call-killed", "careful__send", {"to": "bob"}))
        shown = await person.waiting()
        wire.program.process.kill()
        await wire.program.ended()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        late = await person.decide(shown["id"], "allow")
        assert (late.status, late.problem["reason"]) == (409, STOPPED)
    assert place.sent == [f"{wire.program.pid} sent to ada, yours"]


async def test_whoever_has_not_the_private_token_is_refused_and_the_call_waits_on(place: Place) -> None:
    async with place.serve(TOOLSTEAD_TOKEN=TOKEN) as person:
        general = {"Authorization": f"Bearer {TOKEN}"}
        calling = asyncio.create_task(
            person.ask("POST", "/api/tools/careful__send/call", {"input": {"to": "ada"}}, general)
        )
        shown = await person.waiting()
        for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), (general, 403)):
            for method, path, body in (
                ("GET", "/api/approvals", None),
                ("POST", f"/api/approvals/{shown['id']}", {"decision": "allow"}),
            ):
                refused = await person.ask(method, path, body, headers)
                assert (refused.status, b"ada" in refused.body) == (status, False)
        assert (await person.waiting(), place.sent) == (shown, [])
        await person.decide(shown["id"], "deny")
        assert "was refused" in text(await calling)


async def test_hidden_characters_in_what_is_asked_are_shown_to_the_person(person: Person) -> None:
    to = "ada\u200b\u202emoc.elpmaxe@\U000e0041"
    calling = person.sending(to)
    shown = await person.waiting()
    assert shown["input"]["to"] == to, "as it is: this is what would run"
    assert "ada\\u{200b}\\u{202e}moc.elpmaxe@\\u{e0041}" in shown["shown"]["input"]
    assert shown["shown"]["reason"] == "it goes to ada\\u{200b}\\u{202e}moc.elpmaxe@\\u{e0041}"
    await person.decide(shown["id"], "deny")
    await calling


async def test_a_disabled_gate_asks_nobody_and_a_question_that_waits_stays(person: Person, place: Place) -> None:
    calling = person.sending("ada")
    shown = await person.waiting()
    changing = asyncio.create_task(person.ask("PATCH", "/api/plugins/careful", {"enabled": False}, person.private))
    assert (await person.waiting())["id"] == shown["id"], "who asked waits for the answer"
    await person.decide(shown["id"], "allow")
    assert (await changing).json["state"] == "disabled"
    assert "sent to ada" in text(await calling) or "was stopped meanwhile" in text(await calling)
    assert (await person.call("careful__send", {"to": "bob"})).status == 404
