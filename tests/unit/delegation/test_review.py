"""The review of an attempt: every row of its table, gates before reviewers, and nothing unreviewed is accepted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.delegation.reviewed_task import ENVIRON, RUN, make_task, run_python
from toolstead.delegation import review as review_module
from toolstead.delegation.feedback import MOST_FEEDBACK, join_feedback, normalise_defect, shorten_middle
from toolstead.delegation.gates import GateResult
from toolstead.delegation.review import ReviewResult, ReviewTask, TaskReviewer
from toolstead.errors import Rejected
from toolstead.plugins.contract import Hooks
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import Hooked, HookRunner
from toolstead.tools.validation import BoundedValidator
from toolstead.types.verdict import Verdict

Answer = Verdict | None | Exception | str
PASSES, FAILS = run_python("print('fine')"), run_python("print('test_sum failed'); raise SystemExit(1)")
BROKEN: Mapping[str, Any] = {"command": "no-such-program-anywhere"}
ACCEPT, REJECT, UNKNOWN = Verdict(True), Verdict(False, "no tests"), Verdict(None, "too long to read")


class Reviewers:
    """Plugins that review, and what they were asked."""

    def __init__(self, *answers: Answer, timeout: float | None = None) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.runner = HookRunner()
        self.runner.set_hooks(
            [
                Hooked(
                    plugin=f"reviewer-{number}",
                    hooks=Hooks(on_task_complete=self._answer_with(answer), timeout=timeout),
                    health=Health(f"reviewer-{number}"),
                )
                for number, answer in enumerate(answers)
            ]
        )

    def _answer_with(self, answer: Answer) -> Callable[[str, str, str], Any]:
        async def on_task_complete(thread_id: str, task_id: str, result: str) -> Any:
            self.asked.append((thread_id, task_id, result))
            if isinstance(answer, Exception):
                raise answer
            if answer == "hang":
                await asyncio.Event().wait()
            return answer

        return on_task_complete


def make_reviewer(folder: Path, reviewers: Reviewers, *gates: Mapping[str, Any]) -> TaskReviewer:
    return TaskReviewer(
        gates_of=lambda _task: gates,
        schema_of=lambda _task: None,
        folder_of=lambda _task: folder,
        hooks=reviewers.runner,
        find_problems=BoundedValidator().find_problems,
        environ=ENVIRON,
    )


async def reviewed(folder: Path, reviewers: Reviewers, *gates: Mapping[str, Any]) -> ReviewResult:
    review: ReviewTask = make_reviewer(folder, reviewers, *gates)
    return await review(make_task(), RUN, "All tests pass.")


@pytest.mark.parametrize(
    ("gates", "answers", "accepted", "said"),
    [
        # none at all
        ((), (), True, ""),
        ((), (None,), True, ""),
        # one rejects
        ((FAILS,), (), False, "test_sum failed"),
        ((PASSES,), (REJECT,), False, "no tests"),
        ((), (ACCEPT, Rejected("raised")), False, "raised"),
        ((), (REJECT, ACCEPT), False, "no tests"),
        ((), (UNKNOWN, REJECT), False, "no tests"),
        ((), (Verdict(False),), False, "reviewer-0 rejected it without a reason"),
        ((BROKEN, FAILS), (), False, "test_sum failed"),
        # none rejects, one accepts
        ((PASSES,), (), True, ""),
        ((PASSES,), (None,), True, ""),
        ((), (ACCEPT,), True, ""),
        ((), (None, Verdict(True, "neat")), True, "neat"),
        ((PASSES,), (ACCEPT, UNKNOWN), True, "too long to read"),
        ((BROKEN,), (ACCEPT,), True, "could not be run: program not found"),
        # none rejects or accepts, one is unknown or failed
        ((), (UNKNOWN,), None, "too long to read"),
        ((), (Verdict(None),), None, "reviewer-0 could not decide"),
        ((PASSES,), (UNKNOWN,), None, "too long to read"),
        ((PASSES,), (None, UNKNOWN), None, "too long to read"),
        ((BROKEN,), (), None, "could not be run: program not found"),
        ((PASSES, BROKEN), (None,), None, "could not be run: program not found"),
        ((PASSES,), (ValueError("private"),), None, "'reviewer-0' could not review it: it crashed (ValueError)"),
        ((PASSES,), ("yes",), None, "could not review it: it must answer Verdict"),
    ],
)
async def test_every_row_of_the_table(
    gates: tuple[Mapping[str, Any], ...], answers: tuple[Answer, ...], accepted: bool | None, said: str, tmp_path: Path
) -> None:
    result = await reviewed(tmp_path, Reviewers(*answers), *gates)
    assert result.accepted is accepted
    assert said in result.feedback
    assert "private" not in result.feedback
    assert bool(result.defect) is (accepted is False)


async def test_a_reviewer_that_hangs_is_unknown(tmp_path: Path) -> None:
    result = await reviewed(tmp_path, Reviewers("hang", timeout=0.05), PASSES)
    assert result.accepted is None
    assert "'reviewer-0' could not review it" in result.feedback


async def test_where_a_gate_rejects_no_reviewer_is_asked_and_all_gates_are_told(tmp_path: Path) -> None:
    reviewers = Reviewers(ACCEPT)
    other = run_python("print('x' * 100_000, 'ruff is unhappy'); raise SystemExit(2)")
    result = await reviewed(tmp_path, reviewers, FAILS, PASSES, BROKEN, other)
    assert reviewers.asked == []
    assert result.accepted is False
    assert "test_sum failed" in result.feedback
    assert "ruff is unhappy" in result.feedback
    assert "no-such-program" not in result.feedback, "the next attempt cannot mend the gate"
    assert len(result.feedback) <= MOST_FEEDBACK
    again = await reviewed(tmp_path, reviewers, FAILS, PASSES, other)
    assert again.defect == result.defect
    assert (await reviewed(tmp_path, reviewers, FAILS)).defect != result.defect


async def test_reviewers_are_asked_in_the_tasks_own_thread_and_find_what_the_gates_said(tmp_path: Path) -> None:
    reviewers = Reviewers()
    review = make_reviewer(tmp_path, reviewers, PASSES)
    found: list[Any] = []

    async def on_task_complete(thread_id: str, task_id: str, result: str) -> Verdict:
        found.extend([thread_id, result, *review.last_gates(task_id)])
        return Verdict(False, "1 of 3 is wrong")

    hooks = Hooks(on_task_complete=on_task_complete)
    reviewers.runner.set_hooks([Hooked(plugin="validation", hooks=hooks, health=Health("validation"))])
    result = await review(make_task(), RUN, "Done.")
    [thread_id, answer, gate] = found
    assert (thread_id, answer, gate.passed, gate.output) == ("th_own", "Done.", True, "fine")
    assert (result.feedback, result.defect) == ("1 of 3 is wrong", "validation: 0 of 0 is wrong")
    assert review.last_gates("another") == ()


async def test_what_is_remembered_of_gates_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_module, "MOST_TASKS", 3)
    review = make_reviewer(tmp_path, Reviewers(), {"files": ["missing.txt"]})
    for number in (1, 2, 1, 3, 4):
        await review(make_task(f"task_{number}"), RUN, "x")
    assert [bool(review.last_gates(f"task_{number}")) for number in (1, 2, 3, 4)] == [True, False, True, True]
    monkeypatch.setattr(review_module, "MOST_KEPT", 10)
    await review(make_task("task_5"), RUN, "x")
    assert [bool(review.last_gates(f"task_{number}")) for number in (1, 3, 4, 5)] == [False, False, False, True]


def test_long_feedback_keeps_its_beginning_and_its_end_and_short_one_is_whole() -> None:
    long = f"begin {'x' * 9_000} end"
    cut = shorten_middle(long, 1_000)
    assert len(cut) <= 1_000
    assert cut.startswith("begin xxx")
    assert cut.endswith("xxx end")
    note = re.search(r"\n\[… ([\d,]+) characters left out …\]\n", cut)
    assert note is not None
    assert len(cut) - len(note[0]) + int(note[1].replace(",", "")) == len(long)
    joined = join_feedback(["short one", long, long, "another short one"])
    assert len(joined) <= MOST_FEEDBACK
    assert joined.startswith("short one\n\nbegin")
    assert joined.endswith("end\n\nanother short one")
    assert len(join_feedback(["y" * 50] * 1_000)) <= MOST_FEEDBACK
    assert join_feedback([]) == ""


def test_long_defects_differ_though_their_beginnings_are_equal() -> None:
    first, second = (normalise_defect("same " * 5_000 + end) for end in ("a", "b"))
    assert first != second
    assert len(first) < 2_100


def test_gate_results_are_sent_without_what_is_only_for_the_next_attempt() -> None:
    result = GateResult(gate="make", passed=None, output="o", feedback="f", defect="d")
    assert result.to_json() == {"gate": "make", "passed": None, "output": "o"}
