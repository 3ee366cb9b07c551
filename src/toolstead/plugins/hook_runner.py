"""The hook runner: calls every plugin's hooks in order, each in isolation.

The order is the given one, except where `before` and `after` change it. The kind of a hook decides what its failure
means: a chain keeps the last good prompt, a gate refuses, a review is unknown, and an observer fails open. A hook
that no plugin has costs nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolstead.concurrency.suspended_coroutine import SuspendedCoroutine
from toolstead.errors import Rejected
from toolstead.plugins.contract import HOOKS, Hooks
from toolstead.plugins.health import Health
from toolstead.plugins.hook_call import HookCall, HookRule
from toolstead.types.call import Allow, Ask, Deny, Rewrite
from toolstead.types.verdict import Verdict

if TYPE_CHECKING:
    from toolstead.types.run import Invoking, Run
    from toolstead.types.thread import Role

REVIEW_TIMEOUT = 600.0
"""Seconds that `on_task_complete` may take, which may ask a model."""


class Hooked(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that is in use, and its hooks."""

    plugin: str
    hooks: Hooks
    health: Health


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's verdict on a finished task; None is no opinion."""

    plugin: str
    verdict: Verdict | None


class HookRunner:
    """Calls hooks. One for each stead; safe for any number of calls at once."""

    def __init__(self, on_set: Callable[[], None] = lambda: None) -> None:
        """A runner without hooks; `on_set` is called whenever there are others."""
        self._on_set = on_set
        self._calls: Mapping[str, tuple[HookCall, ...]] = dict.fromkeys(HOOKS, ())
        self._waiting: set[SuspendedCoroutine] = set()

    def set_hooks(self, hooked: Sequence[Hooked]) -> list[str]:
        """Replace the hooks; a call under way ends with those it began with.

        Args:
            hooked: In the default order.

        Returns:
            The problems with their order, as sentences.
        """
        ordered, problems = order_hooks(hooked)
        self._calls = {
            hook: tuple(self._build_call(one, hook) for one in ordered if getattr(one.hooks, hook) is not None)
            for hook in HOOKS
        }
        self._on_set()
        return problems

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        """Notify plugins that a message was stored."""
        for call in self._calls["on_message"]:
            await call(thread_id, role, content)

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        """The prompt for the model: each plugin gets what the one before returned; a failure changes nothing."""
        for call in self._calls["on_before_invoke"]:
            answer: str | None = await call(thread_id, prompt, invocation)
            prompt = prompt if answer is None else answer
        return prompt

    async def on_after_invoke(self, thread_id: str, result: Run) -> None:
        """Notify plugins that a run has ended."""
        for call in self._calls["on_after_invoke"]:
            await call(thread_id, result)

    async def on_broadcast(self, event: str, data: Mapping[str, Any], *, source: str | None = None) -> None:
        """Send a broadcast to all plugins but its sender."""
        for call in self._calls["on_broadcast"]:
            if call.name != source:
                await call(event, data)

    async def on_task_create(self, thread_id: str, task_id: str) -> None:
        """Notify plugins that work was delegated."""
        for call in self._calls["on_task_create"]:
            await call(thread_id, task_id)

    async def on_task_complete(self, thread_id: str, task_id: str, result: str) -> list[Review]:
        """Every reviewer's verdict on a finished attempt; unknown for one that fails or is cut off."""
        return [
            Review(plugin=call.name, verdict=_read_verdict(await call(thread_id, task_id, result)))
            for call in self._calls["on_task_complete"]
        ]

    async def on_task_failed(self, thread_id: str, task_id: str, error: str) -> None:
        """Notify plugins that delegated work failed."""
        for call in self._calls["on_task_failed"]:
            await call(thread_id, task_id, error)

    async def on_settings_change(self, plugin: str, settings: Any) -> None:
        """Notify one plugin that its settings changed."""
        for call in self._calls["on_settings_change"]:
            if call.name == plugin:
                await call(settings)

    def list_gates(self) -> tuple[HookCall, ...]:
        """Every `on_before_tool`, in order; one that fails denies the call."""
        return self._calls["on_before_tool"]

    def list_observers(self) -> tuple[HookCall, ...]:
        """Every `on_after_tool`, in order; they raise nothing."""
        return self._calls["on_after_tool"]

    async def close(self) -> None:
        """Call no more hooks, and cancel those under way; what ignores its cancellation is abandoned."""
        self.set_hooks(())
        others = [call for call in self._waiting if not call.is_in_running_task]  # a hook may close everything itself
        await asyncio.gather(*(call.end() for call in others))

    def _build_call(self, one: Hooked, hook: str) -> HookCall:
        rule = _RULES.get(hook, _OBSERVER)
        return HookCall(
            function=getattr(one.hooks, hook),
            name=one.plugin,
            hook=hook,
            health=one.health,
            seconds=one.hooks.timeout or rule.seconds,
            waiting=self._waiting,
            rule=rule,
        )


def order_hooks(hooked: Sequence[Hooked]) -> tuple[list[Hooked], list[str]]:
    """Put plugins in the order of their hooks.

    Args:
        hooked: In the default order.

    Returns:
        The plugins in order, and the problems, as sentences. Unknown names have no effect. Plugins whose
        `before` and `after` form a cycle keep the given order.
    """
    later, problems = _later_plugins(hooked)
    everyone = range(len(hooked))
    reach = [set(found) for found in later]
    for middle in everyone:
        for start in everyone:
            if middle in reach[start]:
                reach[start] |= reach[middle]
    # Two plugins are in one cycle when each has to come before the other.
    cycles = {tuple(b for b in everyone if b in reach[a] and a in reach[b]) for a in everyone if a in reach[a]}
    for cycle in sorted(cycles):
        names = ", ".join(repr(hooked[index].plugin) for index in cycle)
        problems.append(f"plugins {names}: before and after of their hooks form a cycle; the given order stays")
        for index in cycle:
            later[index].difference_update(cycle)
        for index, following in itertools.pairwise(cycle):
            later[index].add(following)
    left = list(everyone)
    ordered: list[Hooked] = []
    while left:  # the first without a predecessor among them; there is one, because there are no cycles any more
        index = next(one for one in left if not any(one in later[other] for other in left))
        left.remove(index)
        ordered.append(hooked[index])
    return ordered, problems


def _later_plugins(hooked: Sequence[Hooked]) -> tuple[list[set[int]], list[str]]:
    """For each plugin the ones that come later, and the problems."""
    problems: list[str] = []
    where = {one.plugin: index for index, one in enumerate(hooked)}
    later: list[set[int]] = [set() for _ in hooked]
    for index, one in enumerate(hooked):
        for word, names in (("before", one.hooks.before), ("after", one.hooks.after)):
            if one.plugin in names:
                problems.append(
                    f"plugin {one.plugin!r}: {word} of its hooks names the plugin itself, which has no effect"
                )
            for other in (where[name] for name in names if name in where and name != one.plugin):
                first, second = (index, other) if word == "before" else (other, index)
                later[first].add(second)
    return later, problems


def _read_verdict(answer: Verdict | Rejected | None) -> Verdict | None:
    return Verdict(False, str(answer.feedback)) if isinstance(answer, Rejected) else answer


def _unknown_verdict(plugin: str, why: str) -> Verdict:
    return Verdict(None, f"plugin {plugin!r} could not review it: {why}")


def _deny_call(plugin: str, why: str) -> Deny:
    return Deny(f"plugin {plugin!r} has to check it first and could not: {why}")


def _no_text(answer: Any) -> str | None:
    return None if isinstance(answer, str) else f"it must answer with the prompt, a text, not {_show_answer(answer)}"


def _no_decision(answer: Any) -> str | None:
    match answer:
        case None | Allow() | Deny(reason=str()) | Ask(reason=str()):
            return None
        case Rewrite():
            given = cast("Any", answer).input
            fits = isinstance(given, Mapping) and all(isinstance(key, str) for key in cast("Mapping[Any, Any]", given))
            return None if fits else "the input of a Rewrite must be a mapping of names to values"
        case _:
            return (
                f"it must answer Allow(), Deny(reason), Rewrite(input), Ask(reason) or None, not {_show_answer(answer)}"
            )


def _no_verdict(answer: Any) -> str | None:
    match answer:
        case None | Verdict(accepted=True | False | None, feedback=str()):
            return None
        case _:
            return f"it must answer Verdict(True, False or None, feedback as text) or None, not {_show_answer(answer)}"


def _show_answer(answer: Any) -> str:
    kind = type(cast("object", answer))
    if kind in {Deny, Ask, Verdict}:
        return f"a {kind.__name__} with a field of a wrong type"
    return f"the class {answer.__name__}" if isinstance(answer, type) else kind.__name__


_OBSERVER = HookRule()
_RULES: Mapping[str, HookRule] = {
    "on_before_invoke": HookRule(check=_no_text),
    "on_before_tool": HookRule(check=_no_decision, fallback=_deny_call),
    "on_task_complete": HookRule(
        check=_no_verdict, fallback=_unknown_verdict, foreseen=(Rejected,), seconds=REVIEW_TIMEOUT
    ),
}
