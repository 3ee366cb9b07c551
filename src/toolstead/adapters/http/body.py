"""Request bodies: read in bounded memory, decoded once, with errors that explain what does not fit."""

from __future__ import annotations

import asyncio
import functools
import re
import sys
from contextlib import suppress
from typing import TypeVar

import msgspec

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse, Receive
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, problem_response
from toolstead.nearest_names import suggest
from toolstead.types.sent import StructType

LINGER = 2.0
"""Seconds that a refused client may keep sending, so that it can read the refusal."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(.*)", re.DOTALL)
_INDEX = re.compile(r"\[(\d+)\]")
_T = TypeVar("_T", bound=msgspec.Struct)


class TooLargeError(Exception):
    """The body is larger than allowed; the text has the size and the limit."""


class RequestError(Exception):
    """The body or a parameter does not fit the route; the route table answers with the problem document.

    Attributes:
        answer: The problem document.
    """

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__(answer.status)
        self.answer = answer


async def read_body(receive: Receive, declared: bytes | None, limit: int) -> bytes | None:
    """Read a whole body, or None when the client disconnected before it was complete.

    Raises:
        TooLargeError: The declared size, or what really arrives, is above the limit.
    """
    if declared is not None and int(declared) > limit:
        raise TooLargeError(f"The body has {int(declared):,} bytes; at most {limit:,} are allowed.")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise TooLargeError(f"The body has more than {limit:,} bytes; no more are allowed.")
        if not message.get("more_body", False):
            return b"".join((*chunks, chunk)) if chunks else chunk
        chunks.append(chunk)


async def drain_body(receive: Receive) -> None:
    """Discard what a refused client still sends, for a moment.

    Closing at once would reset the connection under a client that is still writing, and the
    refusal would be lost with it.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while (message := await receive())["type"] != "http.disconnect" and message.get("more_body", False):
                pass


async def decode_body(request: HttpRequest, shape: type[_T]) -> _T:
    """The body of a request, as a Struct.

    An empty body is an empty object. Of two members with the same name the last one counts, as in
    Python and in browsers.

    Raises:
        RequestError: It is not JSON, or does not fit.
    """
    body = await request.read_body() or b"{}"
    try:
        return _decoder_of(shape).decode(body)
    except RecursionError:
        kind, detail = BAD_JSON, "The JSON is nested too deeply to be read."
    except UnicodeDecodeError as error:
        kind, detail = BAD_JSON, f"The body is not UTF-8: {error.reason}."
    except msgspec.ValidationError as error:
        # The decoder stops at the first member that does not fit, and what follows may be no JSON.
        wrong = _find_syntax_error(body)
        kind, detail = (BAD_BODY, _explain_mismatch(str(error), shape)) if wrong is None else (BAD_JSON, wrong)
    except msgspec.DecodeError as error:
        kind, detail = BAD_JSON, _explain_syntax_error(error)
    raise RequestError(problem_response(kind, detail, instance=request.path))


_decoder_of = functools.cache(msgspec.json.Decoder)
_syntax_checker = msgspec.json.Decoder(msgspec.Raw)


def _find_syntax_error(body: bytes) -> str | None:
    """What is wrong with a body that is not JSON; the shape of JSON is not looked at."""
    try:
        _syntax_checker.decode(body)
    except RecursionError:  # what was found before is said
        return None
    except msgspec.DecodeError as error:
        return _explain_syntax_error(error)
    return None


def _explain_syntax_error(error: msgspec.DecodeError) -> str:
    what = str(error).removeprefix("JSON is malformed: ")
    return f"The body is not JSON: {what[:1].lower()}{what[1:]}."


def _explain_mismatch(text: str, shape: StructType) -> str:
    """An error message of msgspec, with a JSON pointer and the nearest member."""
    if unknown := _UNKNOWN.fullmatch(text):
        members = [field.encode_name for field in msgspec.structs.fields(shape)]
        hint = suggest(unknown[1], members, otherwise=f"the body may have {' and '.join(map(repr, members))}.")
        return f"The body has a member {unknown[1][:100]!r} that this route does not accept; {hint}"
    what, _, place = text.partition(" - at `$")
    pointer = _INDEX.sub(r".\1", place.rstrip("`").replace("[...]", ".…")).replace(".", "/")
    if what == "Number out of range":
        what = f"the number is out of range; at most {sys.float_info.max:.1e} is possible"
    return f"{pointer or 'The body'}: {what[:1].lower()}{what[1:]}."
