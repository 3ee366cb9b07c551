"""Notices of changed lists: bursts, and clients that do not read."""

from __future__ import annotations

import asyncio

import msgspec

from tests.waiting import until
from toolstead.adapters.mcp.fast_path.change_notices import ChangeNotices
from toolstead.adapters.mcp.fast_path.messages import ListenFilter


async def test_a_client_that_does_not_read_gets_one_notice_for_all_that_changed_meanwhile() -> None:
    written: list[bytes] = []
    taken = asyncio.Event()
    notices = ChangeNotices(written.append, taken.wait)
    notices.open_subscription("ear", ListenFilter(toolsListChanged=True, resourcesListChanged=True))
    written.clear()
    notices.add_change("tools")
    await until(lambda: written)
    for _ in range(1_000):
        notices.add_change("tools")
        notices.add_change("prompts")
        notices.add_change("resources")
        await asyncio.sleep(0)
    assert len(written) == 1
    taken.set()
    await until(lambda: len(written) == 3)
    methods = [msgspec.json.decode(line)["method"] for line in written]
    assert methods == [
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
    ]
    await notices.close()


async def test_after_its_end_nothing_is_written_and_a_client_that_left_is_no_error() -> None:
    written: list[bytes] = []

    async def leave() -> None:
        raise BrokenPipeError

    notices = ChangeNotices(written.append, leave)
    notices.tells_connection = True
    notices.add_change("tools")
    await until(lambda: written)
    await notices.close()
    notices.add_change("tools")
    await asyncio.sleep(0)
    assert written == [b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}']
