"""The watcher tells a listener of changed switches, whoever changed them."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolstead.app.state import State, Switches, SwitchWatcher
from toolstead.errors import StateError


class Listener:
    """Collects what it is told, and can be waited for."""

    def __init__(self) -> None:
        self.told: list[frozenset[str]] = []
        self._arrived = asyncio.Event()

    def __call__(self, state: State) -> None:
        self.told.append(state.disabled_tools)
        self._arrived.set()

    async def wait_for(self, disabled: set[str]) -> None:
        async with asyncio.timeout(30):
            while not self.told or self.told[-1] != disabled:
                self._arrived.clear()
                await self._arrived.wait()


@pytest.fixture
def switches(tmp_path: Path) -> Switches:
    return Switches(tmp_path)


def age(path: Path) -> None:
    """Make a file look as if it had been written an hour ago."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns - 3_600_000_000_000))


async def test_the_first_look_tells_what_is_and_later_ones_what_changed(switches: Switches) -> None:
    listener = Listener()
    watcher = SwitchWatcher(switches, listener)
    switches.set_tool_enabled("a", False)

    await watcher.check()
    await watcher.check()
    switches.set_tool_enabled("b", False)
    await watcher.check()
    switches.path.unlink()
    await watcher.check()

    assert listener.told == [{"a"}, {"a", "b"}, set()]


async def test_a_change_by_another_process_arrives_while_the_loop_runs(switches: Switches, tmp_path: Path) -> None:
    listener = Listener()
    program = (
        "import sys; from pathlib import Path; from toolstead.app.state import Switches;"
        "Switches(Path(sys.argv[1])).set_tool_enabled('far', False)"
    )
    async with SwitchWatcher(switches, listener, interval=0.01):
        assert listener.told == [set()]
        await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, str(tmp_path)],
            check=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        await listener.wait_for({"far"})

    assert listener.told == [set(), {"far"}]


async def test_leaving_ends_the_watching(switches: Switches) -> None:
    listener = Listener()
    before = asyncio.all_tasks()
    async with SwitchWatcher(switches, listener, interval=0.001):
        assert len(asyncio.all_tasks() - before) == 1
    assert asyncio.all_tasks() == before

    switches.set_tool_enabled("a", False)
    await asyncio.sleep(0)
    assert listener.told == [set()]


async def test_a_broken_file_keeps_the_switches_and_is_logged_once(
    switches: Switches, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    watcher = SwitchWatcher(switches, listener)
    switches.set_tool_enabled("a", False)
    await watcher.check()

    for text in ('{"version"', '{"vers', ""):
        switches.path.write_text(text, encoding="utf-8")
        await watcher.check()

    assert listener.told == [{"a"}]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(switches.path) in record.message

    switches.path.write_text('{"version": 1, "disabledTools": ["b"]}', encoding="utf-8")
    await watcher.check()
    assert listener.told == [{"a"}, {"b"}]

    switches.path.write_text("[]", encoding="utf-8")
    await watcher.check()
    assert len(caplog.records) == 2, "a file that broke again is told again"


async def test_a_file_that_is_broken_at_the_start_is_refused_rather_than_taken_as_empty(switches: Switches) -> None:
    listener = Listener()
    switches.path.write_text("{", encoding="utf-8")
    before = asyncio.all_tasks()

    with pytest.raises(StateError, match="is not valid"):
        async with SwitchWatcher(switches, listener):
            pytest.fail("it started")

    assert listener.told == []
    assert asyncio.all_tasks() == before


async def test_an_unchanged_file_is_not_read_again(switches: Switches, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = SwitchWatcher(switches, Listener())
    switches.set_tool_enabled("a", False)
    age(switches.path)
    await watcher.check()

    def fail() -> State:
        raise AssertionError("read again")

    monkeypatch.setattr(switches, "read", fail)
    await watcher.check()


async def test_a_rewrite_within_the_clocks_grain_is_seen(switches: Switches) -> None:
    """Same size, same inode, same time: only the file's youth gives it away."""
    listener = Listener()
    watcher = SwitchWatcher(switches, listener)
    switches.set_tool_enabled("a", False)
    await watcher.check()
    found = switches.path.stat()

    switches.path.write_bytes(switches.path.read_bytes().replace(b'"a"', b'"b"'))
    os.utime(switches.path, ns=(found.st_atime_ns, found.st_mtime_ns))
    await watcher.check()

    assert listener.told == [{"a"}, {"b"}]


async def test_a_listener_that_fails_does_not_end_the_watching(
    switches: Switches, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()

    def moody(state: State) -> None:
        listener(state)
        if state.disabled_tools == {"a"}:
            raise RuntimeError("not today")

    async with SwitchWatcher(switches, moody, interval=0.01):
        switches.set_tool_enabled("a", False)
        await listener.wait_for({"a"})
        switches.set_tool_enabled("b", False)
        await listener.wait_for({"a", "b"})

    (record,) = caplog.records
    assert record.exc_info is not None
    assert "not today" in caplog.text
