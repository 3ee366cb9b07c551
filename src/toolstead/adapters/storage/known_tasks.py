"""What a batch knows of tasks and budgets: read once, changed in memory, and written together.

A statement that an operation runs itself must see what others before it changed, and may change tasks: the ledger's
`connection` writes what is pending first, and forgets the rows of tasks that are known here. Budgets are read and
changed here alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, Executable, bindparam, func, select

from toolstead.adapters.storage.rows import StructRows, Values, pad_list, round_up
from toolstead.adapters.storage.tables import (
    BUDGETS,
    END_TASK,
    SET_SHARE,
    SET_TREE,
    SHARES,
    START_TASK,
    TASKS,
    Statements,
    StructChange,
    budgets,
    shares,
    tasks,
)
from toolstead.adapters.storage.task_queries import COLUMNS, IS_OPEN
from toolstead.delegation.budget import TreeShare
from toolstead.types.task import Task, TreeBudget

_given: BindParameter[Any] = bindparam("given", expanding=True)
_TASKS = select(*COLUMNS).where(tasks.c.id.in_(_given))
_SHARES = select(shares).where(shares.c.run_id.in_(_given))
_TREES = select(budgets).where(budgets.c.root_run_id.in_(_given))
_OF_AGENT = (tasks.c.project == bindparam("project")) & (tasks.c.agent == bindparam("agent")) & IS_OPEN
_QUEUED = select(*COLUMNS).where(_OF_AGENT, tasks.c.queued_at.is_not(None)).order_by(tasks.c.n).limit(bindparam("most"))
_COUNT_HOLDERS = select(func.count()).where(_OF_AGENT, tasks.c.queued_at.is_(None))


@dataclass(slots=True)
class AgentQueue:
    """The tasks that wait for a slot of one agent, oldest first, as far as they were read.

    Attributes:
        waiting: Their rows.
        is_whole: Whether none waits behind them.
        holders: Open tasks that have a slot.
    """

    waiting: deque[Sequence[Any]]
    is_whole: bool
    holders: int


class KnownTasks:
    """Rows of tasks, of the queues for their agents, and of budgets, in one transaction."""

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self._connection, self._statements = connection, statements
        self._tasks: dict[str, Task | None] = {}
        self._queues: dict[tuple[str, str], AgentQueue] = {}
        self._most = 1
        self._pending: dict[StructChange, list[Values]] = {START_TASK: [], END_TASK: []}
        self._trees: dict[str, TreeBudget | None] = {}
        self._shares: dict[str, TreeShare | None] = {}
        self._new: set[str] = set()
        """Trees and shares that have no row yet, by the id of their run."""
        self._changed: set[str] = set()
        self._changed_shares: set[str] = set()

    def load(self, *, claimed: Collection[str], shares: Collection[str], roots: Collection[str]) -> None:
        """Read what the next operations must know; what was known before is forgotten."""
        self.forget_tasks()
        self._most = max(1, len(claimed))
        self._tasks = self._find_rows(TASKS, _TASKS, "id", claimed)
        self._shares = self._find_rows(SHARES, _SHARES, "run_id", shares)
        wanted = {*roots, *(share.root_run_id for share in self._shares.values() if share is not None)}
        self._trees = self._find_rows(BUDGETS, _TREES, "root_run_id", wanted)

    def forget_tasks(self) -> None:
        """Write what is pending, and read tasks again when they are asked for."""
        if self._tasks or self._queues:
            self._write_tasks()
            self._tasks.clear()
            self._queues.clear()

    def write(self) -> None:
        """Write what was changed."""
        self._write_tasks()
        changed, self._changed = self._changed, set()
        trees = [tree for one in changed if (tree := self._trees[one]) is not None]
        self._write_all(BUDGETS, [BUDGETS.encode_row(one) for one in trees if _tree_key(one) in self._new])
        self._write_all(SET_TREE, [SET_TREE.encode_change(one) for one in trees if _tree_key(one) not in self._new])
        changed, self._changed_shares = self._changed_shares, set()
        owned = [share for one in changed if (share := self._shares[one]) is not None]
        self._write_all(SHARES, [SHARES.encode_row(one) for one in owned if one.run_id in self._new])
        self._write_all(SET_SHARE, [SET_SHARE.encode_change(one) for one in owned if one.run_id not in self._new])
        self._new.clear()

    def find_task(self, id: str) -> Task | None:
        """A task, if it is there."""
        if id not in self._tasks:
            self._write_tasks()
            self._tasks |= self._find_rows(TASKS, _TASKS, "id", (id,))
        return self._tasks[id]

    def end_task(self, before: Task, ended: Task) -> None:
        """Change a task to one that has its outcome; its slot is free."""
        self._tasks[ended.id] = ended
        self._pending[END_TASK].append(END_TASK.encode_change(ended))
        agent = (ended.project, ended.agent)
        if before.waits_for_slot:
            self._queues.pop(agent, None)
        elif (queue := self._queues.get(agent)) is not None:
            queue.holders -= 1

    def take_queued(self, agent: tuple[str, str], cap: int) -> Task | None:
        """The task that waits longest for a slot of an agent of a project, when one is free; then start it."""
        queue = self._queues.get(agent)
        if queue is None or not (queue.waiting or queue.is_whole):
            queue = self._queues[agent] = self._read_queue(*agent)
        return TASKS.decode_row(queue.waiting.popleft()) if queue.waiting and queue.holders < cap else None

    def start_task(self, started: Task) -> None:
        """Give a slot to the task that `take_queued` gave."""
        self._tasks[started.id] = started
        self._pending[START_TASK].append(START_TASK.encode_change(started))
        self._queues[started.project, started.agent].holders += 1

    def find_tree(self, root_run_id: str) -> TreeBudget | None:
        """The budget of a tree; None for one in which nothing was delegated."""
        if root_run_id not in self._trees:
            self._trees |= self._find_rows(BUDGETS, _TREES, "root_run_id", (root_run_id,))
        return self._trees[root_run_id]

    def find_share(self, run_id: str) -> TreeShare | None:
        """What a run has of its tree's budget."""
        if run_id not in self._shares:
            self._shares |= self._find_rows(SHARES, _SHARES, "run_id", (run_id,))
        return self._shares[run_id]

    def set_tree(self, tree: TreeBudget, *, is_new: bool = False) -> None:
        """Change or add the budget of a tree."""
        self._trees[tree.root_run_id] = tree
        self._changed.add(tree.root_run_id)
        if is_new:
            self._new.add(_tree_key(tree))

    def set_share(self, share: TreeShare, *, is_new: bool = False) -> None:
        """Change or add what a run has."""
        self._shares[share.run_id] = share
        self._changed_shares.add(share.run_id)
        if is_new:
            self._new.add(share.run_id)

    def _read_queue(self, project: str, agent: str) -> AgentQueue:
        self._write_tasks()
        most, chosen = round_up(self._most), {"project": project, "agent": agent}
        waiting = self._connection.execute(_QUEUED, {**chosen, "most": most}).all()
        holders = self._connection.execute(_COUNT_HOLDERS, chosen).scalar_one() if waiting else 0
        return AgentQueue(waiting=deque(waiting), is_whole=len(waiting) < most, holders=holders)

    def _write_tasks(self) -> None:
        for change, rows in self._pending.items():
            self._write_all(change, rows)
            rows.clear()

    def _write_all(self, written: StructRows[Any] | StructChange, rows: list[Values]) -> None:
        if rows:
            self._connection.exec_driver_sql(self._statements.write[written], rows)

    def _find_rows(self, rows: StructRows[Any], query: Executable, key: str, ids: Collection[str]) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(ids)
        if found:
            for row in self._connection.execute(query, pad_list(found)):
                one = rows.decode_row(row)
                found[getattr(one, key)] = one
        return found


def _tree_key(tree: TreeBudget) -> str:
    """Its place among what is new: the root's own share has the same id."""
    return f"tree {tree.root_run_id}"
