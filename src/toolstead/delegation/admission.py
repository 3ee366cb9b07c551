"""Whether a task may be started: a pure decision on what a commit has counted.

The order of the checks is that of what a model can do about them: the request itself, the tree, then the agent's slots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

from toolstead.delegation.task_store import AdmissionRequest, Holder, Refusal
from toolstead.types.task import Task, TreeBudget

ALIKE = 0.9
"""How alike two orders must be, from 0 to 1, to count as one that goes back and forth."""
LONGEST_COMPARED = 4_000


class AdmissionFacts(msgspec.Struct, kw_only=True):
    """What the commit counted; the caller adds what it admits.

    Attributes:
        children: Agents that the calling run has started.
        descendants: Agents that were started below the root.
        holders: Open tasks that hold a slot of the agent.
        is_stuck: Whether every holder waits, itself or through its children, for a queued task.
        ancestors: The tasks above, the nearest first: agent and prompt.
        talking: An open task in the conversation that the task goes on with.
        tree: The tree's budget.
    """

    children: int
    descendants: int
    tree: TreeBudget
    holders: Sequence[Holder] = ()
    is_stuck: bool = False
    ancestors: Sequence[tuple[str, str]] = ()
    talking: Holder | None = None


class Queued(msgspec.Struct, frozen=True):
    """The task may be stored, and waits for a slot."""


def decide_admission(task: Task, request: AdmissionRequest, facts: AdmissionFacts) -> Refusal | Queued | None:
    """Why a task is refused, or that it must wait; None when it may begin."""
    refused = _check_conversation(facts) or _check_order(task, facts) or _check_tree(task, request, facts)
    if refused is not None or len(facts.holders) < request.cap:
        return refused
    deadlines = [one.deadline for one in facts.holders if one.deadline is not None]
    first = f"; the first ends in {max(0.0, min(deadlines) - task.created_at):.0f} s at the latest" if deadlines else ""
    taken = f"{task.agent} has {len(facts.holders)} of at most {request.cap} open tasks already{first}"
    if not request.may_queue:
        return Refusal(
            code="DelegateInProgress",
            message=f"DelegateInProgress: {taken}. Wait for one of them, give the work to another agent, or call again "
            "with `queue: true`. multi_agent.max_concurrent_delegates sets this",
            holders=facts.holders,
        )
    if facts.is_stuck:
        return Refusal(
            code="DelegateInProgress",
            message=f"DelegateInProgress: {taken}, and each of these waits for work that is queued itself: this task "
            "would wait for ever. Do the work yourself, or give it to another agent",
            holders=facts.holders,
        )
    return Queued()


def _check_conversation(facts: AdmissionFacts) -> Refusal | None:
    if facts.talking is None:
        return None
    why = f"task {facts.talking.run_id} works in this conversation; wait until it has ended, or begin another one"
    return Refusal(
        code="DelegateInProgress",
        message=f"DelegateInProgress: {why} without `conversation_id`",
        holders=[facts.talking],
    )


def _check_order(task: Task, facts: AdmissionFacts) -> Refusal | None:
    """Refuse an order that is handed on as it came, or that two agents pass back and forth."""
    for number, (agent, prompt) in enumerate(facts.ancestors):
        own = number == 0
        if own and _normalize(prompt) == _normalize(task.prompt):
            why = "this is the task that you were given, unchanged: do it yourself, or delegate a part of it"
        elif agent == task.agent and _are_alike(prompt, task.prompt):
            why = f"{agent} was given this task already, further up: passing it back and forth ends nothing; do it"
        else:
            continue
        return Refusal(code="InvalidRequest", message=f"InvalidRequest: {why}")
    return None


def _check_tree(task: Task, request: AdmissionRequest, facts: AdmissionFacts) -> Refusal | None:
    limits, tree = request.limits, facts.tree
    if task.depth > limits.max_depth:
        what, limit = f"runs may be {limits.max_depth} deep, and this one would be {task.depth}", "max_depth"
    elif facts.children >= limits.max_fanout:
        what = f"one run may start {limits.max_fanout} agents, and this one has started {facts.children}"
        limit = "max_fanout"
    elif facts.descendants >= limits.max_descendants:
        what = f"a tree may have {limits.max_descendants} runs below its root, and has {facts.descendants}"
        limit = "max_descendants"
    elif tree.spent_tokens >= tree.token_budget:
        what, limit = f"all {tree.token_budget:,} tokens of this tree are used", "token_budget"
    elif tree.spent_cost >= tree.cost_budget:
        what, limit = f"all of the ${tree.cost_budget:.2f} of this tree is spent", "cost_budget"
    else:
        return None
    return Refusal(code="LimitReached", message=f"LimitReached: {what}; do the work yourself. limits.{limit} sets this")


def _are_alike(one: str, other: str) -> bool:
    first, second = _normalize(one)[:LONGEST_COMPARED], _normalize(other)[:LONGEST_COMPARED]
    if first == second or (min(len(first), len(second)) >= 20 and (first in second or second in first)):
        return True
    words = SequenceMatcher(None, first.split(), second.split(), autojunk=False)
    return words.real_quick_ratio() >= ALIKE and words.quick_ratio() >= ALIKE and words.ratio() >= ALIKE


def _normalize(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()
