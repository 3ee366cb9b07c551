"""Delegated work on every runtime, against scripted model APIs: what parent and child were sent, and what is stored."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.delegate_schema import DELEGATE_AGENT
from tests.e2e.delegation_stage import HELPERS, find_tasks, gates, settle, write_helper
from tests.e2e.model_stage import Play
from tests.waiting import PATIENCE

ADAPTED = "the schema of 'delegate_agent' "
PATTERN = "Matches the regular expression "


def list_rules(schema: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Each property, pattern, type and `required` of a schema with its place, the choice at its top aside.

    A pattern may stand in the description instead: Gemini and Codex do not know the keyword.
    """
    for keyword in ("type", "pattern", "required", "additionalProperties"):
        if keyword in schema:
            yield f"{place}/{keyword}", json.dumps(schema[keyword])
    if (told := schema.get("description", "")).startswith(PATTERN):
        yield f"{place}/pattern", json.dumps(told.removeprefix(PATTERN))
    for name, inner in schema.get("properties", {}).items():
        yield f"{place}/properties", name
        yield from list_rules(inner, f"{place}/{name}")
    if "items" in schema:
        yield from list_rules(schema["items"], f"{place}/[]")


@pytest.mark.promise("T3")
async def test_an_agent_is_offered_the_schema_of_the_document_and_gets_the_result_of_whom_it_asks(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
    script = """
- when: ^begin$
  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: count the hats, context: {hints: [look twice]}}}]
- say: "It says {{result}}"
- when: count the hats
  say: three hats
"""
    async with play(script, settings=HELPERS) as stage:
        write_helper(stage)
        run = await stage.ask("begin", thread_id="t")
        assert run.status == "completed", run.error
        first, asked, last = stage.requests
        arrived = stage.offered(first)["delegate_agent"]
        lacking = set(list_rules(DELEGATE_AGENT)) - set(list_rules(arrived))
        assert not lacking, lacking
        assert arrived["properties"].keys() - DELEGATE_AGENT["properties"].keys() == {
            "mode",
            "conversation_id",
            "queue",
        }
        told = [record.getMessage() for record in caplog.records if ADAPTED in record.getMessage()]
        lost = {"anyOf", "pattern"} - {name for name in ("anyOf", "pattern") if f'"{name}"' in json.dumps(arrived)}
        assert not {"oneOf", "allOf"} & arrived.keys()
        assert all(any(name in line for line in told) for name in lost), told
        if "anyOf" in lost:
            assert "either agent_id and prompt, or batch (at least 1 item)" in arrived["description"]
        else:
            assert arrived["anyOf"] == DELEGATE_AGENT["anyOf"]
        assert stage.view.spoken(asked) == ["count the hats\n\nHints:\n- look twice"]
        [answer] = stage.view.results(last)
        found = answer if stage.name != "gemini" else next(iter(json.loads(answer).values()))
        [entry] = json.loads(found)["runs"]
        assert (entry["agent_id"], entry["status"], entry["summary"]) == ("helper", "completed", "three hats")
        [task] = await find_tasks(stage)
        assert (task.id, task.thread_id) == (entry["run_id"], entry["conversation_id"])
        assert (task.outcome, task.parent_run_id, task.delivered_at is not None) == ("completed", run.id, True)
        child = (await (await stage.stead.conversations()).store.list_runs(thread_id=task.thread_id))[0]
        assert (child.runtime, child.depth, child.root_run_id) == (stage.player.runtime, 1, run.id)


@pytest.mark.promise("P5")
@pytest.mark.promise("K3")
async def test_a_detached_result_is_in_one_stored_turn_a_check_in_asks_nobody_and_a_signal_asks_once(
    play: Play,
) -> None:
    tools, gate = gates("begun", "checked", "signalled")
    script = """
- when: ^begin$
  call: [{tool: delegation__delegate, input: {prompt: count the hats}}]
- say: "It says {{result}}"
- when: Work that you delegated has ended
  say: Thank you.
- when: Signal of your sub-agent
  say: I hear you.
- when: count the hats
  call: [{tool: begun, input: {}}]
- call: [{tool: delegation__checkin, input: {message: one so far}}]
- call: [{tool: checked, input: {}}]
- call: [{tool: signal_parent, input: {message: a green one}}]
- call: [{tool: signalled, input: {}}]
- say: three hats
"""
    async with play(script, settings=HELPERS, tools=tools) as stage:
        write_helper(stage)
        store = (await stage.stead.conversations()).store

        def asked_of_parent() -> int:
            return sum("begin" in stage.view.spoken(one) for one in stage.requests)

        run = await stage.ask("begin", thread_id="t")
        [task] = await find_tasks(stage)
        said = f"It says Task delegated. You will be notified when it completes. (task {task.id})"
        assert (run.status, task.mode) == ("completed", "detached"), run.error
        assert said in stage.view.plain(run.result).replace('{"result":"', "").replace('{"output":"', "")
        await gate["begun"].reached()
        assert asked_of_parent() == 2
        gate["begun"].let.set()

        await gate["checked"].reached()
        messages = await store.list_messages("t")
        assert [one.content for one in messages if one.kind == "checkin"] == [
            f"[{task.agent}, task {task.id}] one so far"
        ]
        assert asked_of_parent() == 2  # nobody was asked because of it
        assert len(await store.list_runs(thread_id="t")) == 1
        gate["checked"].let.set()

        await gate["signalled"].reached()
        async with asyncio.timeout(PATIENCE):
            while [one.status for one in await store.list_runs(thread_id="t")] != ["completed"] * 2:
                await asyncio.sleep(0.01)
        assert asked_of_parent() == 3
        heard = stage.view.spoken([one for one in stage.requests if "begin" in stage.view.spoken(one)][-1])[-1]
        assert heard == f"[Signal of your sub-agent {task.agent}, task {task.id}]\na green one"
        gate["signalled"].let.set()

        [task] = await settle(stage)
        assert (task.outcome, task.summary, task.delivered_at is not None) == ("completed", "three hats", True)
        runs = list(reversed(await store.list_runs(thread_id="t")))
        assert [one.result for one in runs[1:]] == ["I hear you.", "Thank you."]
        assert asked_of_parent() == 4
        last = [one for one in stage.requests if "begin" in stage.view.spoken(one)][-1]
        assert json.dumps(last.body).count("three hats") == 1
        holding = [one for one in await store.list_messages("t") if "three hats" in one.content]
        assert [(one.run_id, one.kind) for one in holding] == [(runs[-1].id, "result")]
        assert task.taken_by == runs[-1].id
