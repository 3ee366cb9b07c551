"""Serves scripts to the real clients of the model APIs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from toolstead.testing import ScriptedModels, scripted_models

if TYPE_CHECKING:
    from tests.unit.adapters.scripted.api_clients import Asking, Client


@pytest.fixture(params=["anthropic", "openai", "openai-chat", "gemini"])
def api(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def asking() -> AsyncGenerator[Asking]:
    """Serves a script, and gives the server and a client of an API."""
    from tests.unit.adapters.scripted.api_clients import connected

    async with AsyncExitStack() as stack:

        async def ask(script: str, api: str) -> tuple[ScriptedModels, Client]:
            models = await stack.enter_async_context(scripted_models(script))
            return models, await stack.enter_async_context(connected(api, models))

        yield ask
