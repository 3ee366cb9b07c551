"""Shared files: reads and writes as functions of a connection.

Files belong to the root of a thread tree, which each statement finds by itself: a read is one statement. A write is
several, in the transaction in which writers take turns (`tables.sequence`), so that no version is given twice.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from toolstead.adapters.storage.tables import FILES, TREES, threads
from toolstead.orchestrator.file_change import make_version
from toolstead.types.vfs import FileChange, FileLimits, FileVersion, SharedFile, TreeUsage

DEEPEST = 1_000
"""Threads between one and its root, so that parents in a circle, which nothing makes, could not go on for ever."""

_files, _trees = FILES.table, TREES.table
_ABOUT = [_files.c[name] for name in FILES.names]
"""Every column but the text."""


def _find_root() -> ColumnElement[str]:
    """The last thread upward from `:thread` that is there; itself where it is not."""
    wanted = bindparam("thread", type_=Text)
    start = select(threads.c.id, threads.c.parent_thread_id, literal(0, Integer).label("depth"))
    upward = start.where(threads.c.id == wanted).cte("upward", recursive=True)
    parent = threads.alias("parent")
    above = select(parent.c.id, parent.c.parent_thread_id, upward.c.depth + 1)
    above = above.where(parent.c.id == upward.c.parent_thread_id, upward.c.depth < DEEPEST)
    upward = upward.union_all(above)
    last = select(upward.c.id).order_by(upward.c.depth.desc()).limit(1)
    return func.coalesce(last.scalar_subquery(), wanted)


_ROOT: ColumnElement[Any] = _find_root()
_OF_TREE: ColumnElement[bool] = _files.c.root_id == _ROOT
_OF_PATH: ColumnElement[bool] = _files.c.path == bindparam("path", type_=Text)

# Statements are made once: making one costs more than running it.
_FIND_ROOT = select(_ROOT)
_NEWEST = select(_files).where(_OF_TREE, _OF_PATH).order_by(_files.c.version.desc()).limit(1)
_ONE = select(_files).where(_OF_TREE, _OF_PATH, _files.c.version == bindparam("version", type_=Integer))
_VERSIONS = (
    select(*_ABOUT)
    .where(_OF_TREE, _OF_PATH, _files.c.version < bindparam("before", type_=Integer))
    .order_by(_files.c.version.desc())
    .limit(bindparam("limit", type_=Integer))
)
_HELD: ColumnElement[bool] = (_files.c.root_id == bindparam("root", type_=Text)) & _OF_PATH
_NEWEST_HELD = select(*_ABOUT).where(_HELD).order_by(_files.c.version.desc()).limit(1)
_TEXT_HELD = select(_files.c.content).where(_HELD, _files.c.version == bindparam("version", type_=Integer))
_USAGE = select(_trees).where(_trees.c.root_id == bindparam("root", type_=Text))
_NO_VERSION = 2**31 - 1


def read_file(connection: Connection, thread_id: str, path: str, *, version: int | None = None) -> SharedFile | None:
    """A version, the newest unless one is named; None when there is none."""
    given: dict[str, Any] = {"thread": thread_id, "path": path}
    if version is None:
        row = connection.execute(_NEWEST, given).first()
    elif version > _NO_VERSION:
        return None
    else:
        row = connection.execute(_ONE, {**given, "version": version}).first()
    return None if row is None else SharedFile(**FILES.decode_fields(row[:-1]), content=row[-1])


def list_files(connection: Connection, thread_id: str, prefix: str = "") -> list[FileVersion]:
    """The newest version of each file that is not deleted, sorted by code points, whatever order the database has."""
    newest = select(_files.c.root_id, _files.c.path, func.max(_files.c.version).label("version")).where(_OF_TREE)
    if prefix:
        # LIKE would ignore case in SQLite.
        newest = newest.where(func.substr(_files.c.path, 1, len(prefix)) == prefix)
    found = newest.group_by(_files.c.root_id, _files.c.path).subquery("newest")
    is_newest = (_files.c.root_id == found.c.root_id) & (_files.c.path == found.c.path)
    wanted: Select[Any] = select(*_ABOUT).join(found, is_newest & (_files.c.version == found.c.version))
    rows = connection.execute(wanted.where(_files.c.deleted.is_(False)), {"thread": thread_id})
    return sorted((FILES.decode_row(row) for row in rows), key=lambda one: one.path)


def list_file_versions(
    connection: Connection, thread_id: str, path: str, *, limit: int = 100, before: int | None = None
) -> list[FileVersion]:
    """The newest first."""
    before = _NO_VERSION if before is None else min(before, _NO_VERSION)
    given = {"thread": thread_id, "path": path, "limit": limit, "before": before}
    return [FILES.decode_row(row) for row in connection.execute(_VERSIONS, given)]


def write_file(connection: Connection, change: FileChange, limits: FileLimits) -> FileVersion:
    """Keep a change as the next version; what it refuses has written nothing."""
    root: str = connection.execute(_FIND_ROOT, {"thread": change.thread_id}).scalar_one()
    held = {"root": root, "path": change.path}

    def read_text(version: int) -> str | None:
        if version > _NO_VERSION:
            return None
        return connection.execute(_TEXT_HELD, {**held, "version": version}).scalar()

    row = connection.execute(_NEWEST_HELD, held).first()
    newest = None if row is None else FILES.decode_row(row)
    counted = connection.execute(_USAGE, {"root": root}).first()
    usage = TreeUsage() if counted is None else TREES.decode_row(counted)
    made = make_version(change, newest, usage, limits, read_text)
    connection.execute(insert(_files).values(root_id=root, content=made.content, **FILES.encode_values(made)))
    after = {
        "files": usage.files + (newest is None),
        "versions": usage.versions + 1,
        "bytes": usage.bytes + made.size,
    }
    if counted is None:
        connection.execute(insert(_trees).values(root_id=root, **after))
    else:
        connection.execute(update(_trees).where(_trees.c.root_id == root).values(**after))
    return made.without_content()


def delete_files(connection: Connection, root_id: str) -> None:
    """Delete all files of a tree, with their history."""
    for table in (_files, _trees):
        connection.execute(delete(table).where(table.c.root_id == root_id))
