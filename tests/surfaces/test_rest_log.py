"""Looking back over HTTP: runs in lists and trees, and the event log in pages, on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.contracts.postgres_server import running_server
from tests.surfaces.rest_stead import SteadClient, ended, follow, serving, settings_of
from tests.surfaces.test_rest_tasks import AGENTS, SCRIPT, check_shape, start
from tests.waiting import until
from toolstead import Toolstead


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.requires("postgres"))])
async def client(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SteadClient]:
    write_agent("helper", "agents: [scout]")
    write_agent("scout", "agents: [helper]")
    with ExitStack() as stack:
        if request.param == "postgres":
            place = stack.enter_context(running_server())
            monkeypatch.setenv("TOOLSTEAD_DATABASE_URL", f"postgresql://postgres@/postgres?host={place}")
        async with serving(tmp_path, SCRIPT, multi_agent={"agents": AGENTS}) as client:
            yield client


async def get(client: SteadClient, path: str) -> Any:
    reply = await client.get(path)
    assert reply.status == 200, reply.body
    return reply.json


async def names(client: SteadClient, query: str = "") -> list[str]:
    return [run["prompt"] for run in (await get(client, f"/api/runs{query}"))["runs"]]


async def test_runs_are_listed_by_page_state_and_tree_and_the_log_has_the_events_of_a_tree(
    client: SteadClient, tmp_path: Path
) -> None:
    alone = await start(client, "alone")
    await ended(client, alone["runId"])
    built = await start(client, "build")
    await ended(client, built["runId"])

    async def hanging() -> list[Any] | None:
        found = (await get(client, "/api/runs?status=running&active=true"))["runs"]
        return found if "third" in [run["prompt"] for run in found] else None

    found = await until(hanging)
    assert found is not None
    whole = await get(client, f"/api/runs?root={built['runId']}")
    await check_shape(client, whole, "RunList")
    tree = whole["runs"]
    assert [run["prompt"] for run in tree] == ["build", "first, hang", "second", "third"]
    assert {run["rootRunId"] for run in tree} == {built["runId"]}
    assert [run["parentRunId"] for run in tree] == [None, *(run["id"] for run in tree[:3])]
    assert ["taskId" in run for run in tree] == [False, True, True, True]
    assert await get(client, f"/api/runs?root={tree[3]['id']}") == whole  # any run of a tree names it
    shown = await get(client, f"/api/runs/{tree[0]['id']}")
    assert {key: tree[0][key] for key in shown} == shown

    assert await names(client) == ["third", "second", "first, hang", "build", "alone"]
    page = await get(client, "/api/runs?limit=2")
    assert (len(page["runs"]), page["next"]) == (2, tree[2]["id"])
    assert await names(client, f"?limit=3&before={page['next']}") == ["first, hang", "build", "alone"]
    assert "next" not in await get(client, f"/api/runs?limit=3&before={page['next']}")
    assert await names(client, "?roots=true&active=false") == ["build", "alone"]
    assert await names(client, f"?thread={alone['threadId']}") == ["alone"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with Toolstead(elsewhere, settings=settings_of(tmp_path / "script.yaml"), watch=False) as other:
        assert (await other.invoke("of another project")).status == "completed"
    assert "of another project" not in await names(client)
    await _check_log(client, tree)


async def _check_log(client: SteadClient, tree: list[Any]) -> None:
    """The log of a tree whose last run hangs, page by page; its end comes on a stream that goes on from there."""
    events: list[Any] = []
    query = f"/api/events/log?root={tree[0]['id']}&limit=4"
    page = await get(client, query)
    newest = page["after"]
    while True:
        await check_shape(client, page, "EventLogPage")
        assert len(page["events"]) <= 4
        events = [*page["events"], *events]
        if "before" not in page:
            break
        page = await get(client, f"{query}&before={page['before']}")
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids))
    assert {event.get("runId") for event in events} == {*(run["id"] for run in tree), None}
    assert {event["type"] for event in events} >= {"task.created", "task.checkin", "tool_use", "message"}
    checkins = (await get(client, f"/api/events/log?root={tree[0]['id']}&type=task.checkin,error"))["events"]
    assert [event["data"]["message"] for event in checkins] == ["I begin"]
    calls = (await get(client, "/api/events/log?tool=delegation__checkin"))["events"]
    assert [event["type"] for event in calls] == ["tool_use", "tool_result"]
    assert (await get(client, f"/api/events/log?run={tree[0]['id']}"))["events"][-1]["type"] == "completed"
    # A stream goes on where the newest page ended.
    stream = await follow(client, f"/api/events?run={tree[3]['id']}&after={newest}")
    assert (await client.ask("POST", f"/api/runs/{tree[0]['id']}/cancel")).status == 200
    assert (await client.ask("POST", f"/api/tasks/{tree[1]['taskId']}/cancel")).status == 200
    assert (await stream.until("cancelled")).id > newest
    await stream.close()
    later = await get(client, f"/api/events/log?root={tree[0]['id']}&after={newest}&type=cancelled")
    assert tree[3]["id"] in [event["runId"] for event in later["events"]]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/runs?status=runing", 422, "did you mean 'running'"),
        ("/api/runs?active=maybe", 422, "active: must be `true` or `false`"),
        ("/api/runs?before=nobody", 422, "before: there is no run 'nobody'"),
        ("/api/runs?limit=501", 422, "a whole number from 1 to 500"),
        ("/api/runs?root=nobody", 404, "There is no run 'nobody'"),
        ("/api/runs?root=nobody&limit=5", 422, "limit: a tree (`root`) is given whole; leave limit out"),
        ("/api/events/log?before=42", 422, "'42' is not an event id"),
        ("/api/events/log?before=0000000000000042&after=0", 422, "give one of them"),
        ("/api/events/log?limit=1001", 422, "a whole number from 1 to 1000"),
        ("/api/events/log?colour=red", 422, "does not accept the parameter 'colour'"),
    ],
)
async def test_what_cannot_be_looked_for_is_refused_with_what_would_be_right(
    tmp_path: Path, path: str, status: int, said: str
) -> None:
    async with serving(tmp_path) as client:
        reply = await client.get(path)
        assert (reply.status, said in reply.problem["detail"]) == (status, True), reply.problem["detail"]
