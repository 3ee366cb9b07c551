"""What comes from a model's API, made fit for a conversation that is sent back to it with every request.

An API may send anything: half characters, a name no API takes back, one id for two calls, arguments nested
beyond reading. One such thing kept in the history would make every later request fail. What is changed here
loses what the provider kept of it, which has the same in it.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import structs

from toolstead.errors import ModelError
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import ModelReply, ToolUse
from toolstead.types.content import whole_text

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_ID = 256
DEEPEST = 100
"""Objects and lists inside each other that arguments may have; no interpreter and no API fails at that."""
_TOO_DEEP = "(nested too deeply to be read)"


def clean_reply(reply: ModelReply, limits: Limits, *, model: str) -> ModelReply:
    """The reply, fit to be kept: the same object when nothing is wrong with it.

    Raises:
        ModelError: It is over a limit.
    """
    if len(reply.calls) > limits.calls:
        raise ModelError(
            f"{model} made {len(reply.calls):,} calls at once; at most {limits.calls:,} are allowed, so none was run",
            fault="rejected",
        )
    if not reply.calls and len(reply.text) <= limits.reply and reply.text.isascii():
        return reply
    text, seen, size = whole_text(reply.text), set[str](), len(reply.text)
    calls: list[ToolUse] = []
    for call in reply.calls:
        fit, length = _fit_call(call, seen)
        calls.append(fit)
        seen.add(fit.id)
        size += length
        if size > limits.reply:
            break
    if size > limits.reply:
        raise ModelError(f"{model} sent more than {limits.reply:,} characters in one reply", fault="rejected")
    if text is reply.text and all(fit is call for fit, call in zip(calls, reply.calls, strict=True)):
        return reply
    logger.warning("%s sent a reply that no API would accept again; only its readable parts are kept", model)
    return structs.replace(reply, text=text, calls=tuple(calls), kept=None)


def _fit_call(call: ToolUse, seen: set[str]) -> tuple[ToolUse, int]:
    """The call as it can be sent back, and the characters of it."""
    known, name, given, text = call.id, call.name, call.input, call.text
    length = len(name) + len(text)
    if given is None and not text.strip():
        given, text = dict[str, Any](), ""  # some APIs write nothing where there are no arguments
    elif given is None:
        text = whole_text(text)
    else:
        try:
            written = msgspec.json.encode(given)
            if b"null" in written:  # which may have been NaN
                json.dumps(given, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # half characters are a ValueError
            given, text = None, _show_arguments(given)
            length += len(text)
        else:
            length += len(written)
            if written.count(b"{") + written.count(b"[") > DEEPEST and _is_too_deep(given):
                given, text = None, _TOO_DEEP
    if not _NAME.fullmatch(name):
        name = _NO_NAME.sub("_", name[:127]) + "_"  # near to what was meant, and not by chance another tool
    if not known or known in seen or len(known) > _LONGEST_ID or not (known.isascii() and known.isprintable()):
        known = f"call_{secrets.token_hex(8)}"
    if (known, name, text) == (call.id, call.name, call.text) and given is call.input:
        return call, length
    return ToolUse(id=known, name=name, input=given, text=text), length


def _is_too_deep(value: object) -> bool:
    """Whether it is nested too deeply for recursive readers; this check is not recursive."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inner_values(one)]
        if not level:
            return False
    return True


def _inner_values(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return cast("Mapping[object, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _show_arguments(input: object) -> str:
    """Arguments that are no JSON, as near to it as they can be shown; half characters are escaped."""
    try:
        return json.dumps(input, default=repr)
    except (TypeError, ValueError, RecursionError):
        return _TOO_DEEP
