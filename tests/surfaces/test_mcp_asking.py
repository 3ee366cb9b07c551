"""Calls that ask their client, in the protocol version without a back channel: real clients, stdio and HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types
import pytest
import pytest_asyncio
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from tests.programs.clients import Door, connected, in_a_task, target_of, text_of
from tests.programs.running import MODERN, TOOL_SERVER, ModernWire, modern_meta, running, served, text_in
from tests.surfaces.http_wire import HttpWire, json_of
from tests.surfaces.test_mcp_fast_path_attack import RIGHT
from tests.waiting import until
from toolstead.adapters.mcp.suspended_calls import MOST_ROUNDS

DOORS = pytest.mark.parametrize("door", ["stdio", "http"])
CAPABLE = {"elicitation": {}, "sampling": {}}


async def reader(context: Any, params: mcp_types.ElicitRequestFormParams) -> mcp_types.ElicitResult:
    """A person who answers everything with what was asked."""
    return mcp_types.ElicitResult(action="accept", content={"answer": params.message})


@dataclass(kw_only=True)
class Person:
    """A client that answers by hand, request by request."""

    client: Client
    folder: Path

    @property
    def notes(self) -> Path:
        return self.folder / "notes.txt"

    @property
    def lines(self) -> list[str]:
        """What the handler wrote down."""
        return self.notes.read_text(encoding="utf-8").splitlines() if self.notes.exists() else []

    async def noted(self, line: str) -> None:
        await until(lambda: line in self.lines)

    def arguments(self, *questions: str, **more: Any) -> dict[str, Any]:
        return {"file": str(self.notes), "questions": list(questions), **more}

    async def send(
        self, arguments: dict[str, Any], answers: dict[str, Any] | None = None, state: str | None = None
    ) -> Any:
        """One request; its answer as it is."""
        return await self.client.session.call_tool(
            "interview", arguments, input_responses=answers, request_state=state, allow_input_required=True
        )

    async def ask(self, arguments: dict[str, Any], *answered: Any) -> mcp_types.InputRequiredResult:
        asked = await self.send(arguments, *answered)
        assert isinstance(asked, mcp_types.InputRequiredResult), asked
        return asked


def says(text: str) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"answer": text})


def keys_of(asked: mcp_types.InputRequiredResult) -> list[str]:
    return list(asked.input_requests or {})


@asynccontextmanager
async def person_at(door: Door, folder: Path, *settings: str) -> AsyncIterator[Person]:
    """Connected to a server of its own."""
    async with (
        target_of(door, folder, *settings) as target,
        connected(target, "modern", elicitation_callback=reader) as client,
    ):
        yield Person(client=client, folder=folder)


@pytest_asyncio.fixture(params=["stdio", "http"])
async def person(request: Any, tmp_path: Path) -> AsyncIterator[Person]:
    async with in_a_task(person_at(request.param, tmp_path)) as person:
        yield person


@pytest.mark.promise("B13")
async def test_a_call_asks_in_several_rounds_and_runs_once(person: Person) -> None:
    answer = await person.client.call_tool("interview", person.arguments("who?", "where?", "why?"))
    assert [one["content"]["answer"] for one in answer.structured_content or ()] == ["who?", "where?", "why?"]
    assert person.lines == ["began", "ended"]
    together = await person.client.call_tool("interview", person.arguments("who?", "where?", together=True))
    assert [one["content"]["answer"] for one in together.structured_content or ()] == ["who?", "where?"]


@pytest.mark.promise("B13")
async def test_a_state_counts_once_and_only_for_the_call_it_was_given_to(person: Person) -> None:
    arguments = person.arguments("first?", "second?")
    first = await person.ask(arguments)
    (key,) = keys_of(first)
    assert first.request_state is not None
    state = first.request_state
    for other, wrong in (({**arguments, "more": 1}, state), (arguments, state + "x"), (arguments, state[:-1])):
        with pytest.raises(
            MCPError, match=r"this requestState is not valid .*send the request again without"
        ) as caught:
            await person.send(other, {key: says("stolen")}, wrong)
        assert caught.value.code == mcp_types.INVALID_PARAMS
    second = await person.ask(arguments, {key: says("one")}, state)
    assert second.request_state != state
    with pytest.raises(MCPError, match="or it was sent before"):
        await person.send(arguments, {key: says("again")}, state)
    done = await person.send(arguments, {keys_of(second)[0]: says("two")}, second.request_state)
    assert [one["content"]["answer"] for one in done.structured_content] == ["one", "two"]
    assert person.lines == ["began", "ended"]


async def test_what_was_not_answered_is_asked_again_and_what_was_not_asked_means_nothing(person: Person) -> None:
    arguments = person.arguments("first?", "second?", together=True)
    asked = await person.ask(arguments)
    first, second = keys_of(asked)
    again = await person.ask(arguments, {first: says("one"), "unknown": says("x")}, asked.request_state)
    assert keys_of(again) == [second]
    done = await person.send(arguments, {second: says("two")}, again.request_state)
    assert [one["content"]["answer"] for one in done.structured_content] == ["one", "two"]
    early = await person.send(person.arguments("who?", key="name"), {"name": says("Ada"), "unknown": says("x")})
    assert early.structured_content == [{"action": "accept", "content": {"answer": "Ada"}}], "answered with the call"


async def test_a_no_reaches_the_handler_and_an_answer_of_another_kind_is_none(person: Person) -> None:
    arguments = person.arguments("first?", "second?")
    asked = await person.ask(arguments)
    more = await person.ask(
        arguments, {keys_of(asked)[0]: mcp_types.ElicitResult(action="decline")}, asked.request_state
    )
    done = await person.send(arguments, {keys_of(more)[0]: mcp_types.ElicitResult(action="cancel")}, more.request_state)
    assert done.structured_content == [{"action": "decline"}, {"action": "cancel"}]
    asked = await person.ask(arguments)
    text = mcp_types.TextContent(type="text", text="I am a model")
    model = mcp_types.CreateMessageResult(role="assistant", content=text, model="parrot")
    refused = await person.send(arguments, {keys_of(asked)[0]: model}, asked.request_state)
    assert (text_of(refused), refused.is_error) == ("this client cannot be asked: its answer is malformed", True)


@DOORS
async def test_only_so_many_calls_wait_and_a_further_one_is_refused(door: Door, tmp_path: Path) -> None:
    async with person_at(door, tmp_path, "server.max_asking=2") as person:
        waiting = [await person.ask(person.arguments("who?", number=number)) for number in range(2)]
        refused = await person.send(person.arguments("who?", number=3))
        assert refused.is_error
        assert text_of(refused).startswith("2 calls wait for the answers of their clients already (server.max_asking)")
        answers = {keys_of(waiting[0])[0]: says("Ada")}
        done = await person.send(person.arguments("who?", number=0), answers, waiting[0].request_state)
        assert not done.is_error
        await person.ask(person.arguments("who?", number=4))


@DOORS
async def test_a_call_whose_client_never_answers_is_cancelled_and_logged(door: Door, tmp_path: Path) -> None:
    async with person_at(door, tmp_path, "server.ask_timeout=0.2") as person:
        asked = await person.ask(person.arguments("who?"))
        await person.noted("cancelled")
        log = person.folder / "stderr.txt"
        await until(lambda: "'interview', which waited for its client, is cancelled" in log.read_text(encoding="utf-8"))
        with pytest.raises(MCPError, match=r"the answer came too late \(server.ask_timeout: 0.2 seconds\)"):
            await person.send(person.arguments("who?"), {keys_of(asked)[0]: says("Ada")}, asked.request_state)


async def test_a_call_that_asks_for_ever_is_told_to_stop(person: Person) -> None:
    client, asked = person.client, person.arguments(*map(str, range(MOST_ROUNDS + 1)))
    client.input_required_max_rounds = MOST_ROUNDS + 10
    answer = await client.call_tool("interview", asked)
    assert (text_of(answer), answer.is_error) == (
        f"this call has asked its client {MOST_ROUNDS} times, and may not ask again",
        True,
    )
    arguments = person.arguments("who?")
    silent = await person.ask(arguments)
    for _ in range(MOST_ROUNDS - 1):
        silent = await person.ask(arguments, None, silent.request_state)
    refused = await person.send(arguments, None, silent.request_state)
    assert "did not answer 'question_1' in 50 rounds" in text_of(refused)


async def test_a_client_on_stdio_that_leaves_ends_the_calls_that_wait(tmp_path: Path) -> None:
    async with person_at("stdio", tmp_path) as person:
        await person.ask(person.arguments("who?"))
    assert person.lines == ["began", "cancelled"]


async def test_sigterm_ends_the_calls_that_wait(tmp_path: Path) -> None:
    async with served([*TOOL_SERVER, "http"], tmp_path) as (program, address):
        async with connected(f"{address}/mcp", "modern", elicitation_callback=reader) as client:
            person = Person(client=client, folder=tmp_path)
            await person.ask(person.arguments("who?"))
        assert person.lines == ["began"], "over HTTP a client that leaves cannot be told from one that thinks"
        program.process.terminate()
        await program.ended()
        assert person.lines == ["began", "cancelled"]


async def test_a_client_on_stdio_cancels_a_call_that_waits_by_the_id_of_its_request(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        wire = ModernWire(program)
        params = {"name": "interview", "arguments": {"file": str(notes), "questions": ["who?"]}}
        asked = await wire.request(7, "tools/call", {**params, "_meta": modern_meta(CAPABLE)})
        assert asked["result"]["resultType"] == "input_required"
        await wire.notify("notifications/cancelled", {"requestId": 70})
        other = {"name": "interview", "arguments": {"file": str(tmp_path / "other.txt"), "questions": ["where?"]}}
        await wire.request(8, "tools/call", {**other, "_meta": modern_meta(CAPABLE)})
        assert "cancelled" not in notes.read_text(encoding="utf-8")
        await wire.notify("notifications/cancelled", {"requestId": 7})
        await until(lambda: "cancelled" in notes.read_text(encoding="utf-8"))
        state = asked["result"]["requestState"]
        late = await wire.request(9, "tools/call", {**params, "requestState": state, "_meta": modern_meta(CAPABLE)})
        assert late["error"]["data"] == {"reason": "invalid_request_state"}


async def test_a_client_that_shows_links_alone_is_asked_no_form(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        meta = modern_meta({"elicitation": {"url": {}}})
        params = {"name": "interview", "arguments": {"file": str(notes), "questions": ["who?"]}, "_meta": meta}
        refused = (await ModernWire(program).request(1, "tools/call", params))["result"]
        assert refused["isError"]
        assert refused["content"][0]["text"].endswith("it declared `elicitation` for links only, not for forms")


async def test_other_credentials_cannot_answer(tmp_path: Path) -> None:
    """The general and the private token both open the server; a state is only for the one that was asked."""
    home = tmp_path / "home"
    command = [*TOOL_SERVER, "http", "server.token=general"]
    async with served(command, tmp_path, env={"TOOLSTEAD_HOME": str(home)}) as (_, address), HttpWire(address) as wire:
        ((running_server,),) = json.loads(await text_in(home / "data" / "server.json")).values()
        private = running_server["token"]

        async def send(token: str, **more: Any) -> Any:
            arguments = {"file": str(tmp_path / "notes.txt"), "questions": ["who?"]}
            params = {"name": "interview", "arguments": arguments, "_meta": modern_meta(CAPABLE), **more}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            about = [("Mcp-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "interview")]
            answer = await wire.post([*RIGHT, *about, ("Authorization", f"Bearer {token}")], json_of(message))
            (said,) = answer.messages
            return said

        asked = (await send("general"))["result"]
        answers = {key: {"action": "accept", "content": {"answer": "Ada"}} for key in asked["inputRequests"]}
        more = {"requestState": asked["requestState"], "inputResponses": answers}
        stolen = await send(private, **more)
        assert "the credentials must be those of the request" in stolen["error"]["message"]
        assert (await send("general", **more))["result"]["isError"] is False
