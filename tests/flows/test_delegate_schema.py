"""`delegate_agent` takes exactly what the schema of its document allows, its three further fields aside."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.agent_folder import write_agent
from tests.e2e.delegate_schema import DELEGATE_AGENT
from toolstead import Toolstead
from toolstead.testing import memory_stead
from toolstead.types.result import Failure

CALLS = 200
OURS = ("mode", "conversation_id", "queue")
_IDS: tuple[Any, ...] = ("helper", "a_b-9", "0", "Helper", "a b", "", "é", "a\n", 7, None)
_TEXTS: tuple[Any, ...] = ("do it", "", "two\nlines", 7, None, ["x"], {"a": 1})
_HINTS: tuple[Any, ...] = ([], ["one", "two"], ["one", 2], "one", None)
_WRONG: tuple[Any, ...] = (None, 7, [], {}, "{}")
_STRANGE = ("agent", "agentId", "Prompt", "", "$ref", "context ")


class Caller:
    """Writes calls: about half fit, and the others have one or two faults of any place."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._faults = 0

    def write(self) -> dict[str, Any]:
        self._faults = self._random.choice((0, 0, 1, 2))
        call: dict[str, Any] = {}
        if self._random.random() < 0.7:
            call |= self._item()
        if self._random.random() < (0.4 if call else 1.0):
            call["batch"] = [self._item() for _ in range(self._random.choice((0, 1, 1, 2, 5)))]
        while self._faults > 0 and self._random.random() < 0.5:
            self._faults -= 1
            self._spoil(call)
        return call

    def _item(self) -> dict[str, Any]:
        item: dict[str, Any] = {"agent_id": self._pick(_IDS, 3), "prompt": self._pick(_TEXTS, 3)}
        if self._random.random() < 0.5:
            item["context"] = self._context()
        if self._is_faulty():
            self._spoil(item)
        return item

    def _context(self) -> Any:
        context: dict[str, Any] = {}
        if self._random.random() < 0.5:
            context["working_directory"] = self._pick(_TEXTS, 3)
        if self._random.random() < 0.5:
            context["hints"] = self._pick(_HINTS, 2)
        if self._random.random() < 0.5:
            context[self._random.choice(_STRANGE)] = self._random.choice(_TEXTS)  # a context may hold anything
        return self._random.choice((None, "x", [context])) if self._is_faulty() else context

    def _spoil(self, item: dict[str, Any]) -> None:
        how: list[Callable[[], object]] = [
            lambda: item.pop(self._random.choice(sorted(item)), None),
            lambda: item.update({self._random.choice(_STRANGE): "x"}),
            lambda: item.update({self._random.choice(sorted(item)): self._random.choice(_WRONG)}),
        ]
        if item:
            self._random.choice(how)()

    def _pick(self, values: tuple[Any, ...], good: int) -> Any:
        return self._random.choice(values if self._is_faulty() else values[:good])

    def _is_faulty(self) -> bool:
        is_faulty = self._faults > 0 and self._random.random() < 0.3
        self._faults -= is_faulty
        return is_faulty


@pytest.mark.promise("T3")
async def test_generated_calls_are_taken_and_refused_exactly_as_the_document_says(tmp_path: Path) -> None:
    write_agent("helper")
    document = jsonschema_rs.validator_for(DELEGATE_AGENT)
    caller = Caller(seed=20)
    calls = [caller.write() for _ in range(CALLS)]
    fitting = [call for call in calls if document.is_valid(call)]
    assert CALLS / 4 < len(fitting) < CALLS * 3 / 4
    async with Toolstead(tmp_path, settings={"multi_agent": {"agents": ["helper"]}}, watch=False) as stead:
        info = stead.registry.get_tool_info("delegate_agent")
        assert info is not None
        given = copy.deepcopy(dict(info.input_schema))
        ours = jsonschema_rs.validator_for(given)
        for call in calls:
            fits = document.is_valid(call)
            assert ours.is_valid(call) == fits, call
            answer = await stead.call("delegate_agent", call)
            is_refused = answer.failure is Failure.INVALID_ARGUMENTS
            assert answer.is_error, answer.text  # nobody who may delegate calls here: nothing is ever started
            assert is_refused != fits, (call, answer.text)
            further = {**call, "mode": "detached", "conversation_id": "c", "queue": True}
            assert ours.is_valid(further) == fits, further
            assert not ours.is_valid({**call, "queue": "yes"})
        assert {name: given["properties"].pop(name)["type"] for name in OURS} == {
            "mode": "string",
            "conversation_id": "string",
            "queue": "boolean",
        }
        assert given == DELEGATE_AGENT  # those aside, it is the document's own


@pytest.mark.promise("T4")
async def test_it_is_registered_only_where_there_is_somebody_to_delegate_to() -> None:
    async with memory_stead() as alone, memory_stead(settings={"multi_agent": {"agents": ["main"]}}) as stead:
        assert not alone.registry.has_tool("delegate_agent")
        assert not alone.registry.holds("delegate_agent")
        assert stead.registry.has_tool("delegate_agent")
        await stead.agents()
        assert not stead.registry.for_agent("main").has_tool("delegate_agent")  # there is nobody but itself
