"""Many calls at once over one connection, while the tools change under them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.programs.clients import EVERY_WAY, Door, Era, connected, names_of, target_of, text_of

CALLS = 200
CHANGES = 20


@pytest.mark.promise("B6", "R5")
@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_two_hundred_calls_at_once_are_answered_while_generations_change(
    door: Door, era: Era, tmp_path: Path
) -> None:
    async with target_of(door, tmp_path) as target, connected(target, era, cache=None) as client:

        async def call(number: int) -> str:
            return text_of(await client.call_tool("echo", {"text": f"number {number}"}))

        async def change(number: int) -> str:
            name = f"grown-{number}"
            await client.call_tool("grow", {"name": name})
            said = text_of(await client.call_tool(name))
            await client.call_tool("shrink", {"name": name})
            return said

        before = await names_of(client)
        said = await asyncio.gather(*map(call, range(CALLS)), *map(change, range(100, 100 + CHANGES)))
        assert said == [f"number {n}" for n in range(CALLS)] + [f"grown-{n}" for n in range(100, 100 + CHANGES)]
        assert await names_of(client) == before
        assert "Traceback" not in (tmp_path / "stderr.txt").read_text()
