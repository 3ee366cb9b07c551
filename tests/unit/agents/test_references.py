"""Names and patterns in agents' files that lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolstead.agents import references
from toolstead.agents.agent_file import AgentReader
from toolstead.agents.catalogue import BUILTIN
from toolstead.agents.references import check_references
from toolstead.types.agent import Agent, AgentScope, Finding

OWN = ("Read", "Bash")
READER = AgentReader(model_problem=lambda _model: "", runtimes=(), own_tools=OWN)
TOOLS = ("git-status", "git-diff-summary", "web_fetch")


def find_warnings(frontmatter: str, scope: AgentScope = "user") -> list[Finding]:
    loaded = READER.read(Path("tester.md"), f"---\nname: tester\n{frontmatter}---\nx\n".encode(), scope)
    assert loaded.agent is not None, loaded.findings
    agents = {"main": BUILTIN, "tester": loaded.agent, "helper": Agent(name="helper")}
    return check_references(agents, TOOLS, own_tools=OWN)


@pytest.mark.parametrize(
    ("frontmatter", "line", "says"),
    [
        ("tools:\n  - git-status\n  - git-stauts\n", 5, ("tools: `git-stauts`", "did you mean `git-status`?")),
        ("tools: [git-*, 'bit-*']\n", 3, ("`bit-*` matches no tool",)),
        ("disallowed_tools: [web_fetsh]\n", 3, ("disallowed_tools: `web_fetsh`", "`web_fetch`")),
        ("agents:\n  - helper\n  - hepler\n", 5, ("agents: there is no agent `hepler`", "`helper`")),
        ("agents: [tester]\n", 3, ("this agent itself",)),
        ("tools:\n  - {name: git-status, description: d, prompt: p}\n", 4, ("not offered", "rename it")),
        ("tools:\n  - {name: a, description: d, prompt: p, tools: [webfetch]}\n", 4, ("`a`: tools", "`web_fetch`")),
    ],
)
def test_what_leads_nowhere_is_a_warning_with_its_line(frontmatter: str, line: int, says: tuple[str, ...]) -> None:
    (finding,) = find_warnings(frontmatter)
    assert (finding.severity, finding.source, finding.line) == ("warning", "tester.md", line)
    assert all(part in finding.message for part in says), finding.message


def test_what_leads_somewhere_is_no_finding() -> None:
    custom = "{name: mine, description: d, prompt: p, tools: ['git-*']}"
    assert not find_warnings(f"tools: [git-*, web_fetch, mine, 'mi*', {custom}]\nagents: [main, helper]\n")
    assert not find_warnings("tools: Read, Bash(git diff:*), mcp__toolstead__git-status\n", "claude")


def test_the_nearest_name_is_looked_for_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MOST_SUGGESTIONS", 3)
    found = find_warnings(f"tools: [{', '.join(f'git-statu{number}' for number in range(10))}]\n")
    assert ["did you mean" in finding.message for finding in found] == [True] * 3 + [False] * 7
