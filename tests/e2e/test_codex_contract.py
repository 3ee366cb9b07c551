"""The suite of the runtime port, on the real Codex program whose model is a script."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.test_runtime import *  # noqa: F403 - every test of the suite
from tests.contracts.test_runtime import SCRIPT, Kit, Listener, run
from toolstead.adapters.codex.runtime import CodexRuntime
from toolstead.invoker.runtime import Runtime, Session
from toolstead.testing import scripted_models
from toolstead.types.tool import Provenance, ToolInfo

pytestmark = pytest.mark.requires("codex")

PROBE = ToolInfo(
    name="probe",
    description="Probes.",
    provenance=Provenance(source="plugin", origin="tests"),
    input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
)


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    async with scripted_models(SCRIPT) as api:
        environ = {"PATH": os.environ["PATH"], **api.environ()}

        def make(folder: Path) -> Runtime:
            return CodexRuntime(offered=lambda spec: [PROBE], folder=folder / "codex", lookup=environ.get)

        # A conversation of Codex is a file: nothing that a model says makes it lose one.
        yield Kit(make, loses=False)


async def test_a_tool_gets_its_arguments_and_the_model_its_result(session: Session) -> None:
    listener = Listener()
    answer = await run(session, "use the tool", listener)
    assert answer.startswith("The tool said Wall time:")  # Codex's own words around every result
    assert answer.endswith("\nprobed 7")
    assert listener.calls == [("probe", {"n": 7})]
