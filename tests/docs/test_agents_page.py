"""docs/agents.md: every agent on the page loads, and every table and output is as the code has it."""

from __future__ import annotations

import re
from pathlib import Path

from toolstead.agents import agent_builder, custom_tool
from toolstead.agents.agent_file import AgentReader
from toolstead.agents.agent_folder import LARGEST_FILE, MOST_FILES
from toolstead.agents.yaml_nodes import DEEPEST, LARGEST, MOST_NODES
from toolstead.app.agent_reading import find_model_problem
from toolstead.app.runtimes import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
AGENTS = re.findall(r"toolstead/agents/\S+ -->\n```markdown\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_agent_on_the_page_loads_without_a_finding() -> None:
    reader = AgentReader(model_problem=find_model_problem, runtimes=NAMES, own_tools=())
    assert len(AGENTS) == 2
    for text in AGENTS:
        loaded = reader.read(Path("page.md"), text.encode(), "user")
        assert loaded.agent is not None, loaded.findings
        assert not loaded.findings


def test_the_tables_have_every_key_and_the_page_every_bound() -> None:
    keys = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = [name for cell in keys for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted((*agent_builder.KEYS, *custom_tool.KEYS))
    assert all(f"`{limit}`" in PAGE for limit in agent_builder.LIMITS)
    assert f"At most {MOST_FILES:,} files of {LARGEST_FILE // 1024} KiB" in PAGE
    assert f"At most {LARGEST:,} characters, {DEEPEST} levels and {MOST_NODES:,}" in PAGE
