"""The fast path itself: which tools it may call, and how. One for each server, whatever the transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from toolstead.adapters.mcp.fast_path.answers import Answers, json_bytes, render_answer, render_refusal
from toolstead.adapters.mcp.fast_path.messages import CALL_ID_KEY, MessageId
from toolstead.errors import UnknownToolError
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import Generation
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller

logger = logging.getLogger(__name__)

NAME: Final = "toolstead"
"""The server's name."""

_INTERNAL_ERROR = -32603
_LONGEST_CALL_ID = 128
_HEADER_RULE = b'"x-mcp-header"'
"""A schema with this keyword requires headers, which the SDK compares with the arguments."""


class FastPath:
    """Lists tools and calls the plain ones: those that neither report progress nor send requests to the client.

    Attributes:
        answers: The answers that need no call.
    """

    def __init__(self, *, registry: Registry, dispatcher: Dispatcher, version: str, thread_id: str = "default") -> None:
        self.answers = Answers(name=NAME, version=version)
        self._registry = registry
        self._dispatcher = dispatcher
        self._thread_id = thread_id
        self._caller = Caller(thread_id=thread_id)
        self._generation: Generation | None = None
        self._plain: dict[str, bool] = {}

    def tools_page(self, cursor: str | None, *, modern: bool) -> bytes | None:
        """The current result of `tools/list`; None for a cursor that the SDK must check."""
        return self.answers.render_page(self._registry.current, cursor, modern=modern)

    def subscribe_changes(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to changes of the tool list; the returned function unsubscribes."""
        return self._registry.subscribe(lambda swap: changed() if swap.changes else None)

    def is_plain(self, name: str) -> bool:
        """Whether the fast path may call this tool. Decided once for each tool of a generation."""
        generation = self._registry.current
        if generation is not self._generation:
            self._generation, self._plain = generation, {}
        known = self._plain.get(name)
        if known is None:
            registered = generation.tools.get(name)
            if registered is None:
                return False  # not cached: unknown names are unbounded
            tool = registered.tool
            asks_headers = _HEADER_RULE in json_bytes(registered.info.input_schema)
            known = self._plain[name] = not (tool.progress or tool.interactive or asks_headers)
        return known

    async def call(
        self, id: MessageId, name: str, arguments: dict[str, Any] | None, call_id: Any, *, modern: bool
    ) -> bytes | None:
        """Call a tool: the message that answers it, or None when the tool was removed since it was found plain.

        Args:
            id: The request's.
            name: The tool's name.
            arguments: Its arguments.
            call_id: The model's own id of the call, if the client sends one.
            modern: Whether the client uses the modern protocol version.
        """
        caller = self._caller
        if call_id is not None and (told := told_id(call_id)) is not None:
            caller = Caller(thread_id=self._thread_id, call_id=told)
        try:
            result = await self._dispatcher.call(name, arguments, caller)
            return render_answer(id, self.answers.render_result(result, modern=modern))
        except UnknownToolError:
            return None
        except Exception:
            logger.exception("the result of %r could not be encoded", name)
            return render_refusal(id, _INTERNAL_ERROR, "Internal server error")


def told_id(given: Any) -> str | None:
    """The model's own id of a call as the client sends it; None if it is not valid."""
    return given if isinstance(given, str) and 0 < len(given) <= _LONGEST_CALL_ID else None


def call_id_in(meta: Mapping[str, Any] | None) -> str | None:
    """The same, from a request's `_meta`."""
    return told_id(meta.get(CALL_ID_KEY)) if meta else None
