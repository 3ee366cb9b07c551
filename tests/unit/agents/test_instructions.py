"""The generated section of an agent's instructions."""

from __future__ import annotations

import random

from toolstead.agents.instructions import LONGEST_LINE, MOST_BYTES, describe_helpers
from toolstead.types.agent import Agent, PromptTool


def helper(name: str, description: str = "Helps.") -> Agent:
    return Agent(name=name, description=description)


def own_tool(name: str, description: str = "Thinks.") -> PromptTool:
    return PromptTool(name=name, description=description, prompt="p", input_schema={"type": "object"})


def test_the_same_agents_and_tools_give_the_same_text_in_any_order() -> None:
    agents, tools = [helper(f"a{n}") for n in range(30)], [own_tool(f"t{n}") for n in range(30)]
    text = describe_helpers(agents, tools)
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines == [
        *(f"- {a.name}: Helps." for a in sorted(agents, key=lambda a: a.name)),
        *(f"- {t.name}: Thinks." for t in sorted(tools, key=lambda t: t.name)),
    ]
    for seed in range(5):
        random.Random(seed).shuffle(agents)
        random.Random(seed).shuffle(tools)
        assert describe_helpers(agents, tools) == text
    assert describe_helpers([], []) == ""
    assert describe_helpers([], tools).startswith("## Tools")
    assert "## Tools" not in describe_helpers(agents, [])


def test_a_description_is_one_line_and_a_long_one_is_cut_at_a_character() -> None:
    assert "- a: One two # three" in describe_helpers([helper("a", " One\n\n two\t# three ")], [])
    assert describe_helpers([helper("a", " \n")], []).endswith("\n- a")
    cut = describe_helpers([helper("a", "é" * LONGEST_LINE)], []).splitlines()[-1]
    assert cut == f"- a: {'é' * (LONGEST_LINE // 2)}…"
    exact = describe_helpers([helper("a", "x" * LONGEST_LINE)], []).splitlines()[-1]
    assert exact == f"- a: {'x' * LONGEST_LINE}"


def test_the_whole_section_is_bounded_and_says_what_it_leaves_out() -> None:
    agents = [helper(f"agent-{n:04}", "é" * 300) for n in range(1000)]
    tools = [own_tool(f"tool-{n:04}", "x" * 300) for n in range(1000)]
    for some_agents, some_tools in (
        (agents, tools),
        (agents, []),
        ([], tools),
        (agents, tools[:1]),
        (agents[:9], tools),
    ):
        text = describe_helpers(some_agents, some_tools)
        assert len(text.encode()) <= MOST_BYTES
        shown = sum(line.startswith(("- agent-", "- tool-")) for line in text.splitlines())
        left_out = [int(line[7:-6].replace(",", "")) for line in text.splitlines() if line.startswith("- (and ")]
        assert shown + sum(left_out) == len(some_agents) + len(some_tools)
        assert not some_tools or "- tool-0000" in text, "many agents leave the tools their room"
        assert len(text.encode()) > MOST_BYTES * 0.8
