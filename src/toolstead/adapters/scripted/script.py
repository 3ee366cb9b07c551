"""A script, and which of its turns answers what.

A script is a list of turns. The prompt (the last user text, with what hooks
put around the message) is answered so:

1. by the first turn whose `when` is found in it. Such a turn answers as often as it is found;
2. else by the next turn without `when`, each once for each thread, in the order of the script;
3. when those are used up, by the last of them, again and again;
4. else there is no answer, and the invocation fails with a text that explains it.

A turn that calls tools and does not `say` anything is only half an answer. As a model does, it goes
on: the turn **after it in the script**, when that has no `when`, continues the same answer with the
results, and is not counted among the turns of rule 2. With nothing to continue it, the text of the
last result is the answer. (In a script in which every other turn has a `when`, rule 3 takes the
last continuation.)

Inside a turn the order is `delay`, `call`, `say`, `hang`, `lose`, `fail`, whatever the order in the
file. The calls of one turn are started in the order of the list and run side by side, as models
do it; the results are in the order of the list. In `say`, `{{result}}` is the text of the last
result of this answer, and `{{prompt}}` the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from toolstead.types.run import NOTHING_USED, Usage

_MOST_PIECES = 8
_PLACEHOLDER = re.compile(r"\{\{(result|prompt)\}\}")

FaultKind = Literal[
    "overloaded",
    "rate_limit",
    "server_error",
    "broken",
    "half_json",
    "empty",
    "schema",
    "overflow",
    "bad_key",
    "no_model",
    "stall",
]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool that is called, with what."""

    tool: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedFault:
    """What a scripted model API does wrong, with the text and the status of the API it plays.

    Attributes:
        kind: Which fault; `docs/testing.md` describes them.
        times: How many times, counted over the server's life.
        retry_after: Seconds that `rate_limit` asks the client to wait.
        tool: `schema` is answered as long as a tool of this name is offered, instead of `times`.
        over: `overflow` is answered as long as the request has more bytes, instead of `times`.
    """

    kind: FaultKind
    times: int = 1
    retry_after: float | None = None
    tool: str | None = None
    over: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """One turn of a script.

    Attributes:
        when: Looked for in the last user text; None for a turn that is played in order.
        say: What is answered.
        call: Tools that are called.
        fail: The runtime fails with this text.
        hang: Seconds of silence after the whole answer.
        delay: Seconds of silence before anything is done.
        lose: How many times the session is lost here, counted over the runtime's life. After that
            the turn goes on as if this were not there; one that has nothing else is passed over.
        rotate: The conversation has another id after this answer.
        usage: What the turn used.
        fault: What goes wrong before any of this; only scripted model APIs play it. Afterwards the turn
            goes on as if this were not there; one that has nothing else is passed over.
        number: Its place in the script, from 0.
    """

    number: int
    when: re.Pattern[str] | None = None
    say: str | None = None
    call: tuple[ScriptedCall, ...] = ()
    fail: str | None = None
    hang: float = 0.0
    delay: float = 0.0
    lose: int = 0
    rotate: bool = False
    usage: Usage = NOTHING_USED
    fault: ScriptedFault | None = None

    @property
    def goes_on(self) -> bool:
        """Whether another turn may continue the answer."""
        return bool(self.call) and self.say is None and self.fail is None

    @property
    def is_silent(self) -> bool:
        """Whether it has no text, nothing to call, to fail with or to wait for."""
        return self.say is None and self.fail is None and not self.call and not self.hang

    def render_text(self, *, prompt: str, result: str | None) -> str:
        """Its text; `{{result}}` stays as it is when no tool was called."""
        known = {"prompt": prompt} | ({} if result is None else {"result": result})
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), self.say or "")


class Script:
    """Turns, ready to be chosen from."""

    def __init__(self, turns: Sequence[ScriptedTurn], *, source: str = "script") -> None:
        """Make a script.

        Args:
            turns: In order, numbered from 0.
            source: Where it came from, for messages.
        """
        self.turns = tuple(turns)
        self.source = source
        continued = {turn.number + 1 for turn in self.turns if turn.goes_on}
        self._when = [turn for turn in self.turns if turn.when is not None]
        self._plain = [turn for turn in self.turns if turn.when is None and turn.number not in continued]
        without = [turn for turn in self.turns if turn.when is None]
        self._last = (self._plain or without or [None])[-1]

    def choose_turn(self, text: str, played: int, *, without: Container[int] = ()) -> tuple[ScriptedTurn | None, int]:
        """The turn that answers a text.

        Args:
            text: The last user text.
            played: How many of the turns without `when` this thread has used up.
            without: Numbers of turns that are passed over.

        Returns:
            The turn, or None when nothing answers; and how many are used up now.
        """
        for turn in self._when:
            if turn.when is not None and turn.when.search(text) and turn.number not in without:
                return turn, played
        for number, turn in enumerate(self._plain[played:], start=played + 1):
            if turn.number not in without:
                return turn, number
        last = self._last
        return (None if last is None or last.number in without else last), played

    def unanswered_text(self, text: str) -> str:
        """The sentence for a text that no turn answers."""
        shown = text if len(text) <= 200 else text[:200] + "…"
        return f"{self.source}: no turn answers {shown!r}; add one whose `when` is found in it, or one without"

    def following_turn(self, turn: ScriptedTurn) -> ScriptedTurn | None:
        """The turn that continues the answer of one that called tools and has no text."""
        number = turn.number + 1
        if not turn.goes_on or number >= len(self.turns):
            return None
        following = self.turns[number]
        return following if following.when is None else None


def split_text(text: str) -> list[str]:
    """A text in a few pieces that end at spaces, as a model streams it; together they are the text."""
    words = re.findall(r"[^ ]* |[^ ]+\Z", text)
    size = -(-(text.count(" ") + 1) // _MOST_PIECES)
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]
