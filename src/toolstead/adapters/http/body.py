"""Request bodies: read in bounded memory, decoded once, with errors that explain what does not fit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from toolstead.adapters.http.asgi import HttpResponse, Receive
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, problem_response
from toolstead.errors import suggest

LINGER = 2.0
"""Seconds that a refused client may keep sending, so that it can read the refusal."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(.*)", re.DOTALL)
_T = TypeVar("_T", bound=msgspec.Struct)


class TooLargeError(Exception):
    """The body is larger than allowed; the text has the size and the limit."""


class BodyError(Exception):
    """The body is not JSON or does not fit the route; caught where requests are answered.

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
    try:
        async with asyncio.timeout(LINGER):
            while (message := await receive())["type"] != "http.disconnect" and message.get("more_body", False):
                pass
    except TimeoutError:
        return


def body_decoder(shape: type[_T]) -> Callable[[bytes, str], _T]:
    """Create a decoder for bodies of one shape: `decode(body, path)`.

    An empty body is an empty object. Of two members with the same name the last one counts, as in
    Python and in browsers.
    """
    decode = msgspec.json.Decoder(shape).decode
    members = tuple(field.encode_name for field in msgspec.structs.fields(shape))

    def read(body: bytes, path: str) -> _T:
        try:
            return decode(body or b"{}")
        except RecursionError:
            raise BodyError(
                problem_response(BAD_JSON, "The JSON is nested too deeply to be read.", instance=path)
            ) from None
        except UnicodeDecodeError as error:
            detail = f"The body is not UTF-8: {error.reason}."
            raise BodyError(problem_response(BAD_JSON, detail, instance=path)) from None
        except msgspec.ValidationError as error:
            raise BodyError(problem_response(BAD_BODY, _explain_mismatch(str(error), members), instance=path)) from None
        except msgspec.DecodeError as error:
            raise BodyError(problem_response(BAD_JSON, f"{error}.", instance=path)) from None

    return read


def _explain_mismatch(text: str, members: tuple[str, ...]) -> str:
    """An error message of msgspec, with a JSON pointer and the nearest member."""
    if unknown := _UNKNOWN.fullmatch(text):
        hint = suggest(unknown[1], members, otherwise=f"the body may have {' and '.join(map(repr, members))}.")
        return f"The body has a member {unknown[1][:100]!r} that this route does not accept; {hint}"
    what, _, place = text.partition(" - at `$")
    pointer = place.rstrip("`").replace(".", "/").replace("[...]", "/…")
    return f"{pointer or 'The body'}: {what[:1].lower()}{what[1:]}."
