"""Calls what plugins offer to MCP clients: prompts, resources and completions, bounded in time and in size."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from toolstead.concurrency.suspended_coroutine import DeadlineError, SuspendedCoroutine, render_seconds, start_coroutine
from toolstead.errors import FailedRequestError, InvalidRequestError, ToolError
from toolstead.nearest_names import suggest
from toolstead.plugins.contract import Complete, Prompt
from toolstead.plugins.plugin_instance import PluginPrompt, PluginResource
from toolstead.types.client_parts import FilledPrompt
from toolstead.types.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.prompt import PromptMessage

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds that a function has to end after it was cancelled."""
COMPLETION_SECONDS = 5.0
MOST_MESSAGES = 100
LARGEST_PROMPT = 4 * 1024 * 1024
"""Characters and bytes of all messages of a prompt."""
LARGEST_ARGUMENT = 1024 * 1024
LARGEST_RESOURCE = 32 * 1024 * 1024
MOST_COMPLETIONS = 10_000
LONGEST_COMPLETION = 1_000


async def fill_prompt(offered: PluginPrompt, arguments: Mapping[str, str]) -> FilledPrompt:
    """Fill a prompt in.

    Raises:
        InvalidRequestError: An argument is missing, unknown or too long, or the prompt refused it.
        FailedRequestError: It failed, or took too long.
    """
    prompt = offered.prompt
    _check_arguments(prompt, arguments)
    what = f"prompt {prompt.name!r}"
    answer = await _call_bounded(
        lambda: prompt.handler(offered.context, dict(arguments)), prompt.timeout, what, offered.origin
    )
    try:
        messages = _convert_messages(answer)
    except TypeError as error:
        logger.error("%s (%s) returned %s", what, offered.origin, error)  # noqa: TRY400 - it is our own, and says all
        raise FailedRequestError(f"{what} returned {error}") from None
    if (size := sum(_measure(message.content) for message in messages)) > LARGEST_PROMPT:
        logger.error("%s (%s) has %s characters; at most %s are sent", what, offered.origin, size, LARGEST_PROMPT)
        raise FailedRequestError(f"{what} has {size:,} characters when it is filled in; at most {LARGEST_PROMPT:,}")
    return FilledPrompt(description=prompt.description or None, messages=messages)


async def read_plugin_resource(offered: PluginResource, uri: str, variables: Mapping[str, str]) -> str | bytes:
    """Read a resource of a plugin.

    Raises:
        InvalidRequestError: It refused the address.
        FailedRequestError: It failed, took too long, or is too large.
    """
    resource, what = offered.resource, f"resource {uri[:200]!r}"
    answer = await _call_bounded(
        lambda: resource.read(offered.context, variables), resource.timeout, what, offered.origin
    )
    if not isinstance(answer, str | bytes):
        logger.error("%s (%s) returned %s", what, offered.origin, type(answer).__name__)
        raise FailedRequestError(f"{what} returned {type(answer).__name__}, where text or bytes are needed")
    if len(answer) > LARGEST_RESOURCE:
        logger.error("%s (%s) has %s bytes; at most %s are read", what, offered.origin, len(answer), LARGEST_RESOURCE)
        raise FailedRequestError(f"{what} has {len(answer):,} bytes; at most {LARGEST_RESOURCE:,} are read")
    return answer


async def complete_argument(offered: PluginPrompt, argument: str, text: str, given: Mapping[str, str]) -> Sequence[str]:
    """What an argument of a prompt may be that begins with a text.

    Raises:
        InvalidRequestError: It has no such argument.
        FailedRequestError: The plugin's function failed, or took too long.
    """
    known = {one.name: one for one in offered.prompt.arguments}
    if (found := known.get(argument)) is None:
        hint = suggest(argument, known, show=repr, otherwise=f"there are: {', '.join(known) or 'none'}")
        raise InvalidRequestError(f"prompt {offered.prompt.name!r} has no argument {argument[:80]!r}; {hint}")
    if found.complete is None:
        return find_beginnings(found.values, text)
    what = f"the completion of {argument!r} of prompt {offered.prompt.name!r}"
    return await _complete(found.complete, offered, text, given, what)


async def complete_variable(
    offered: PluginResource, variable: str, text: str, given: Mapping[str, str]
) -> Sequence[str]:
    """What a variable in the address of a resource may be that begins with a text; raises as `complete_argument`."""
    function = offered.resource.complete.get(variable)
    if function is None:
        return ()
    return await _complete(
        function, offered, text, given, f"the completion of {variable!r} of {offered.resource.uri!r}"
    )


def find_beginnings(values: Sequence[str], text: str) -> list[str]:
    """The values that begin with a text, whatever the case of their letters."""
    wanted = text.casefold()
    return [value for value in values if value.casefold().startswith(wanted)]


async def _complete(
    function: Complete, offered: PluginPrompt | PluginResource, text: str, given: Mapping[str, str], what: str
) -> Sequence[str]:
    answer = await _call_bounded(
        lambda: function(offered.context, text, given), COMPLETION_SECONDS, what, offered.origin
    )
    if isinstance(answer, str) or not isinstance(answer, Sequence):
        logger.error("%s (%s) returned %s", what, offered.origin, type(answer).__name__)
        raise FailedRequestError(f"{what} returned {type(answer).__name__}, where a list of texts is needed")
    found = [value for value in cast("Sequence[Any]", answer) if isinstance(value, str)]
    fitting = [value for value in found if len(value) <= LONGEST_COMPLETION][:MOST_COMPLETIONS]
    if len(fitting) < len(cast("Sequence[Any]", answer)):
        left_out = len(cast("Sequence[Any]", answer)) - len(fitting)
        logger.warning("%s (%s): %s values are no text, too long or too many", what, offered.origin, left_out)
    return fitting


async def _call_bounded(function: Callable[[], Awaitable[Any]], seconds: float, what: str, origin: str) -> Any:
    """Call a plugin's function with a deadline, and turn what it raises into errors for the client."""
    try:
        answer = start_coroutine(function())
        if type(answer) is SuspendedCoroutine:
            answer = await answer.finish(seconds, grace=GRACE)
    except DeadlineError as error:
        how = "ignored its cancellation and was abandoned" if error.was_abandoned else "was stopped"
        logger.warning("%s (%s) did not answer within %g seconds and %s", what, origin, seconds, how)
        raise FailedRequestError(f"{what} did not answer within {render_seconds(seconds)}") from None
    except ToolError as error:
        logger.info("%s (%s): %s", what, origin, error)
        raise InvalidRequestError(f"{what}: {error}") from None
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
            raise
        crash = f"{what} crashed (id crash_{secrets.token_hex(4)})"
        logger.exception("%s, of %s", crash, origin)
        raise FailedRequestError(f"{crash}; the log has the details") from None
    return answer


def _check_arguments(prompt: Prompt, arguments: Mapping[str, str]) -> None:
    known = {argument.name for argument in prompt.arguments}
    problems = [
        f"{argument.name!r} is needed" + (f": {argument.description}" if argument.description else "")
        for argument in prompt.arguments
        if argument.required and argument.name not in arguments
    ]
    for name, value in arguments.items():
        if name not in known:
            hint = suggest(name, known, show=repr, otherwise=f"there are: {', '.join(sorted(known)) or 'none'}")
            problems.append(f"there is no {name[:80]!r}; {hint}")
        elif len(value) > LARGEST_ARGUMENT:
            problems.append(f"{name!r} has {len(value):,} characters; at most {LARGEST_ARGUMENT:,}")
    if problems:
        raise InvalidRequestError(f"arguments of prompt {prompt.name!r}: {'; '.join(problems[:10])}")


def _convert_messages(answer: Any) -> list[PromptMessage]:
    """What a prompt returned, as messages.

    Raises:
        TypeError: It is something else; the text says what.
    """
    parts: Sequence[Any] = cast("Sequence[Any]", answer) if isinstance(answer, list | tuple) else [answer]
    if len(parts) > MOST_MESSAGES:
        raise TypeError(f"{len(parts):,} messages; at most {MOST_MESSAGES}")
    return [_convert_message(part) for part in parts]


def _convert_message(part: Any) -> PromptMessage:
    match part:
        case PromptMessage(content=Text() | Image() | Audio() | ResourceLink() | EmbeddedResource()):
            return part
        case str():
            return PromptMessage(content=Text(part))
        case Text() | Image() | Audio() | ResourceLink() | EmbeddedResource():
            return PromptMessage(content=part)
        case _:
            raise TypeError(f"{type(part).__name__}, where text, content or messages are needed")


def _measure(content: Content) -> int:
    match content:
        case Text(text=text):
            return len(text)
        case Image(data=data) | Audio(data=data):
            return len(data)
        case EmbeddedResource(content=held):
            return len(held)
        case _:
            return 0
