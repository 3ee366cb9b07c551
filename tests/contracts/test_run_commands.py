"""Commands to runs of another process, and what a run that begins is told of its thread."""

from __future__ import annotations

import pytest

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, message, run
from tests.contracts.test_store_turns import accepted
from toolstead.errors import NotFoundError
from toolstead.orchestrator.store import Begun, RunCommand, Store
from toolstead.types.thread import Thread


def steer(run_id: str, id: str = "msg_x", created_at: float = 1.0) -> RunCommand:
    return RunCommand(id=id, run_id=run_id, kind="steer", text="go\0 on", created_at=created_at, key="k")


class TestCommands:
    async def test_the_holder_of_a_run_finds_its_commands_in_order_and_nobody_else_does(self, place: Place) -> None:
        holder, other = await place.open(), await place.open()
        first, second = await accepted(holder), await accepted(holder, "u")
        assert await holder.list_commands() == []
        cancel = RunCommand(id="cancel_1", run_id=second.id, kind="cancel", text="enough", created_at=2.0)
        assert await other.add_command(cancel)
        assert await other.add_command(steer(first.id))
        assert [one.id for one in await holder.list_commands()] == ["msg_x", "cancel_1"]
        assert (await holder.list_commands())[1] == cancel
        assert await other.list_commands() == []
        assert await other.has_command("msg_x")
        assert [await other.remove_command("msg_x") for _ in range(2)] == [True, False]
        assert not await other.has_command("msg_x")
        assert await holder.list_commands() == [cancel]

    async def test_a_run_that_has_ended_or_never_was_takes_no_command(self, store: Store) -> None:
        asked = await accepted(store)
        await store.end_run(asked.id, ending())
        assert not await store.add_command(steer(asked.id))
        assert not await store.add_command(steer("run_none"))
        assert await store.list_commands() == []

    async def test_the_message_and_the_end_of_its_command_are_one_commit(self, store: Store) -> None:
        asked = await accepted(store)
        await store.add_command(steer(asked.id))
        said = message("t", run_id=asked.id)
        stored = await store.add_message(said, [event()], idempotency_key="k", command_id="msg_x")
        assert (stored.message_id, stored.fresh) == (said.id, True)
        assert await store.list_commands() == []
        await store.add_command(steer(asked.id))
        again = await store.add_message(message("t", run_id=asked.id), idempotency_key="k", command_id="msg_x")
        assert (again.message_id, again.fresh) == (said.id, False)
        assert await store.list_commands() == []

    async def test_a_message_that_is_refused_leaves_its_command(self, store: Store) -> None:
        asked = await accepted(store)
        await store.add_command(steer(asked.id))
        with pytest.raises(NotFoundError):
            await store.add_message(message("nowhere", run_id=asked.id), command_id="msg_x")
        assert await store.has_command("msg_x")

    async def test_commands_go_with_their_thread_and_old_ones_of_ended_runs_expire(self, store: Store) -> None:
        asked, kept = await accepted(store), await accepted(store, "u")
        for one in (asked, kept):
            await store.add_command(steer(one.id, f"msg_{one.thread_id}"))
        await store.expire_rows(5.0, ["keys"])
        assert len(await store.list_commands()) == 2
        await store.end_run(kept.id, ending())
        await store.expire_rows(5.0, ["keys"])
        assert [one.id for one in await store.list_commands()] == ["msg_t"]
        await store.delete_thread("t")
        assert await store.list_commands() == []


class TestThreadsOfRuns:
    async def test_a_new_thread_is_made_as_it_was_given_and_one_that_is_there_stays(self, store: Store) -> None:
        made = Thread(id="t", created_at=1.0, title="As given")
        await store.accept_message(message("t"), run("t", store.owner), thread=made)
        assert await store.read_thread("t") == made
        await store.accept_message(
            message("t"), run("t", store.owner), thread=Thread(id="t", created_at=2.0, title="Other")
        )
        assert await store.read_thread("t") == made

    async def test_who_begins_is_told_the_session_of_the_thread_as_it_is_then(self, place: Place) -> None:
        first, second = await place.open(), await place.open()
        runs = [await accepted(first), await accepted(second), await accepted(first), await accepted(second)]
        told: list[str | None] = []
        for number, (store, asked) in enumerate(zip((first, second) * 2, runs, strict=True)):
            begun = await store.begin_run(asked, 1.0)
            assert isinstance(begun, Begun)
            told.append(begun.session_id)
            if number == 1:
                await store.update_thread("t", session_id="early")
            await store.end_run(asked.id, ending(session_id="ended") if number == 0 else ending())
        assert told == [None, "ended", "early", "early"]

    async def test_the_parent_the_task_and_the_depth_of_a_run_are_kept(self, store: Store) -> None:
        child = run("t", store.owner, parent_run_id="run_0", parent_agent="main", task_id="task_1", depth=2)
        await store.accept_message(message("t"), child)
        kept = await store.read_run(child.id)
        assert (kept.parent_run_id, kept.parent_agent, kept.task_id, kept.depth) == ("run_0", "main", "task_1", 2)
