"""Review of delegated work, end to end: what is not good enough is done again, and nothing unreviewed is accepted."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flows.delegated import delegate, stage
from tests.flows.talking import bounded
from toolstead import Hooks, Plugin, PluginContext, Verdict
from toolstead.errors import Rejected
from toolstead.invoker.runtime import Answer, Turn

Reviewing = Callable[[str], Awaitable[Any]]
TESTS_PASS = "import pathlib, sys; sys.exit(0 if pathlib.Path('fixed').exists() else 'FAILED test_parser')"


class Reviewer:
    """A plugin that reviews as a test says, and notes every hook that it is called for."""

    def __init__(self, review: Reviewing | None = None, *, timeout: float | None = None) -> None:
        self.seen: list[tuple[str, ...]] = []
        self._review, self._timeout = review, timeout

    @property
    def plugin(self) -> Plugin:
        async def register(ctx: PluginContext) -> Hooks:
            return Hooks(
                on_task_create=self._note_created,
                on_task_complete=self._complete if self._review is not None else None,
                on_task_failed=self._note_failed,
                timeout=self._timeout,
            )

        return Plugin(name="strict", register=register)

    async def _note_created(self, thread_id: str, task_id: str) -> None:
        self.seen.append(("created", thread_id, task_id))

    async def _complete(self, thread_id: str, task_id: str, result: str) -> Any:
        self.seen.append(("complete", thread_id, task_id, result))
        assert self._review is not None
        return await self._review(result)

    async def _note_failed(self, thread_id: str, task_id: str, error: str) -> None:
        self.seen.append(("failed", thread_id, task_id, error))


class Worker:
    """Delegates once, and gives one answer after the other to whoever asks the sub-agent."""

    def __init__(self, *answers: str, do: Callable[[int], None] = lambda _: None) -> None:
        self.prompts: list[str] = []
        self._answers, self._do = answers, do
        self.entry: dict[str, Any] = {}

    async def __call__(self, turn: Turn) -> Answer:
        if not turn.caller.depth:
            self.entry = (await delegate(turn, "mend the parser"))["runs"][0]
            return Answer(text="asked")
        self.prompts.append(turn.prompt)
        self._do(len(self.prompts))
        return Answer(text=self._answers[min(len(self.prompts), len(self._answers)) - 1])


@pytest.mark.promise("P10")
async def test_work_is_rejected_twice_and_then_accepted(tmp_path: Path) -> None:
    async def review(result: str) -> Verdict:
        if result == "first":
            raise Rejected("the comment is still lost")
        return Verdict(result == "third", "fine" if result == "third" else "now the line is wrong")

    reviewer, worker = Reviewer(review), Worker("first", "second", "third")
    async with stage(tmp_path, worker, plugins=[reviewer.plugin]) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        [task] = await at.settle()
        assert (task.outcome, task.summary, task.attempt) == ("completed", "third", 3)
        assert worker.entry["status"] == "completed"
        assert worker.prompts[0] == "mend the parser"
        for prompt, feedback in zip(worker.prompts[1:], ("comment is still lost", "line is wrong"), strict=True):
            assert feedback in prompt
            assert prompt.endswith("mend the parser")
        attempts = await at.talk.store.list_attempts(task.id)
        assert [(one.number, one.accepted) for one in attempts] == [(1, False), (2, False), (3, True)]
        own = (task.thread_id, task.id)
        assert reviewer.seen == [
            ("created", *own),
            *(("complete", *own, answer) for answer in ("first", "second", "third")),
        ]
        assert len({run.thread_id for run in await at.list_runs() if run.task_id == task.id}) == 1


async def crash(result: str) -> Verdict:
    raise RuntimeError("the reviewer is broken")


async def hang(result: str) -> Verdict:
    await asyncio.Event().wait()
    raise AssertionError


async def answer_prose(result: str) -> Any:
    return "Looks good to me!"


@pytest.mark.promise("P10")
@pytest.mark.parametrize("review", [crash, hang, answer_prose])
async def test_what_a_broken_reviewer_saw_is_never_called_accepted(tmp_path: Path, review: Reviewing) -> None:
    reviewer, worker = Reviewer(review, timeout=0.3), Worker("done")
    async with stage(tmp_path, worker, plugins=[reviewer.plugin]) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        [task] = await at.settle()
        assert (task.outcome, task.summary) == ("completed_unverified", "done")
        assert task.error is not None
        assert task.error.code == "unverified"
        assert "strict" in task.error.message
        assert worker.entry["status"] == "completed_unverified"
        assert len(worker.prompts) == 1


def write_gate(code: str) -> str:
    command = shlex.join([sys.executable, "-S", "-E", "-c", code])
    return f"gates:\n  - command: {command!r}" if "'" not in command else f"gates:\n  - command: |-\n      {command}"


async def test_a_false_claim_that_all_tests_pass_is_caught_by_a_gate(tmp_path: Path) -> None:
    def mend(attempt: int) -> None:
        if attempt == 2:
            (tmp_path / "fixed").write_text("yes")

    worker = Worker("All tests pass.", "Now all tests pass.", do=mend)
    async with stage(tmp_path, worker, agents={"helper": write_gate(TESTS_PASS)}) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        [task] = await at.settle()
        assert (task.outcome, task.summary, task.attempt) == ("completed", "Now all tests pass.", 2)
        assert "did not pass: exit status 1" in worker.prompts[1]
        assert "FAILED test_parser" in worker.prompts[1]


@pytest.mark.parametrize(
    ("answers", "feedback", "attempts", "why"),
    [
        (("a", "b", "c"), "the same defect in line {n}", 2, "attempt 2 has the same defect as attempt 1"),
        (("a", "b", " a\n"), "{word} is missing", 3, "attempt 3 repeats the answer of attempt 1"),
        (tuple("abcdefgh"), "{word} is missing", 5, "rejected on the last of 5 attempts"),
    ],
    ids=["same defect", "repeated answer", "last attempt"],
)
async def test_work_that_gets_no_better_ends_as_rejected(
    tmp_path: Path, answers: tuple[str, ...], feedback: str, attempts: int, why: str
) -> None:
    words = iter(["apple", "pear", "plum", "fig", "kiwi", "lime"])

    async def review(result: str) -> Verdict:
        return Verdict(False, feedback.format(n=len(worker.prompts), word=next(words)))

    reviewer, worker = Reviewer(review), Worker(*answers)
    async with stage(tmp_path, worker, plugins=[reviewer.plugin]) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        [task] = await at.settle()
        assert task.error is not None
        assert (task.outcome, task.attempt) == ("rejected", attempts)
        assert task.error.message.startswith(why)
        assert task.summary is not None
        assert task.summary.strip() == answers[attempts - 1].strip()
        assert len(worker.prompts) == attempts
        assert worker.entry["status"] == "rejected"
        assert reviewer.seen[-1] == ("failed", task.thread_id, task.id, task.error.message)


@pytest.mark.promise("P6")
async def test_a_plugin_is_told_of_work_that_fails(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        if turn.caller.depth:
            raise RuntimeError("no")
        await delegate(turn, "work")
        return Answer(text="asked")

    reviewer = Reviewer()
    async with stage(tmp_path, act, plugins=[reviewer.plugin]) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        [task] = await at.settle()
        assert task.outcome == "failed"
        assert task.error is not None
        own = (task.thread_id, task.id)
        assert reviewer.seen == [("created", *own), ("failed", *own, task.error.message)]
