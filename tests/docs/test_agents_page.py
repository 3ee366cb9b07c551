"""docs/agents.md: every agent on the page loads, and every table and output is as the code has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from toolstead.agents import agent_builder, custom_tool
from toolstead.agents.agent_file import AgentReader
from toolstead.agents.agent_folder import LARGEST_FILE, MOST_FILES
from toolstead.agents.yaml_nodes import DEEPEST, LARGEST, MOST_NODES
from toolstead.app.agent_reading import find_model_problem
from toolstead.app.runtimes import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
AGENTS = re.findall(r"^```markdown\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DRAFT = """\
---
modle: sonnet
tools: [{name: summarize,
         prompt: "Sum up {{txt}}",
         parameters: {text: {type: string}}}]
description: d
---
Be brief.
"""


def toolstead(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=folder,
        env={**os.environ, "TOOLSTEAD_HOME": str(folder / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


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


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    first, explained, second = CONSOLE
    description = "Reviews a change before it is merged."
    arguments = ["agents", "new", "code-reviewer", "--description", description, "--tools", "git-*,file-reader"]
    assert f'$ toolstead {" ".join(arguments[:4])} "{description}" --tools "git-*,file-reader"' in first
    made = toolstead(tmp_path, *arguments).splitlines()[0]
    assert first.splitlines()[1].endswith(made.removeprefix(str(tmp_path / "home")))
    assert toolstead(tmp_path, "agents", "check") == first.splitlines()[3] + "\n"

    for line in explained.splitlines():
        shown = toolstead(tmp_path, *line.removeprefix("$ toolstead ").split())
        assert description in shown.replace("\n", " ")

    (tmp_path / "draft.md").write_text(DRAFT, encoding="utf-8")
    shown = "".join(f"{line}\n" for line in second.splitlines()[1:])
    assert toolstead(tmp_path, "agents", "check", "draft.md").replace(str(tmp_path), "/home/ada/shop") == shown
