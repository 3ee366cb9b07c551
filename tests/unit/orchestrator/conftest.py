"""Processes that ask and decide."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.orchestrator.approval_process import Process, on


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Process]:
    async with on(tmp_path) as process:
        yield process


@pytest.fixture
async def elsewhere(tmp_path: Path, here: Process) -> AsyncIterator[Process]:
    """Another process on the same database; as far as the database knows."""
    assert here
    async with on(tmp_path) as process:
        yield process
