"""The `context` plugin: gives the conversation to a session that does not know it.

A `warm` or `resumed` session remembers; a `cold` one begins empty. Before its first turn, the messages
of the thread are put before the prompt, once, as much of it as `max_tokens` allows: the newest messages
whole, and how many older ones there were.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from toolstead.plugins.contract import Hooks, Plugin, PluginContext

if TYPE_CHECKING:
    from toolstead.plugins.ports import Threads
    from toolstead.types.run import Invoking
    from toolstead.types.thread import Message

BYTES_PER_TOKEN = 2
"""Every two bytes of UTF-8 are counted as a token, without a tokenizer.

Measured with two of them (cl100k, and the one once published for Claude) on a few kB of each kind; the lower number
of bytes to a token: English 3.7, code 4.2, German 3.3, Chinese 2.9, Hindi 2.4, JSON and log lines 2.2, Arabic 1.9;
random hexadecimal digits 1.7, emoji 1.6, punctuation alone 1.5, base64 1.4. So most messages are counted too
high, up to twice, and the last few too low, by less than a third. Less history than would fit costs little; more
than fits costs the turn.
"""

FIRST_READ = 1_000
"""Messages that are read at first: a long thread costs no more than one of this length."""

_TAG = "earlier_message"
_BEGIN = f"""\
<{_TAG}s>
This session is new and has not seen the conversation so far. It is quoted here, oldest message first. \
What to answer now follows after it.
"""
_END = f"</{_TAG}s>\n\n"
_LONGEST_NOTE = "[more than 999999999 earlier messages left out]\n"
_FRAME = len(_BEGIN + _LONGEST_NOTE + _END)
_LEAST_HALF = 20
"""Bytes: shorter beginnings and ends of a cut message are useless."""


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[plugins.context]`.

    Attributes:
        max_tokens: How long the history before a prompt may be, by a careful estimate; 0 is no history at all.
    """

    max_tokens: int = 8_000

    def __post_init__(self) -> None:
        """Refuse what is no length."""
        if self.max_tokens < 0:
            raise ValueError(f"max_tokens: {self.max_tokens} is below 0; 0 is no history, 8000 the default")


async def _register(ctx: PluginContext) -> Hooks:
    async def on_before_invoke(thread_id: str, prompt: str, invocation: Invoking) -> str:
        most: int = ctx.settings.max_tokens
        if invocation.session != "cold" or most == 0 or not invocation.has_history:
            return prompt
        room = most * BYTES_PER_TOKEN - _FRAME
        quoted, missing = await _quote_history(ctx.threads, thread_id, invocation.run_id, room)
        if not quoted:
            if missing:
                ctx.logger.warning(
                    "thread %s: a new session got none of %s: max_tokens = %d is too small for a message",
                    thread_id,
                    missing,
                    most,
                )
            return prompt
        ctx.logger.debug("thread %s: a new session got %d earlier messages", thread_id, len(quoted))
        note = f"[{missing} left out]\n" if missing else ""
        return _BEGIN + note + "".join(quoted) + _END + prompt

    return Hooks(on_before_invoke=on_before_invoke)


async def _quote_history(threads: Threads, thread_id: str, run_id: str, room: int) -> tuple[list[str], str]:
    """Quote the newest messages before a run that fit, and count in words those that are left out.

    Read as much as can fit. A message has its tags, so that ever more of them cannot fit for ever.
    """
    limit = FIRST_READ
    while True:
        messages = await threads.history(thread_id, limit=limit + 1)
        earlier, more = _messages_before(messages, run_id), len(messages) > limit
        quoted = _newest_that_fit(earlier, room)
        left_out = len(earlier) - len(quoted)
        if not more or left_out > 1:  # of one more than was asked for, "more than" is true
            return quoted, _count_messages(left_out, more)
        limit *= 4


def _messages_before(messages: Sequence[Message], run_id: str) -> list[Message]:
    """The messages before a run's own message, or that came while the run waited for its turn.

    Messages are stored when they arrive, so the answer to the one before may stand behind this run's own
    message, and so may the questions of runs whose turn is yet to come: those will be asked as prompts.
    A run whose first message here is a question after this run's own is such a one.
    """
    first = {message.run_id: position for position, message in reversed([*enumerate(messages)])}  # of each run
    own = first.get(run_id, len(messages))
    waiting = {run for run, at in first.items() if run is not None and at > own and messages[at].role == "user"}
    return [message for message in messages if message.run_id != run_id and message.run_id not in waiting]


def _newest_that_fit(messages: Sequence[Message], room: int) -> list[str]:
    """The newest messages that fit whole; when not even one does, the newest without its middle."""
    quoted: list[str] = []
    left = room
    for message in reversed(messages):
        if len(message.content) > left:  # it has at least as many bytes
            break
        text = _quote_message(message, _defuse_tags(message.content))
        left -= _text_size(text)
        if left < 0:
            break
        quoted.append(text)
    if messages and not quoted:
        return _without_middle(messages[-1], room)
    return quoted[::-1]


def _quote_message(message: Message, content: str) -> str:
    kind = f' kind="{message.kind}"' if message.kind != "text" and re.fullmatch(r"[\w.-]{1,32}", message.kind) else ""
    return f'<{_TAG} role="{message.role}"{kind}>\n{content}\n</{_TAG}>\n'


def _defuse_tags(content: str) -> str:
    """Escape our tags in a message, so that it cannot end the quotation or begin another."""
    return re.sub(rf"<(?=[^\w<>]*{_TAG})", "&lt;", content, flags=re.IGNORECASE)


def _without_middle(message: Message, room: int) -> list[str]:
    """A message cut to the budget, with a mark where its middle was; nothing if not even that fits."""
    content = message.content
    mark = "\n[… {} characters of this message left out …]\n"
    half = (room - _text_size(_quote_message(message, mark.format(len(content))))) // 2
    if half < _LEAST_HALF:
        return []
    head = content[:half]
    while (size := _text_size(_defuse_tags(head))) > half:
        head = head[: len(head) * half // size]  # always shorter
    tail = content[-half:]
    while (size := _text_size(_defuse_tags(tail))) > half:
        tail = tail[len(tail) - len(tail) * half // size :]
    cut = mark.format(len(content) - len(head) - len(tail))
    return [_quote_message(message, _defuse_tags(head) + cut + _defuse_tags(tail))]


def _count_messages(messages: int, more: bool) -> str:
    if more:
        return f"more than {messages - 1} earlier messages"
    return f"{messages} earlier message{'' if messages == 1 else 's'}" if messages else ""


def _text_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


plugin = Plugin(name="context", version="1.0.0", register=_register, settings=ContextSettings)
