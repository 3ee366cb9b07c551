"""Commands to runs that another process holds: functions of a connection.

A command is a row from when it is sent until it is carried out, refused or withdrawn. The process that holds the run
reads those of its name, so one indexed query serves all its runs.
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, literal, select

from toolstead.adapters.storage.tables import COMMANDS, run_commands, runs
from toolstead.orchestrator.store import RunCommand

_OF_OWNER = (
    select(run_commands)
    .where(run_commands.c.owner == bindparam("owner"))
    .order_by(run_commands.c.created_at, run_commands.c.id)
)


def add_command(connection: Connection, command: RunCommand) -> bool:
    """Keep it, unless its run has ended; the run's owner is the one to read it."""
    values = COMMANDS.encode_values(command)
    given = [literal(value, run_commands.c[name].type) for name, value in values.items()]
    found = select(*given, runs.c.owner).where(runs.c.id == command.run_id, runs.c.ended_at.is_(None))
    adding = insert(run_commands).from_select([*values, "owner"], found)
    return connection.execute(adding).rowcount == 1


def list_commands(connection: Connection, owner: str) -> list[RunCommand]:
    """Those for a process's runs, oldest first."""
    return [COMMANDS.decode_row(row) for row in connection.execute(_OF_OWNER, {"owner": owner})]


def has_command(connection: Connection, id: str) -> bool:
    """Whether it is there."""
    return connection.execute(select(run_commands.c.id).where(run_commands.c.id == id)).first() is not None


def remove_command(connection: Connection, id: str) -> bool:
    """Whether it was there."""
    return connection.execute(delete(run_commands).where(run_commands.c.id == id)).rowcount == 1


def expire_commands(connection: Connection, before: float) -> int:
    """Delete what nobody came back for: older, and its run has ended."""
    ended = select(runs.c.id).where(runs.c.ended_at.is_not(None))
    old = (run_commands.c.created_at < before) & run_commands.c.run_id.in_(ended)
    return connection.execute(delete(run_commands).where(old)).rowcount
