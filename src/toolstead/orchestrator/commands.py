"""Commands to runs of other processes: cancel, and steer.

A process that wants something of a run which another one holds leaves a command in the store. The process that holds
the run looks for commands while it has runs, carries them out, and removes them. What happens to a `steer`:

    sent ──▶ given to the running turn ──▶ removed with the commit that stores the message
     │
     └─────▶ removed: the turn does not take it, or the run has ended ──▶ sent as any message, by the process that asked

Only the holder gives it to the turn, and only while its run has no end. The process that asked looks whether the
message was stored, by its key, once the command is gone. So it is sent once, and never lost. The same poll stores
the ids of sessions that became known during a turn, so that a process which dies in it leaves a thread that can be
resumed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from msgspec import structs

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import NotFoundError, StorageError
from toolstead.invoker.lease import session_key
from toolstead.orchestrator.endings import create_message_event
from toolstead.orchestrator.ids import format_session_id
from toolstead.orchestrator.parts import ActiveRun, OrchestratorParts
from toolstead.orchestrator.performer import RunPerformer
from toolstead.orchestrator.recovery import Recovery, repeat_pauses
from toolstead.orchestrator.store import Accepted, RunCommand
from toolstead.types.run import Run
from toolstead.types.thread import Message

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""How often a process that has runs polls for commands to them."""


class RunCommands:
    """Carries out commands to the runs of this process, and sends commands to those of others."""

    def __init__(self, parts: OrchestratorParts, performer: RunPerformer, recovery: Recovery) -> None:
        self._parts, self._performer, self._recovery = parts, performer, recovery
        self._store, self._active = parts.store, parts.active
        self._tasks = OwnedTasks()
        self._steering: dict[str, asyncio.Task[None]] = {}
        """Command → the task that gives it to its turn, until the command is deleted."""

    def open(self) -> None:
        """Start polling for commands while there are runs."""
        self._tasks.start(self._poll_commands(), name="toolstead-run-commands")

    async def close(self) -> None:
        """Stop polling."""
        await self._tasks.end_all()

    async def give_message(
        self, active: ActiveRun, message: Message, *, key: str | None, command_id: str | None = None
    ) -> Accepted | None:
        """Give a message to the turn that a run is in, and store it; None when the turn does not take it."""
        async with active.steering:
            if key is not None and (before := await self._store.find_accepted(message.thread_id, key)) is not None:
                if command_id is not None:
                    await self._store.remove_command(command_id)
                return before
            if not active.takes_messages:
                return None
            is_taken = await self._parts.invoker.steer(session_key(message.thread_id), message.content)
            if not is_taken or not active.takes_messages:
                return None
            accepted = await self._store.add_message(
                message, [create_message_event(message)], idempotency_key=key, command_id=command_id
            )
        if accepted.fresh:
            await self._performer.run_observer(self._parts.hooks.on_message(message.thread_id, "user", message.content))
        else:
            logger.warning("run %s was sent a message that another process took at the same time", active.run.id)
        return accepted

    async def send_steer(self, run: Run, text: str, key: str | None, *, is_signal: bool = False) -> Accepted | None:
        """Have another process give a message to its run; None when it must be submitted as usual."""
        message_id = self._parts.ids.new_id("msg")
        key, now = key or message_id, self._parts.clock.now()
        kind = "signal" if is_signal else "steer"
        command = RunCommand(id=message_id, run_id=run.id, kind=kind, text=text, created_at=now, key=key)
        if not await self._store.add_command(command):
            return None
        for seconds in repeat_pauses():
            if (await self._store.read_run(run.id)).has_ended:
                await self._store.remove_command(message_id)
                break
            if not await self._store.has_command(message_id):
                break
            await self._recovery.pause_for(seconds)
        used = await self._store.find_accepted(run.thread_id, key)
        return used if used is None or used.message_id != message_id else structs.replace(used, fresh=True)

    async def _poll_commands(self) -> None:
        while True:
            await self._active.arrived.wait()
            await self._parts.clock.sleep(POLL_SECONDS)
            if not self._active:
                continue
            try:
                await self._store_sessions()
                commands = await self._store.list_commands()
                # A command that still exists was given once, and is not given again.
                waiting = {command.id for command in commands}
                self._steering = {
                    one: task for one, task in self._steering.items() if one in waiting or not task.done()
                }
                for command in commands:
                    await self._carry_out(command)
            except StorageError as error:
                logger.log(error.log_level, "commands to runs could not be read: %s", error)
            except Exception:
                logger.exception("reading commands to runs failed; trying again")

    async def _carry_out(self, command: RunCommand) -> None:
        active = self._active.get(command.run_id)
        if command.kind == "cancel":
            if active is not None:
                active.request_end("cancelled", command.text)
            await self._store.remove_command(command.id)
        elif command.id not in self._steering:
            steering = self._steer(active, command)
            self._steering[command.id] = self._tasks.start(steering, name=f"toolstead-steer-{command.id}")

    async def _steer(self, active: ActiveRun | None, command: RunCommand) -> None:
        try:
            if active is not None:
                message = Message(
                    id=command.id,
                    thread_id=active.run.thread_id,
                    role="user",
                    content=command.text,
                    created_at=command.created_at,
                    kind="signal" if command.kind == "signal" else "text",
                    run_id=command.run_id,
                )
                if await self.give_message(active, message, key=command.key, command_id=command.id) is not None:
                    return
            await self._store.remove_command(command.id)
        except (StorageError, NotFoundError) as error:
            logger.warning("run %s: a message from another process waits: %s", command.run_id, error)

    async def _store_sessions(self) -> None:
        """Store conversation ids that became known during a turn; a later end may change them."""
        for active in list(self._active.running.values()):
            run = active.run
            now = format_session_id(run.runtime, self._parts.invoker.session_id(session_key(run.thread_id)))
            if now is None or now == active.stored_session or active.is_ending:
                continue
            with suppress(NotFoundError):
                await self._store.update_thread(run.thread_id, session_id=now)
                active.stored_session = now
