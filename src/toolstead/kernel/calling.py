"""Runs the calls of a model: concurrently where that is safe, else in order.

A call that cannot be made (a tool that is not offered, arguments that are no JSON object) is answered with
what would be right; one that fails again and again ends the activation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

import msgspec

from toolstead.errors import LimitError
from toolstead.kernel.activation import Activation
from toolstead.kernel.conversation import Conversation, ToolAnswer, ToolUse
from toolstead.nearest_names import suggest
from toolstead.types.content import Content, Text, whole_text
from toolstead.types.result import ToolResult
from toolstead.types.tool import ToolInfo

logger = logging.getLogger(__name__)

_INTERRUPTED = (Text("this call was interrupted; what it had done by then is not known"),)
_NOT_MADE = (Text("this call was not made: the reply that wanted it was interrupted before its turn came"),)


class Calling:
    """The calls of one activation."""

    def __init__(self, activation: Activation, conversation: Conversation) -> None:
        self._activation = activation
        self._conversation = conversation
        self._offered: Sequence[ToolInfo] = ()
        self._tools: Mapping[str, ToolInfo] = {}
        self._failed: dict[tuple[str, bytes], int] = {}
        self._failing_turns = 0
        self._counted = set[tuple[str, bytes]]()

    async def carry_out(self, calls: Sequence[ToolUse]) -> None:
        """Make the calls of one reply, and put their answers into the conversation; interrupted ones too.

        Raises:
            LimitError: The model goes on making calls that fail.
        """
        answers = [ToolAnswer(call=call, content=_NOT_MADE, is_error=True) for call in calls]
        self._counted.clear()
        try:
            for group in self._group_calls(calls):
                if len(group) == 1:
                    await self._answer_call(group[0], answers)
                else:
                    async with asyncio.TaskGroup() as tasks:
                        for at in group:
                            tasks.create_task(self._answer_call(at, answers))
        finally:
            self._conversation.messages.extend(answers)
        self._judge_answers(answers)

    def _group_calls(self, calls: Sequence[ToolUse]) -> Iterator[list[int]]:
        """The indexes of calls that may run at once, in order: adjacent calls that only read."""
        if len(calls) == 1:
            yield [0]
            return
        group: list[int] = []
        for at, call in enumerate(calls):
            tool = self._find_tool(call.name)
            reads = tool is None or tool.annotations.read_only is True  # what is not there does nothing
            if group and (not reads or len(group) == self._activation.limits.parallel):
                yield group
                group = []
            if reads:
                group.append(at)
            else:
                yield [at]
        if group:
            yield group

    async def _answer_call(self, at: int, answers: list[ToolAnswer]) -> None:
        """Make one call, and put its answer in its place; as long as it runs, it counts as interrupted."""
        call = answers[at].call
        answers[at] = ToolAnswer(call=call, content=_INTERRUPTED, is_error=True)
        if call.input is None:
            result = self._refuse_call(call, _broken_arguments(call))
        elif self._find_tool(call.name) is None:
            result = self._refuse_call(call, self._unknown_text(call.name))
        else:
            try:
                result = await self._activation.call_tool(call.name, call.input, call_id=call.id)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                logger.warning("call %s: %s was cancelled, but not by its caller", call.id, call.name)
                result = ToolResult(content=_INTERRUPTED, is_error=True)
        if result.is_error:
            answers[at] = self._count_failure(call, result)
        else:
            answers[at] = ToolAnswer(call=call, content=_whole_content(result.content))

    def _find_tool(self, name: str) -> ToolInfo | None:
        """The offered tool of a name; there may be thousands, so they are kept by name until they change."""
        offered = self._activation.offer()
        if offered is not self._offered:
            self._offered, self._tools = offered, {tool.name: tool for tool in offered}
        return self._tools.get(name)

    def _count_failure(self, call: ToolUse, result: ToolResult) -> ToolAnswer:
        """Count a failing call; from the second time on, warn the model that it repeats itself."""
        key = (call.name, _call_fingerprint(call))
        count = self._failed.get(key, 0)
        if key not in self._counted:  # the model has not seen the error yet when it makes a call twice in one reply
            self._counted.add(key)
            count = self._failed[key] = count + 1
        content = tuple(_whole_content(result.content))
        if count > 1:
            stop = f"at {self._activation.limits.same_failure} you are stopped. Do something else."
            content = (*content, Text(f"[toolstead: this same call has failed {count} times now; {stop}]"))
        return ToolAnswer(call=call, content=content, is_error=True)

    def _judge_answers(self, answers: Sequence[ToolAnswer]) -> None:
        limits, have_failed = self._activation.limits, [answer.is_error for answer in answers]
        if True not in have_failed:
            self._failed.clear()
            self._failing_turns = 0
            return
        for (name, _), count in self._failed.items():
            if count >= limits.same_failure:
                raise LimitError(
                    f"stopped: the model made the same failing call of {name!r} {count} times; "
                    f"the last error: {_last_error(answers, name)}",
                    limit="mistakes",
                )
        self._failing_turns = self._failing_turns + 1 if all(have_failed) else 0
        if self._failing_turns >= limits.failing_turns:
            raise LimitError(
                f"stopped: every call of the last {self._failing_turns} turns failed; "
                f"the last error: {_last_error(answers)}",
                limit="mistakes",
            )

    def _refuse_call(self, call: ToolUse, text: str) -> ToolResult:
        """Emit and log a call that never reaches the dispatcher, as the dispatcher would."""
        logger.warning("call %s: %s", call.id, text)
        tell, shown = self._activation.tell, {"callId": call.id, "name": call.name[:200]}
        tell("tool_use", {**shown, "input": dict(call.input or {})})
        tell("tool_result", {**shown, "isError": True, "content": text, "durationMs": 0.0})
        return ToolResult.error(text)

    def _unknown_text(self, name: str) -> str:
        names = [tool.name for tool in self._activation.offer()]
        hint = suggest(name, names, otherwise=f"the tools are {', '.join(names[:20]) or 'none'}", most=2)
        return f"there is no tool {name[:200]!r}; {hint}"


def _broken_arguments(call: ToolUse) -> str:
    """What is wrong with arguments that are no JSON object."""
    text = call.text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        shown = text if len(text) <= 200 else f"{text[:100]} … {text[-100:]}"
        return f"the arguments of {call.name[:200]!r} are no JSON: {error}. They were: {shown!r}. Send one JSON object"
    return f"the arguments of {call.name[:200]!r} must be one JSON object, not {type(value).__name__}"


def _call_fingerprint(call: ToolUse) -> bytes:
    """A digest that identifies a call by name and input; `asking` made sure that it can be encoded."""
    written = call.text.encode() if call.input is None else msgspec.json.encode(call.input, order="sorted")
    return blake2b(written, digest_size=16).digest()


def _whole_content(content: Sequence[Content]) -> Sequence[Content]:
    """What a tool answered, without half characters: no API takes them."""
    if all(not isinstance(part, Text) or whole_text(part.text) is part.text for part in content):
        return content
    return tuple(Text(whole_text(part.text)) if isinstance(part, Text) else part for part in content)


def _last_error(answers: Sequence[ToolAnswer], name: str | None = None) -> str:
    failed = [answer for answer in answers if answer.is_error and name in (None, answer.call.name)]
    first = failed[-1].content[0] if failed and failed[-1].content else None
    return first.text[:300] if isinstance(first, Text) else "unknown"
