"""One agent's file: what is read, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.unit.agents.bad_files import BAD_FILES, GOOD_TOOL, make_file, make_tool
from toolstead.agents import agent_builder
from toolstead.agents.agent_file import AgentReader, LoadedAgent
from toolstead.agents.agent_folder import LARGEST_FILE
from toolstead.agents.catalogue import AgentCatalogue, AgentFolder, describe_finding
from toolstead.agents.findings import MOST_FINDINGS
from toolstead.agents.yaml_nodes import DEEPEST, LARGEST, MOST_NODES
from toolstead.types.agent import Agent, AgentLimits, AgentScope

READER = AgentReader(
    model_problem=lambda model: "" if model.startswith(("gemini", "opus", "sonnet")) else "no such model",
    runtimes=("kernel", "claude", "codex"),
    own_tools=("Read", "Grep", "Bash", "Task"),
)
EXAMPLE = """\
---
name: research-agent
tools:
  - name: summarize
    description: Summarize a document into key points
    model: gemini-2.0-flash-lite          # Optional model override
    parameters:
      text:
        type: string
        description: The text to summarize
    result_schema:                         # Optional output schema
      type: object
      properties:
        bullets:
          type: array
          items: { type: string }
    prompt: "Return JSON {bullets:[...]}. Summarize:\\n\\n{{text}}"
---
"""
EVERYTHING = """\
---
name: everything
description: >
  Does all
  of it.
model: gemini-2.5-pro
runtime: kernel
tools: [git-*, "*", {name: ask, description: Asks., prompt: "{{q}}", input_schema: {properties: {q: {}}}, cache: true}]
disallowed_tools: [web_fetch]
agents: []
max_turns: 12
limits: {max_depth: 2, max_fanout: 3, max_descendants: 4, run_timeout: 1.5, token_budget: 5, cost_budget: 0.25}
result_schema: {type: object, required: [on], properties: {on: {enum: [yes, no, 2026-01-31]}}}
gates:
  - {command: "pytest -q", timeout: 300}
  - files: [report.md]
---
Body.
"""


def read_text(text: str, scope: str = "user", name: str = "tester.md") -> LoadedAgent:
    return READER.read(Path(name), text.encode(), cast("AgentScope", scope))


def read_agent(text: str, scope: str = "user", name: str = "tester.md") -> Agent:
    loaded = read_text(text, scope, name)
    assert loaded.agent is not None, loaded.findings
    return loaded.agent


@pytest.mark.promise("K6")
async def test_every_mistake_is_reported_at_its_place_with_what_would_be_right(tmp_path: Path) -> None:
    assert len(BAD_FILES) >= 40
    wrong: list[str] = []
    kept_out: set[str] = set()
    for name, bad in BAD_FILES.items():
        loaded = read_text(bad.text, bad.scope)
        found = [
            finding
            for finding in loaded.findings
            if (finding.severity, finding.line, finding.column) == (bad.severity, bad.line, bad.column)
            and all(part in finding.message for part in bad.says)
        ]
        is_out = loaded.agent is None
        others = [one for one in loaded.findings if one.severity == "error" and one not in found]
        if len(found) != 1 or is_out is not (bad.severity == "error") or others:
            said = [describe_finding(finding) for finding in loaded.findings]
            wrong.append(f"{name}: {bad.line}:{bad.column} {bad.says}: {said}")
        if bad.scope == "user":
            file = name.replace(" ", "-") + ".md"
            (tmp_path / file).write_text(bad.text, encoding="utf-8")
            kept_out |= {file} if is_out else set()
    assert not wrong, "\n".join(wrong)

    for number in range(10):
        (tmp_path / f"good-{number}.md").write_text(f"---\ndescription: d\n---\nAgent {number}.\n", encoding="utf-8")
    catalogue = AgentCatalogue([AgentFolder(tmp_path, "user")], READER)
    await catalogue.reload()
    assert {f"good-{number}" for number in range(10)} <= catalogue.agents.keys()
    out = {Path(finding.source).name for finding in catalogue.findings if finding.severity == "error"}
    assert kept_out <= out


def test_the_documented_example_loads_as_it_is_written() -> None:
    loaded = read_text(EXAMPLE)
    assert [(finding.severity, finding.line) for finding in loaded.findings] == [("warning", 2), ("warning", 18)]
    assert loaded.agent is not None
    assert (loaded.agent.name, loaded.agent.tools, loaded.agent.instructions) == ("research-agent", None, "")
    (tool,) = loaded.agent.custom_tools
    assert tool.prompt == "Return JSON {bullets:[...]}. Summarize:\n\n{{text}}"
    assert tool.model == "gemini-2.0-flash-lite"
    assert tool.input_schema == {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text to summarize"}},
    }
    assert tool.result_schema == {
        "type": "object",
        "properties": {"bullets": {"type": "array", "items": {"type": "string"}}},
    }


def test_every_key_is_read() -> None:
    agent = read_agent(EVERYTHING)
    (tool,) = agent.custom_tools
    assert (tool.name, tool.cache, tool.input_schema["type"]) == ("ask", True, "object")
    read = msgspec.structs.asdict(msgspec.structs.replace(agent, custom_tools=(), lines={}))
    assert read == {
        "name": "everything",
        "description": "Does all of it.\n",
        "instructions": "Body.\n",
        "model": "gemini-2.5-pro",
        "runtime": "kernel",
        "tools": ("git-*", "*"),
        "disallowed_tools": ("web_fetch",),
        "agents": (),
        "max_turns": 12,
        "limits": AgentLimits(
            max_depth=2, max_fanout=3, max_descendants=4, run_timeout=1.5, token_budget=5, cost_budget=0.25
        ),
        "result_schema": {
            "type": "object",
            "required": ["on"],
            "properties": {"on": {"enum": ["yes", "no", "2026-01-31"]}},
        },
        "gates": ({"command": "pytest -q", "timeout": 300}, {"files": ["report.md"]}),
        "custom_tools": (),
        "scope": "user",
        "origin": "tester.md",
        "stale": False,
        "lines": {},
    }
    assert agent.lines["tools.git-*"] == agent.lines["tools.ask"] == 8
    assert set(agent_builder.KEYS) == {key for key in agent.lines if "." not in key}


def test_strings_among_tools_make_an_allow_list_and_mappings_alone_make_none() -> None:
    assert read_agent(make_tool(GOOD_TOOL)).tools is None
    assert read_agent(make_file("tools: []\n")).tools == ()
    assert read_agent(make_file("tools: [Read]\n")).tools == (), "an allow-list of which nothing is left allows nothing"
    mixed = read_agent(make_tool(GOOD_TOOL).replace("tools:\n", "tools:\n  - git-status\n"))
    assert (mixed.tools, [tool.name for tool in mixed.custom_tools]) == (("git-status",), ["sum"])


def test_without_a_name_the_file_is_the_name() -> None:
    assert read_agent("---\n---\nBody.\n", name="code-reviewer.md").name == "code-reviewer"
    loaded = read_text("---\n---\nBody.\n", name="code reviewer.md")
    assert loaded.agent is None
    assert "the file's name" in loaded.findings[0].message


def test_marks_and_line_ends_of_other_systems_are_accepted() -> None:
    plain = read_agent(EVERYTHING)
    for data in (b"\xef\xbb\xbf" + EVERYTHING.encode(), EVERYTHING.replace("\n", "\r\n").encode()):
        assert READER.read(Path("tester.md"), data, "user").agent == plain
    loaded = READER.read(Path("tester.md"), "---\nname: café\n---\n".encode("latin-1"), "user")
    assert (loaded.findings[0].line, loaded.agent) == (2, None)
    assert "save the file as UTF-8" in loaded.findings[0].message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (make_file("", "x" * LARGEST_FILE), f"larger than {LARGEST_FILE:,} bytes"),
        (make_file(f"model: {'x' * LARGEST}\n"), f"at most {LARGEST:,} are read"),
        (make_file("result_schema: " + "[" * 30_000 + "\n"), f"deeper than {DEEPEST} levels"),
        (make_file("result_schema:\n  " + "- " * 30_000 + "\n"), f"deeper than {DEEPEST} levels"),
        (make_file("result_schema: [" + "a," * (MOST_NODES + 1) + "]\n"), f"more than {MOST_NODES:,} values"),
        (
            make_file(
                "result_schema:\n  a: &a [1,1,1,1,1,1,1,1]\n"
                + "".join(
                    f"  {b}: &{b} [{','.join(['*' + a] * 8)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
                )
            ),
            f"more than {MOST_NODES:,} values",
        ),
        (
            make_file(
                "result_schema:\n  a0: &a0 [[[[[[[[1]]]]]]]]\n"
                + "".join(f"  a{n}: &a{n} [[[[[[[[*a{n - 1}]]]]]]]]\n" for n in range(1, 12))
            ),
            f"deeper than {DEEPEST} levels",
        ),
        (make_file("result_schema: &a {b: *a}\n"), "repeats nothing"),
        (make_file(f"agents: [{','.join('ab' for _ in range(1_001))}]\n"), "at most 1,000"),
        (make_file(f"tools: [{'a' * 257}]\n"), "a tool's name or a pattern"),
        (make_file("max_turns: " + "9" * 5_000 + "\n"), "too large"),
        (f"---\ndescription: {'x' * 16_385}\n---\nx\n", "16,385 characters; at most 16,384"),
    ],
    ids=[
        "file",
        "frontmatter",
        "brackets",
        "dashes",
        "values",
        "unfolding",
        "deep aliases",
        "itself",
        "items",
        "a pattern",
        "a number",
        "a description",
    ],
)
def test_what_could_run_away_is_bounded(text: str, says: str) -> None:
    loaded = read_text(text)
    assert loaded.agent is None
    assert says in loaded.findings[0].message


def test_findings_are_bounded_and_an_error_is_always_among_them() -> None:
    slots = "".join(f"{{{{p{number}}}}}" for number in range(100))
    text = make_tool(f'description: d\nprompt: "{slots}"\n').replace("Be brief.", "Be\u200b brief.")
    loaded = read_text(text)
    assert len(loaded.findings) == MOST_FINDINGS + 1
    assert "more findings" in loaded.findings[-1].message
    assert loaded.agent is None
    assert any(finding.severity == "error" for finding in loaded.findings)
