"""The schema for editors and the reader say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import yaml

from tests.unit.agents.bad_files import BAD_FILES
from tests.unit.agents.test_agent_file import EVERYTHING, EXAMPLE, READER
from toolstead.agents import agent_builder, custom_tool
from toolstead.agents.draft import draft_agent
from toolstead.agents.frontmatter import AgentText
from toolstead.agents.frontmatter_schema import CUSTOM_TOOL, FRONTMATTER, LIMITS, frontmatter_schema
from toolstead.types.agent import AgentLimits

BEYOND = {
    *("an unknown model", "an unknown runtime", "a bad schema", "a flag as required", "a foreign reference"),
    *("two tools of one name", "parameters that are no object", "a bad model of a tool"),
    *("a gate for a shell", "a gate with an open quote", "a gate outside the folder"),
    *("hidden in the description", "hidden in the body", "hidden in a schema"),
}
"""Mistakes that a schema of the frontmatter cannot see."""


def test_the_schema_has_the_keys_that_are_read() -> None:
    assert tuple(FRONTMATTER["properties"]) == agent_builder.KEYS
    assert tuple(CUSTOM_TOOL["properties"]) == custom_tool.KEYS
    assert tuple(LIMITS["properties"]) == tuple(field.name for field in msgspec.structs.fields(AgentLimits))


def test_the_schema_and_the_reader_refuse_the_same() -> None:
    validator = jsonschema_rs.validator_for(frontmatter_schema())
    compared = 0
    for name, bad in BAD_FILES.items():
        text = AgentText(bad.text)
        if bad.scope != "user" or text.start is None or text.is_open:
            continue
        try:
            frontmatter: Any = text.parse_frontmatter().to_plain()
        except ValueError:
            continue  # no YAML, which an editor says too
        is_refused = bad.severity == "error" or name == "a key of Claude Code"  # which an editor may well mark
        assert validator.is_valid(frontmatter) is (not is_refused or name in BEYOND), name
        compared += 1
    assert compared >= 40
    for good in (EVERYTHING, EXAMPLE):
        assert validator.is_valid(AgentText(good).parse_frontmatter().to_plain())


def test_a_draft_loads_without_a_finding_and_so_does_what_its_comments_show() -> None:
    drafts = [
        draft_agent("helper"),
        draft_agent("helper", description='Use: "it" \\ now # 1', model="opus", tools=["git-*", "*"]),
        draft_agent("17"),
        draft_agent("no"),
    ]
    for draft in drafts:
        loaded = READER.read(Path("x.md"), draft.encode(), "user")
        assert loaded.agent is not None
        assert not loaded.findings
    described = READER.read(Path("x.md"), drafts[1].encode(), "user").agent
    assert described is not None
    assert (described.description, described.tools) == ('Use: "it" \\ now # 1', ("git-*", "*"))

    lines = [line.removeprefix("# ") for line in draft_agent("helper").splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith("  - name: summarize"))
    keys = [
        line for line in lines[:start] if line.startswith(("name:", "description:", "model:", "max_", "limits:", "dis"))
    ]
    shown = "\n".join(["---", *keys, "tools:", *lines[start:]])
    loaded = READER.read(Path("x.md"), (shown + "\n").encode(), "user")
    assert loaded.agent is not None, loaded.findings
    assert not loaded.findings
    assert loaded.agent.custom_tools[0].input_schema["required"] == ["text"]
    assert yaml.safe_load("\n".join(keys))["max_turns"] == 20
