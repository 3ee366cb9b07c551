"""The newest threads, tasks and waiting approvals of a database file, for a shell that completes: without the store.

Only for a process that opens no store: closing a descriptor of the file drops the locks that the process has on it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

MOST = 100

_QUERIES = {
    "threads": "SELECT id, title FROM threads WHERE id GLOB ? AND ? <> '' ORDER BY n DESC LIMIT ?",
    "approvals": (
        "SELECT id, tool FROM approvals WHERE id GLOB ? AND ? <> '' AND decision IS NULL ORDER BY n DESC LIMIT ?"
    ),
    "tasks": "SELECT id, prompt FROM tasks WHERE id GLOB ? AND project = ? ORDER BY n DESC LIMIT ?",
}


def list_recent_ids(
    file: Path, kind: Literal["threads", "tasks", "approvals"], start: str, project: Path
) -> list[tuple[str, str]]:
    """The newest ids that begin so, each with a title, a prompt or a tool; none without the file.

    Args:
        file: The database.
        kind: Whose ids.
        start: What they begin with.
        project: Whose tasks; threads and approvals belong to no project.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
        pattern = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in start) + "*"
        return connection.execute(_QUERIES[kind], (pattern, str(project), MOST)).fetchall()
