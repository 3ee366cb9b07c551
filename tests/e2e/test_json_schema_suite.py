"""The official JSON Schema test suite, 2020-12, every required test, through the dispatcher of a real stead.

A suite's schema is valid for an instance exactly when a call with it reaches the handler.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import machine
from toolstead import PluginContext, Tool, ToolMeta, Toolstead
from toolstead.errors import SchemaError

pytestmark = [pytest.mark.requires("suite"), pytest.mark.promise("S1")]

DRAFT = "draft2020-12"
REQUIRED = 1257
"""How many required tests this version of the suite has: none may get lost on the way."""

HOST = "http://localhost:1234/"
"""Where the suite says that its remote documents live; nothing listens there."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """One schema of the suite with its tests."""

    place: str
    schema: Any
    tests: list[dict[str, Any]]


def groups() -> Iterator[Group]:
    for path in sorted((machine.suite() / "tests" / DRAFT).glob("*.json")):
        for number, group in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            place = f"{path.stem}-{number}: {group['description']}"
            yield Group(place=place, schema=group["schema"], tests=group["tests"])


def remotes() -> dict[str, Any]:
    """The documents that the suite declares as remote: those of this draft, those of none, and 2019-09's."""
    folder = machine.suite() / "remotes"
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("draft") or name.startswith((DRAFT, "draft2019-09")):
            found[HOST + name] = json.loads(path.read_text(encoding="utf-8"))
    return found


class Reached(list[Any]):
    """A handler that remembers what reached it."""

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        self.append(input)
        return "reached"


@asynccontextmanager
async def stead_with_remotes(folder: Path) -> AsyncIterator[Toolstead]:
    async with Toolstead(folder, schemas=remotes()) as stead:
        yield stead


def embedded(schema: Any) -> Any:
    """The schema as a document of its own inside another, so that `#` means itself."""
    if isinstance(schema, bool):
        return schema
    return schema if "$id" in schema else {"$id": "https://suite.example/schema", **schema}


async def test_every_required_test_holds_for_a_property(tmp_path: Path) -> None:
    wrong: list[str] = []
    count = 0
    async with stead_with_remotes(tmp_path) as stead:
        for group in groups():
            reached = Reached()
            schema = {"type": "object", "properties": {"value": embedded(group.schema)}}
            tool = Tool(name="suite", description=group.place, schema=schema, handler=reached)
            stead.registry.register(tool)
            for test in group.tests:
                count += 1
                reached.clear()
                result = await stead.call("suite", {"value": test["data"]})
                if bool(reached) is not test["valid"]:
                    wrong.append(f"{group.place}: {test['description']}: {result.text}")
                elif not test["valid"]:
                    assert result.is_error
                    assert "/value" in result.text, "the refusal names the place"
            stead.registry.unregister("suite")
    assert not wrong, "\n".join(wrong)
    assert count == REQUIRED


async def test_every_required_test_about_objects_holds_for_the_arguments_themselves(tmp_path: Path) -> None:
    wrong: list[str] = []
    refused: dict[str, Any] = {}
    count = 0
    async with stead_with_remotes(tmp_path) as stead:
        for group in groups():
            about_objects = [test for test in group.tests if isinstance(test["data"], dict)]
            if not about_objects:
                continue
            reached = Reached()
            tool = Tool(name="suite", description=group.place, schema=group.schema, handler=reached)
            try:
                stead.registry.register(tool)
            except SchemaError as error:
                refused[error.reason] = group.schema if isinstance(group.schema, bool) else group.schema["type"]
                continue
            for test in about_objects:
                count += 1
                reached.clear()
                result = await stead.call("suite", test["data"])
                if bool(reached) is not test["valid"]:
                    wrong.append(f"{group.place}: {test['description']}: {result.text}")
            stead.registry.unregister("suite")
    assert not wrong, "\n".join(wrong)
    assert count > REQUIRED // 3
    assert "object" not in refused.values(), "refused are only schemas that describe something other than an object"
    assert all("object" in reason for reason in refused)


async def test_what_is_listed_is_the_schema_as_it_was_registered(tmp_path: Path) -> None:
    async with stead_with_remotes(tmp_path) as stead:
        for group in groups():
            schema = {"type": "object", "properties": {"value": embedded(group.schema)}}
            stead.registry.register(Tool(name="suite", description=group.place, schema=schema, handler=Reached()))
            info = stead.registry.get_tool_info("suite")
            assert info is not None
            assert info.input_schema == schema, group.place
            stead.registry.unregister("suite")


async def test_without_the_documents_every_schema_that_needs_one_is_refused(tmp_path: Path) -> None:
    refused: dict[str, str] = {}
    async with Toolstead(tmp_path) as stead:
        for group in groups():
            schema = {"type": "object", "properties": {"value": embedded(group.schema)}}
            try:
                stead.registry.register(Tool(name="suite", description="…", schema=schema, handler=Reached()))
            except SchemaError as error:
                refused[group.place] = error.reason
            else:
                stead.registry.unregister("suite")
    assert sum(place.startswith("refRemote") for place in refused) > 5
    for place, reason in refused.items():
        assert HOST in reason, place
        assert "never fetched" in reason, place
