"""A stage on each runtime, and what the programs on Node need."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import node_packages
from tests.e2e.claude_stage import CLAUDE
from tests.e2e.codex_stage import CODEX
from tests.e2e.model_stage import KERNELS, Play, Stage, playing

PROGRAMS = [
    pytest.param(CLAUDE, id="claude", marks=pytest.mark.requires("claude")),
    pytest.param(CODEX, id="codex", marks=pytest.mark.requires("codex")),
]
PLAYERS = [*(pytest.param(player, id=name) for name, player in KERNELS.items()), *PROGRAMS]


@pytest.fixture(params=PLAYERS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Opens a stage for one runtime. What was captured is kept in the folder CAPTURED_REQUESTS, where one is named."""

    @asynccontextmanager
    async def open_stage(script: str, **more: Any) -> AsyncIterator[Stage]:
        async with playing(request.param, script, tmp_path, **more) as stage:
            try:
                yield stage
            finally:
                if kept := os.environ.get("CAPTURED_REQUESTS"):
                    shown = [{"path": one.path, "body": one.body} for one in stage.requests]
                    Path(kept, f"{request.node.name}.json").write_text(json.dumps(shown, indent=1, ensure_ascii=False))

    return open_stage


@pytest.fixture
def packages(requires: Callable[[str], None]) -> Path:
    """The installed packages; the registry is needed only when they are not here yet."""
    requires("node")
    if not node_packages.are_installed():
        requires("npm")
    return node_packages.install()
