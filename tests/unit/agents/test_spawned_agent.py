"""An agent that a call gives as markdown: what is refused by name and place, and what its parent leaves of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agents.bad_files import BAD_FILES, GOOD_TOOL, make_file, make_tool
from tests.unit.agents.test_agent_file import READER
from toolstead.agents.agent_builder import LIMITS
from toolstead.agents.spawned_agent import LARGEST_MARKDOWN, MOST_PATTERNS, name_spawned, narrow_agent, read_spawned
from toolstead.errors import InvalidAgentError, ToolError
from toolstead.types.agent import Agent, AgentLimits

LIMITED = AgentLimits(
    max_depth=2, max_fanout=3, max_descendants=10, run_timeout=60.0, token_budget=1000, cost_budget=0.5
)


def read(markdown: str, **more: Any) -> Agent:
    bounds: dict[str, Any] = {
        "name": "unnamed",
        "reader": READER,
        "parent_limits": LIMITED,
        "parent_max_turns": 20,
        "parent_agents": ["writer", "reviewer"],
        "taken": {"main", "writer"},
    }
    return read_spawned(markdown, **(bounds | more))


def refusal_of(markdown: str, **more: Any) -> InvalidAgentError:
    with pytest.raises(InvalidAgentError) as refused:
        read(markdown, **more)
    return refused.value


@pytest.mark.parametrize(
    ("frontmatter", "place", "says"),
    [
        ('gates: [{command: "rm -r ."}]', (4, 1), ("gates:", "remove it")),
        ("gates: []", (4, 1), ("gates:",)),
        ("max_turns: 3\nruntime: kernel", (5, 1), ("runtime:", "remove it")),
        ("tools: [git-*, Bash]", (4, 16), ("tools.1: `Bash`", "remove it")),
        ("tools:\n  - Bash(git diff:*)", (5, 5), ("tools.0: `Bash`",)),
        ("tools: [{name: a, description: A., prompt: p, tools: [x, Read]}]", (4, 58), ("tools.0.tools.1: `Read`",)),
        ("limits: {max_depth: 3}", (4, 21), ("limits.max_depth: 3 is above its parent's 2; write 2 or less",)),
        ("limits:\n  max_fanout: 4", (5, 15), ("limits.max_fanout: 4", "parent's 3")),
        ("limits:\n  max_depth: 2\n  max_descendants: 11", (6, 20), ("limits.max_descendants: 11", "parent's 10")),
        ("limits: {run_timeout: 60.5}", (4, 23), ("limits.run_timeout: 60.5", "parent's 60.0")),
        ("limits: {token_budget: 1001}", (4, 24), ("limits.token_budget: 1,001", "parent's 1,000; write 1000 or less")),
        ("limits: {cost_budget: 5}", (4, 23), ("limits.cost_budget: 5", "parent's 0.5")),
        ("max_turns: 21", (4, 12), ("max_turns: 21 is above its parent's 20",)),
        ("agents: [writer, reviwer]", (4, 18), ("agents.1:", "did you mean `reviewer`?", "reviewer, writer")),
    ],
)
def test_what_a_call_cannot_give_is_refused_by_name_and_place(
    frontmatter: str, place: tuple[int, int], says: tuple[str, ...]
) -> None:
    (problem,) = refusal_of(make_file(f"{frontmatter}\n")).problems
    assert problem.startswith("line {}, column {}: ".format(*place)), problem
    assert all(part in problem for part in says), problem


def test_one_error_says_everything_in_the_order_of_the_lines() -> None:
    limits = ", ".join(f"{name}: 9999" for name in LIMITS)
    error = refusal_of(
        make_file(f"gates: []\nlimits: {{{limits}}}\nmodle: x\nruntime: kernel\ntools: [Bash]\n").replace(
            "tester", "writer"
        )
    )
    assert isinstance(error, ToolError)
    places = [(2, "`writer`"), (4, "gates"), *((5, f"limits.{name}") for name in LIMITS)]
    places += [(6, "`modle` is no key"), (7, "runtime"), (8, "`Bash`")]
    assert len(error.problems) == len(places)
    for problem, (line, part) in zip(error.problems, places, strict=True):
        assert problem.startswith(f"line {line}, column "), problem
        assert part in problem
        assert problem in str(error)


def test_every_mistake_that_keeps_a_file_out_is_refused_at_its_place_and_no_other_one_is() -> None:
    refused = 0
    for name, bad in BAD_FILES.items():
        if bad.scope == "user" and bad.severity == "error":
            problems = refusal_of(bad.text, parent_agents=None).problems
            found = [one for one in problems if one.startswith(f"line {bad.line}, column {bad.column}: ")]
            assert any(all(part in one for part in bad.says) for one in found), (name, problems)
            refused += 1
        elif bad.scope == "user" and not any(word in bad.text for word in ("gates:", "runtime:", "Read", "Bash")):
            assert read(bad.text, parent_agents=None).name, name
    assert refused >= 40


def test_what_is_within_its_parents_bounds_is_read_like_a_file() -> None:
    limits = "{max_depth: 2, max_fanout: 3, max_descendants: 10, run_timeout: 60, token_budget: 1000, cost_budget: 0.5}"
    text = make_file(f"max_turns: 20\nlimits: {limits}\nagents: [reviewer]\nmodel: sonnet\ndisallowed_tools: [Bash]\n")
    agent = read(text)
    assert (agent.name, agent.description, agent.instructions) == ("tester", "Tests.", "Be brief.\n")
    assert (agent.agents, agent.max_turns, agent.limits.cost_budget) == (("reviewer",), 20, 0.5)
    assert agent.disallowed_tools == ("Bash",)
    tool = read(make_tool(GOOD_TOOL)).custom_tools[0]  # it needs no file, and gives nobody more than its agent has
    assert (tool.name, tool.prompt) == ("sum", "Sum: {{text}}")
    assert read(make_file("agents: []\n")).agents == ()
    assert read(make_file("")).agents is None


def test_a_name_is_the_callers_where_there_is_none_and_never_that_of_a_files_agent() -> None:
    assert read("---\ndescription: Helps.\n---\nHelp.\n", name="helper").name == "helper"
    assert "line 2, column 7: name: an agent of a file is called `main`" in str(refusal_of("---\nname: main\n---\nx\n"))
    assert "only letters, digits" in str(refusal_of("---\ndescription: d\n---\nx\n", name="a/b"))
    assert name_spawned("main", "helper", "task_1") == "main/helper@task_1"


def test_the_markdown_and_its_patterns_are_bounded() -> None:
    text = make_file("")
    assert read(text + "é" * ((LARGEST_MARKDOWN - len(text)) // 2)).name == "tester"
    assert "line 1, column 1: 65,537 bytes of markdown, at most 65,536" in str(
        refusal_of(text + "x" * (LARGEST_MARKDOWN - len(text) + 1))
    )
    assert "this is no UTF-8 text" in str(refusal_of(text + "\ud800"))
    many = ", ".join(["x"] * (MOST_PATTERNS - 3))
    custom = "{name: a, description: A., prompt: p, tools: [y]}"
    assert read(make_file(f"tools: [{many}, {custom}]\ndisallowed_tools: [z]\n")).custom_tools
    error = refusal_of(make_file(f"tools: [{many}, {custom}]\ndisallowed_tools: [z, z]\n"))
    assert "line 5, column 23: disallowed_tools.1: an agent that a call gives names at most 100" in str(error)


def test_a_spawned_agent_runs_within_what_its_parent_may_do_whatever_its_markdown_says() -> None:
    parent = Agent(
        name="lead",
        tools=("git-*",),
        disallowed_tools=("git-push",),
        agents=("writer", "reviewer"),
        max_turns=20,
        limits=LIMITED,
        scope="project",
        origin="lead.md",
        runtime="kernel",
        model="opus",
    )
    silent = narrow_agent(parent, Agent(name="lead/a@1", scope="user", origin="a.md", lines={"name": 2}))
    assert (silent.tools, silent.disallowed_tools, silent.agents) == (
        parent.tools,
        parent.disallowed_tools,
        parent.agents,
    )
    assert (silent.max_turns, silent.limits, silent.scope, silent.origin) == (20, LIMITED, "project", "lead.md")
    assert (silent.model, silent.runtime, silent.lines) == ("", "", {})
    more = AgentLimits(max_depth=9, max_fanout=1, cost_budget=9.0)
    given = Agent(
        name="lead/b@2",
        tools=("*",),
        disallowed_tools=("web_*",),
        agents=("writer", "main"),
        max_turns=99,
        limits=more,
        model="haiku",
    )
    greedy = narrow_agent(parent, given)
    assert (greedy.tools, greedy.disallowed_tools) == (("*",), ("git-push", "web_*"))
    assert (greedy.agents, greedy.max_turns, greedy.model) == (("writer",), 20, "haiku")
    assert (greedy.limits.max_depth, greedy.limits.max_fanout, greedy.limits.cost_budget) == (2, 1, 0.5)
    assert narrow_agent(parent, Agent(name="c", agents=())).agents == ()
