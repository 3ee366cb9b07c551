"""The tables, as queries see them; `migrations` makes them, and a test keeps the two alike.

`n` is a row's number in the one sequence of the database. Numbers are given in commit order, so
ordering by `n` is ordering by when a row became visible.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, LargeBinary, MetaData, Table, Text

metadata = MetaData()

sequence = Table(
    "sequence",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""One row, `rows`: the last number given. Who writes locks it first, so writers take turns."""

threads = Table(
    "threads",
    metadata,
    Column("n", BigInteger, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("created_at", Double, nullable=False),
    Column("title", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("runtime", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("parent_thread_id", Text),
    Column("session_id", Text),
)

messages = Table(
    "messages",
    metadata,
    Column("n", BigInteger, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("thread_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("run_id", Text),
)

runs = Table(
    "runs",
    metadata,
    Column("n", BigInteger, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("thread_id", Text, nullable=False),
    Column("parent_run_id", Text),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("runtime", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("result", Text),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("parent_agent", Text, nullable=False),
    Column("task_id", Text),
    Column("depth", BigInteger, nullable=False),
)
"""A run is unfinished while `ended_at` is null."""

run_commands = Table(
    "run_commands",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("key", Text),
    Column("created_at", Double, nullable=False),
    Column("refused", Boolean, nullable=False),
)
"""`owner` is the process that holds the run, and is to carry the command out."""

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("n", BigInteger, primary_key=True),
    Column("type", Text, nullable=False),
    Column("time", Double, nullable=False),
    Column("thread_id", Text),
    Column("run_id", Text),
    Column("task_id", Text),
    Column("data", Text, nullable=False),
)
"""No foreign keys: an event may speak of a thread that nobody made."""

results = Table(
    "results",
    metadata,
    Column("handle", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
)

plugins = Table(
    "plugins",
    metadata,
    Column("name", Text, primary_key=True),
    Column("enabled", Boolean),
    Column("settings", Text),
)

plugin_values = Table(
    "plugin_values",
    metadata,
    Column("space", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    Column("n", BigInteger, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("input", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("run_id", Text),
    Column("task_id", Text),
    Column("owner", Text, nullable=False),
    Column("requested_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("decision", Text),
    Column("decided_input", Text),
    Column("decision_reason", Text, nullable=False),
    Column("decided_at", Double),
)
"""`n` is the number of the event that tells of it. No foreign keys: a call may name a thread that nobody made."""
