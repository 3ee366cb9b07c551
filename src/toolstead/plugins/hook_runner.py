"""The hook runner: calls every plugin's hooks in order, each in isolation.

The kind of a hook decides what its failure means: a chain keeps the last good prompt, a gate refuses, a
review is unknown, and an observer fails open. A hook that no plugin has costs nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from toolstead.concurrency.suspended_coroutine import SuspendedCoroutine
from toolstead.errors import Rejected
from toolstead.plugins.health import Health
from toolstead.plugins.hook_call import Check, Failed, HookCall
from toolstead.plugins.hook_order import hook_order
from toolstead.types.call import Allow, Ask, Decision, Deny, Rewrite, ToolCall
from toolstead.types.result import ToolResult
from toolstead.types.task import Verdict

if TYPE_CHECKING:
    from toolstead.plugins.contract import Hooks
    from toolstead.types.run import Invoking, Run
    from toolstead.types.thread import Role

TIMEOUT = 10.0
"""Seconds that a hook may take, unless its plugin says otherwise."""
REVIEW_TIMEOUT = 600.0
"""The same for `on_task_complete`, which may ask a model."""

Observer = Callable[[ToolCall, ToolResult], Awaitable[None]]


class Hooked(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that is in use, and its hooks."""

    plugin: str
    hooks: Hooks
    health: Health


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's verdict on a finished task; None is no opinion."""

    plugin: str
    verdict: Verdict | None


class PluginGate:
    """A plugin's `on_before_tool`, as the dispatcher asks it. It fails closed."""

    __slots__ = ("_call", "name")

    def __init__(self, call: HookCall) -> None:
        self._call = call
        self.name = call.plugin

    async def __call__(self, call: ToolCall) -> Decision:
        """The plugin's decision; `Deny` when it fails or is cut off."""
        decision = await self._call(call)
        if isinstance(decision, Failed):
            return Deny(f"plugin {self.name!r} has to check it first and could not: {decision.why}")
        return decision


class _Calls(msgspec.Struct, frozen=True, kw_only=True):
    """A generation: every hook's calls, in order."""

    on_message: tuple[HookCall, ...] = ()
    on_before_invoke: tuple[HookCall, ...] = ()
    on_after_invoke: tuple[HookCall, ...] = ()
    on_task_create: tuple[HookCall, ...] = ()
    on_task_complete: tuple[HookCall, ...] = ()
    on_task_failed: tuple[HookCall, ...] = ()
    on_broadcast: tuple[HookCall, ...] = ()
    on_before_tool: tuple[HookCall, ...] = ()
    on_after_tool: tuple[HookCall, ...] = ()
    on_settings_change: tuple[HookCall, ...] = ()


class HookRunner:
    """Calls hooks. One for each stead; safe for any number of calls at once."""

    def __init__(self, on_set: Callable[[], None] = lambda: None) -> None:
        """A runner without hooks; `on_set` is called whenever there are others."""
        self._on_set = on_set
        self._calls = _Calls()
        self._gates: tuple[PluginGate, ...] = ()
        self._observers: tuple[Observer, ...] = ()
        self._waiting: set[SuspendedCoroutine] = set()

    def set_hooks(self, hooked: Sequence[Hooked]) -> list[str]:
        """Replace the hooks; a call under way ends with those it began with.

        Args:
            hooked: In the default order.

        Returns:
            The problems with their order and time limits, as sentences.
        """
        order, problems = hook_order([(one.plugin, one.hooks) for one in hooked])
        calls: dict[str, list[HookCall]] = {name: [] for name in HOOKS}
        for one in (hooked[index] for index in order):
            seconds, problem = _hook_timeout(one)
            problems += [problem] if problem else []
            for name in HOOKS:
                function = getattr(one.hooks, name)
                if function is not None:
                    calls[name].append(self._call(one, name, function, seconds))
        self._calls = _Calls(**{name: tuple(found) for name, found in calls.items()})
        self._gates = tuple(PluginGate(call) for call in self._calls.on_before_tool)
        self._observers = tuple(_build_observer(call) for call in self._calls.on_after_tool)
        self._on_set()
        return problems

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        """Notify plugins that a message was stored."""
        for call in self._calls.on_message:
            await call(thread_id, role, content)

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        """The prompt for the model: each plugin gets what the one before returned; a failure changes nothing."""
        for call in self._calls.on_before_invoke:
            answer = await call(thread_id, prompt, invocation)
            if not isinstance(answer, Failed):
                prompt = answer
        return prompt

    async def on_after_invoke(self, thread_id: str, result: Run) -> None:
        """Notify plugins that a run has ended."""
        for call in self._calls.on_after_invoke:
            await call(thread_id, result)

    async def on_broadcast(self, event: str, data: Mapping[str, Any], *, source: str | None = None) -> None:
        """Send a broadcast to all plugins but its sender."""
        for call in self._calls.on_broadcast:
            if call.plugin != source:
                await call(event, data)

    async def on_task_create(self, thread_id: str, task_id: str) -> None:
        """Notify plugins that work was delegated."""
        for call in self._calls.on_task_create:
            await call(thread_id, task_id)

    async def on_task_complete(self, thread_id: str, task_id: str, result: str) -> list[Review]:
        """Every reviewer's verdict on a finished attempt; unknown for one that fails or is cut off."""
        return [
            Review(plugin=call.plugin, verdict=_read_verdict(call.plugin, await call(thread_id, task_id, result)))
            for call in self._calls.on_task_complete
        ]

    async def on_task_failed(self, thread_id: str, task_id: str, error: str) -> None:
        """Notify plugins that delegated work failed."""
        for call in self._calls.on_task_failed:
            await call(thread_id, task_id, error)

    async def on_settings_change(self, plugin: str, settings: Any) -> None:
        """Notify one plugin that its settings changed."""
        for call in self._calls.on_settings_change:
            if call.plugin == plugin:
                await call(settings)

    def list_gates(self) -> tuple[PluginGate, ...]:
        """Every `on_before_tool`, in order."""
        return self._gates

    def list_observers(self) -> tuple[Observer, ...]:
        """Every `on_after_tool`, in order; they raise nothing."""
        return self._observers

    async def close(self) -> None:
        """Call no more hooks, and cancel those under way; what ignores its cancellation is abandoned."""
        self.set_hooks(())
        others = [call for call in self._waiting if not call.is_in_running_task]  # a hook may close everything itself
        await asyncio.gather(*(call.end() for call in others))

    def _call(self, one: Hooked, hook: str, function: Callable[..., Any], seconds: float | None) -> HookCall:
        return HookCall(
            function,
            plugin=one.plugin,
            hook=hook,
            health=one.health,
            seconds=seconds or (REVIEW_TIMEOUT if hook == "on_task_complete" else TIMEOUT),
            waiting=self._waiting,
            check=_CHECKS.get(hook),
            foreseen=(Rejected,) if hook == "on_task_complete" else (),
        )


HOOKS: Final = tuple(_Calls.__struct_fields__)
"""The hooks' names."""


def _hook_timeout(one: Hooked) -> tuple[float | None, str]:
    """The time limit that this plugin sets for its hooks, if any; and what is wrong with it."""
    given: Any = one.hooks.timeout
    if given is None or (type(given) in (int, float) and 0 < given < math.inf):
        return given, ""
    return None, f"plugin {one.plugin!r}: timeout of its hooks must be seconds above 0, not {given!r:.100}"


def _build_observer(call: HookCall) -> Observer:
    async def call_observer(tool_call: ToolCall, result: ToolResult) -> None:
        await call(tool_call, result)

    return call_observer


def _read_verdict(plugin: str, answer: Any) -> Verdict | None:
    match answer:
        case Failed(why=why):
            return Verdict(None, f"plugin {plugin!r} could not review it: {why}")
        case Rejected():
            return Verdict(False, str(answer.feedback))
        case _:
            return answer


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


_CHECKS: Mapping[str, Check] = {
    "on_before_invoke": _no_text,
    "on_before_tool": _no_decision,
    "on_task_complete": _no_verdict,
}
