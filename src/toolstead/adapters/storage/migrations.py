"""The versions of the database, each a step from the one before; this is what makes the tables.

A step and the new version number are one transaction, taken under the write lock: a process that
dies half way leaves the old version whole, and of two that open at once the second finds nothing
to do. A step that was released is never edited; a change is a new step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert, select, update

from toolstead.errors import StorageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step. `{number}`, `{text}`, `{bytes}` and the like stand for what the database calls them."""

    version: int
    statements: tuple[str, ...]


TYPES = {
    "sqlite": {"key": "INTEGER", "number": "INTEGER", "real": "REAL", "bytes": "BLOB", "flag": "INTEGER"},
    "postgresql": {
        "key": "BIGINT",
        "number": "BIGINT",
        "real": "DOUBLE PRECISION",
        "bytes": "BYTEA",
        "flag": "BOOLEAN",
    },
}

_FIRST = Migration(
    version=1,
    statements=(
        "CREATE TABLE sequence (name TEXT PRIMARY KEY, value {number} NOT NULL)",
        "INSERT INTO sequence (name, value) VALUES ('rows', 0)",
        """CREATE TABLE threads (
            n {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE, created_at {real} NOT NULL, title TEXT NOT NULL,
            agent TEXT NOT NULL, runtime TEXT NOT NULL, model TEXT NOT NULL, parent_thread_id TEXT, session_id TEXT
        )""",
        """CREATE TABLE messages (
            n {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE,
            thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
            role TEXT NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL, created_at {real} NOT NULL, run_id TEXT
        )""",
        "CREATE INDEX messages_of_thread ON messages (thread_id, n)",
        """CREATE TABLE runs (
            n {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE,
            thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE, parent_run_id TEXT,
            owner TEXT NOT NULL, status TEXT NOT NULL, prompt TEXT NOT NULL, agent TEXT NOT NULL,
            runtime TEXT NOT NULL, model TEXT NOT NULL, result TEXT, error_code TEXT, error_message TEXT,
            input_tokens {number} NOT NULL, output_tokens {number} NOT NULL, cost {real} NOT NULL,
            created_at {real} NOT NULL, started_at {real}, ended_at {real}
        )""",
        "CREATE INDEX runs_of_thread ON runs (thread_id, n)",
        "CREATE INDEX unfinished_runs ON runs (n) WHERE ended_at IS NULL",
        """CREATE TABLE idempotency_keys (
            thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE, key TEXT NOT NULL,
            message_id TEXT NOT NULL, run_id TEXT NOT NULL, created_at {real} NOT NULL, PRIMARY KEY (thread_id, key)
        )""",
        """CREATE TABLE events (
            n {key} PRIMARY KEY, type TEXT NOT NULL, time {real} NOT NULL, thread_id TEXT, run_id TEXT, task_id TEXT,
            data TEXT NOT NULL
        )""",
        "CREATE INDEX events_of_thread ON events (thread_id, n) WHERE thread_id IS NOT NULL",
        "CREATE INDEX events_of_run ON events (run_id, n) WHERE run_id IS NOT NULL",
        "CREATE INDEX events_of_task ON events (task_id, n) WHERE task_id IS NOT NULL",
        "CREATE TABLE results (handle TEXT PRIMARY KEY, content {bytes} NOT NULL, created_at {real} NOT NULL)",
        "CREATE TABLE plugins (name TEXT PRIMARY KEY, enabled {flag}, settings TEXT)",
        """CREATE TABLE plugin_values (
            space TEXT NOT NULL, key TEXT NOT NULL, value {bytes} NOT NULL, PRIMARY KEY (space, key)
        )""",
    ),
)

_UNFINISHED_BY_THREAD = Migration(
    version=2,
    statements=(
        # A run that begins looks for others of its thread.
        "CREATE INDEX unfinished_runs_of_thread ON runs (thread_id, n) WHERE ended_at IS NULL",
    ),
)

_APPROVALS = Migration(
    version=3,
    statements=(
        """CREATE TABLE approvals (
            n {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE, call_id TEXT NOT NULL, tool TEXT NOT NULL,
            input TEXT NOT NULL, reason TEXT NOT NULL, asked_by TEXT NOT NULL, thread_id TEXT NOT NULL, run_id TEXT,
            task_id TEXT, owner TEXT NOT NULL, requested_at {real} NOT NULL, expires_at {real} NOT NULL,
            decision TEXT, decided_input TEXT, decision_reason TEXT NOT NULL, decided_at {real}
        )""",
        "CREATE INDEX pending_approvals ON approvals (n) WHERE decision IS NULL",
    ),
)

_COMMANDS_AND_PARENTS = Migration(
    version=4,
    statements=(
        """CREATE TABLE run_commands (
            id TEXT NOT NULL PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            owner TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, key TEXT, created_at {real} NOT NULL
        )""",
        "CREATE INDEX run_commands_of_owner ON run_commands (owner)",
        "CREATE INDEX run_commands_of_run ON run_commands (run_id)",
        "ALTER TABLE runs ADD COLUMN parent_agent TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE runs ADD COLUMN task_id TEXT",
        "ALTER TABLE runs ADD COLUMN depth {number} NOT NULL DEFAULT 0",
    ),
)

_JOINED_DELTAS = Migration(
    version=5,
    statements=(
        "ALTER TABLE events ADD COLUMN first_n {number}",
        "ALTER TABLE events ADD COLUMN parts TEXT",
        # A page of events must find the joined rows that began before its end and end after it.
        "CREATE INDEX joined_events ON events (first_n) WHERE first_n IS NOT NULL",
    ),
)

_RUN_TREES = Migration(
    version=6,
    statements=(
        "ALTER TABLE runs ADD COLUMN root_run_id TEXT",
        "ALTER TABLE runs ADD COLUMN attempt {number} NOT NULL DEFAULT 1",
        # A commit that accepts a child counts those of its parent and of the root.
        "CREATE INDEX runs_of_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL",
        "CREATE INDEX runs_of_root ON runs (root_run_id) WHERE root_run_id IS NOT NULL",
        "CREATE INDEX threads_of_parent ON threads (parent_thread_id) WHERE parent_thread_id IS NOT NULL",
    ),
)

_SHARED_FILES = Migration(
    version=7,
    statements=(
        """CREATE TABLE vfs_versions (
            root_id TEXT NOT NULL, path TEXT NOT NULL, version {number} NOT NULL, author TEXT NOT NULL,
            created_at {real} NOT NULL, size {number} NOT NULL, deleted {flag} NOT NULL, thread_id TEXT NOT NULL,
            run_id TEXT, content TEXT NOT NULL, PRIMARY KEY (root_id, path, version)
        )""",
        """CREATE TABLE vfs_trees (
            root_id TEXT NOT NULL PRIMARY KEY, files {number} NOT NULL, versions {number} NOT NULL,
            bytes {number} NOT NULL
        )""",
    ),
)

_TASKS = Migration(
    version=8,
    statements=(
        """CREATE TABLE tasks (
            n {key} PRIMARY KEY, id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, prompt TEXT NOT NULL,
            thread_id TEXT NOT NULL, parent_thread_id TEXT NOT NULL, root_run_id TEXT NOT NULL,
            project TEXT NOT NULL, duplicate_key TEXT NOT NULL UNIQUE, created_at {real} NOT NULL,
            timeout {real} NOT NULL, parent_run_id TEXT, parent_task_id TEXT, mode TEXT NOT NULL,
            depth {number} NOT NULL, attempt {number} NOT NULL, max_attempts {number} NOT NULL, queued_at {real},
            deadline {real}, outcome TEXT, summary TEXT, result_size {number} NOT NULL, error_code TEXT,
            error_message TEXT, input_tokens {number} NOT NULL, output_tokens {number} NOT NULL,
            cost {real} NOT NULL, retry_of TEXT, ended_at {real}, shape {number} NOT NULL,
            parent_agent TEXT NOT NULL, model TEXT NOT NULL, runtime TEXT NOT NULL, cwd TEXT, context TEXT,
            definition TEXT NOT NULL, feedback TEXT NOT NULL, continues {flag} NOT NULL,
            owner TEXT, epoch {number} NOT NULL, taken_by TEXT,
            woken_by TEXT, delivered_at {real}, result TEXT
        )""",
        "CREATE INDEX open_tasks ON tasks (project, agent, n) WHERE outcome IS NULL",
        "CREATE INDEX waiting_results ON tasks (parent_thread_id) WHERE outcome IS NOT NULL AND delivered_at IS NULL",
        "CREATE INDEX taken_results ON tasks (taken_by) WHERE taken_by IS NOT NULL AND delivered_at IS NULL",
        "CREATE INDEX woken_results ON tasks (woken_by) WHERE woken_by IS NOT NULL AND delivered_at IS NULL",
        "CREATE INDEX tasks_of_thread ON tasks (thread_id)",
        "CREATE INDEX tasks_of_parent_thread ON tasks (parent_thread_id, n)",
        "CREATE INDEX tasks_of_parent_run ON tasks (parent_run_id) WHERE parent_run_id IS NOT NULL",
        "CREATE INDEX tasks_of_parent_task ON tasks (parent_task_id) WHERE parent_task_id IS NOT NULL",
        "CREATE INDEX tasks_of_root ON tasks (root_run_id)",
        "CREATE INDEX runs_of_task ON runs (task_id) WHERE task_id IS NOT NULL",
        """CREATE TABLE task_attempts (
            task_id TEXT NOT NULL, number {number} NOT NULL, run_id TEXT NOT NULL, accepted {flag},
            feedback TEXT NOT NULL, defect TEXT NOT NULL, answer_digest TEXT NOT NULL, ended_at {real} NOT NULL,
            PRIMARY KEY (task_id, number)
        )""",
        """CREATE TABLE tree_budgets (
            root_run_id TEXT NOT NULL PRIMARY KEY, token_budget {number} NOT NULL, cost_budget {real} NOT NULL,
            spent_tokens {number} NOT NULL, spent_cost {real} NOT NULL, reserved_tokens {number} NOT NULL,
            reserved_cost {real} NOT NULL, in_flight {number} NOT NULL
        )""",
        """CREATE TABLE tree_shares (
            run_id TEXT NOT NULL PRIMARY KEY, root_run_id TEXT NOT NULL, granted_tokens {number} NOT NULL,
            granted_cost {real} NOT NULL, is_request {flag} NOT NULL, input_tokens {number} NOT NULL,
            output_tokens {number} NOT NULL, cost {real} NOT NULL
        )""",
        "CREATE INDEX shares_of_root ON tree_shares (root_run_id)",
    ),
)

_STEPS = Migration(
    version=9,
    statements=(
        # No foreign key: the journal writes steps of many runs at once, and one run that is gone must not refuse them.
        """CREATE TABLE run_steps (
            run_id TEXT NOT NULL, number {number} NOT NULL, last {number} NOT NULL, steps TEXT NOT NULL,
            PRIMARY KEY (run_id, number)
        )""",
    ),
)

_TOOLS_OF_RESULTS = Migration(
    version=10,
    statements=("ALTER TABLE results ADD COLUMN tool TEXT", "ALTER TABLE results ADD COLUMN thread_id TEXT"),
)

_PROFILES = Migration(
    version=11,
    statements=("ALTER TABLE runs ADD COLUMN profile TEXT", "ALTER TABLE tasks ADD COLUMN profile TEXT"),
)

_PROJECTS_OF_THREADS = Migration(
    version=12,
    statements=(
        "ALTER TABLE threads ADD COLUMN project TEXT",
        # Only threads with delegated tasks say where they were begun.
        "UPDATE threads SET project = (SELECT min(project) FROM tasks WHERE tasks.thread_id = threads.id)",
        """UPDATE threads SET project = (SELECT min(project) FROM tasks WHERE tasks.parent_thread_id = threads.id)
            WHERE project IS NULL""",
        "CREATE INDEX threads_of_project ON threads (project, n)",
    ),
)

MIGRATIONS: tuple[Migration, ...] = (
    _FIRST,
    _UNFINISHED_BY_THREAD,
    _APPROVALS,
    _COMMANDS_AND_PARENTS,
    _JOINED_DELTAS,
    _RUN_TREES,
    _SHARED_FILES,
    _TASKS,
    _STEPS,
    _TOOLS_OF_RESULTS,
    _PROFILES,
    _PROJECTS_OF_THREADS,
)

_version = Table("toolstead_version", MetaData(), Column("version", Integer, nullable=False))

_OLD_NAME = "toolyard_version"
"""What the version's table was called before the project had its present name."""

_FIND = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name = '{}'",
    "postgresql": "SELECT to_regclass('{}')",
}


def version_of(connection: Connection) -> int:
    """The version a database has; 0 for one that Toolstead has not seen yet."""
    if _has_table(connection, _OLD_NAME):
        return connection.exec_driver_sql(f"SELECT version FROM {_OLD_NAME}").scalar() or 0  # noqa: S608 - a constant
    if not _has_table(connection, _version.name):
        return 0
    return connection.execute(select(_version.c.version)).scalar() or 0


def _has_table(connection: Connection, name: str) -> bool:
    return connection.exec_driver_sql(_FIND[connection.dialect.name].format(name)).scalar() is not None


def migrate_step(connection: Connection, place: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> int | None:
    """Take one step, inside a transaction that holds the write lock.

    Returns:
        The version before it; None when no step is left.

    Raises:
        StorageError: A newer Toolstead made the database.
    """
    version = version_of(connection)
    newest = migrations[-1].version
    if version > newest:
        raise StorageError(
            f"{place} has version {version}, and this Toolstead understands up to {newest}: a newer one wrote it;"
            " update Toolstead, or give this one a database of its own"
        )
    step = next((one for one in migrations if one.version == version + 1), None)
    if _has_table(connection, _OLD_NAME):
        connection.exec_driver_sql(f"ALTER TABLE {_OLD_NAME} RENAME TO {_version.name}")
        return version
    if step is None:
        return None
    if version == 0:
        connection.exec_driver_sql("CREATE TABLE toolstead_version (version INTEGER NOT NULL)")
        connection.execute(insert(_version).values(version=0))
    names = TYPES[connection.dialect.name]
    for statement in step.statements:
        connection.exec_driver_sql(statement.format(**names))
    connection.execute(update(_version).values(version=step.version))
    return version


def log_migration(place: str, steps: Sequence[int]) -> None:
    """Log the steps that were taken, each by the version before it: of a new database that it was created."""
    if steps and steps[0] == 0:
        logger.debug("%s was created", place)
    elif steps:
        logger.info("%s was brought from version %s to %s", place, steps[0], MIGRATIONS[-1].version)
