"""The review of an attempt: gates first, then the reviewers among the plugins.

| gates and reviewers | verdict | outcome, on the last attempt |
|---|---|---|
| none at all | accepted | `completed` |
| one rejects | rejected | `rejected` |
| none rejects, one accepts | accepted | `completed` |
| none rejects or accepts, one is unknown or failed | unknown | `completed_unverified` |

A gate that passes does not accept by itself where a reviewer is unknown: nothing unreviewed is called accepted.
All gates run; where one rejects, no reviewer is asked. What passed all gates is accepted where no reviewer has an
opinion.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from toolstead.agents.prompt_tool import FindProblems
from toolstead.delegation.feedback import join_feedback, normalise_defect
from toolstead.delegation.gates import FolderOf, GateResult, GatesOf, SchemaOf, TaskGates
from toolstead.plugins.hook_runner import HookRunner, Review
from toolstead.tools.handlers.pinned import Pinned
from toolstead.types.run import Run
from toolstead.types.task import Task

MOST_TASKS = 2_000
"""Tasks whose gates are remembered, for reviewers."""
MOST_KEPT = 16_000_000
"""Characters of what is remembered; the oldest is forgotten first."""
LONGEST_DEFECTS = 8_000


class ReviewResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a review found.

    Attributes:
        accepted: True accepts, False rejects, None means that nobody could decide.
        feedback: For the next attempt, or why nobody could decide.
        defect: What of the feedback stays the same when the same defect is found again; empty for an accepted one.
    """

    accepted: bool | None
    feedback: str = ""
    defect: str = ""


class ReviewTask(Protocol):
    """Reviews a finished attempt of a task; never raises but when it is cancelled."""

    async def __call__(self, task: Task, run: Run, answer: str) -> ReviewResult:
        """Review the answer that a run gave."""
        ...


class TaskReviewer:
    """Reviews attempts with the gates of their tasks and the reviewers among the plugins; a `ReviewTask`."""

    def __init__(
        self,
        *,
        gates_of: GatesOf,
        schema_of: SchemaOf,
        folder_of: FolderOf,
        hooks: HookRunner,
        find_problems: FindProblems,
        environ: Mapping[str, str],
        pinned: Pinned | None = None,
    ) -> None:
        """Review nothing yet.

        Args:
            gates_of: The gates of a task: those of the settings, then those of its agent.
            schema_of: What its answer must fit; None when any text will do.
            folder_of: The folder that it works in.
            hooks: Those of the plugins.
            find_problems: Validates answers, bounded in time.
            environ: The user's environment, of which commands of gates see a part.
            pinned: The approved copy of the project's own folder, from which programs of gates run.
        """
        self._gates = TaskGates(
            gates_of=gates_of,
            schema_of=schema_of,
            folder_of=folder_of,
            find_problems=find_problems,
            environ=environ,
            pinned=pinned,
        )
        self._hooks = hooks
        self._results: OrderedDict[str, tuple[GateResult, ...]] = OrderedDict()
        self._kept_size = 0

    async def __call__(self, task: Task, run: Run, answer: str) -> ReviewResult:
        """Review the answer that a run gave."""
        results = await self._gates.run_gates(task, answer)
        self._keep_results(task.id, results)
        if rejecting := [result for result in results if result.passed is False]:
            return ReviewResult(
                accepted=False,
                feedback=join_feedback([result.feedback for result in rejecting]),
                defect="\n".join(result.defect for result in rejecting)[:LONGEST_DEFECTS],
            )
        reviews = await self._hooks.on_task_complete(task.thread_id, task.id, answer)
        return _combine_verdicts(results, reviews)

    def last_gates(self, task_id: str) -> Sequence[GateResult]:
        """What became of the gates of a task when it was reviewed last; nothing for one that was not reviewed here."""
        return self._results.get(task_id, ())

    def _keep_results(self, task_id: str, results: Sequence[GateResult]) -> None:
        self._kept_size -= _measure_results(self._results.pop(task_id, ()))
        self._results[task_id] = tuple(results)
        self._kept_size += _measure_results(results)
        while len(self._results) > MOST_TASKS or (self._kept_size > MOST_KEPT and len(self._results) > 1):
            self._kept_size -= _measure_results(self._results.popitem(last=False)[1])


def _combine_verdicts(results: Sequence[GateResult], reviews: Sequence[Review]) -> ReviewResult:
    """The rest of the table, once no gate rejects."""
    given = [(review.plugin, review.verdict) for review in reviews if review.verdict is not None]
    rejections = [(plugin, verdict.feedback) for plugin, verdict in given if verdict.accepted is False]
    if rejections:
        texts = [text.strip() or f"{plugin} rejected it without a reason" for plugin, text in rejections]
        return ReviewResult(
            accepted=False,
            feedback=join_feedback(texts),
            defect="\n".join(normalise_defect(f"{plugin}: {text}") for plugin, text in rejections)[:LONGEST_DEFECTS],
        )
    unknown = [result.feedback for result in results if result.passed is None]
    unknown += [verdict.feedback or f"{plugin} could not decide" for plugin, verdict in given if not verdict.accepted]
    praise = [verdict.feedback for _, verdict in given if verdict.accepted]
    is_accepted = bool(praise) or not unknown
    return ReviewResult(
        accepted=is_accepted or None, feedback=join_feedback([text for text in (*praise, *unknown) if text.strip()])
    )


def _measure_results(results: Sequence[GateResult]) -> int:
    return sum(len(result.output) + len(result.feedback) + len(result.defect) for result in results)
