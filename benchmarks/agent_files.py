"""The agent's file of the rows `agent-view` and `agent-turn`: an allow-list, a block-list, limits, tools of its own."""

from __future__ import annotations

from pathlib import Path

from benchmarks import workload

NAME = "clerk"
OWN = ("digest", "rate")
ALLOWED = ("tool_*[0-8]", "file-reader", "add")
BLOCKED = ("tool_*5", workload.many_name(3))
INSTRUCTIONS = "You keep the accounts. Use the tools, and answer with one sentence."

_OWN_TOOL = """\
  - name: {name}
    description: Read a text on its own, and answer in one sentence.
    parameters:
      text: {{type: string, required: true}}
    prompt: "Read this, and answer in one sentence: {{{{text}}}}"
"""


def write_file(folder: Path, edition: int = 0) -> None:
    """Write the file; another edition is an edit."""
    folder.mkdir(parents=True, exist_ok=True)
    allowed = "".join(f'  - "{pattern}"\n' for pattern in ALLOWED)
    own = "".join(_OWN_TOOL.format(name=name) for name in OWN)
    blocked = ", ".join(f'"{pattern}"' for pattern in BLOCKED)
    text = (
        f"---\nname: {NAME}\ndescription: Keeps the accounts, edition {edition}.\ntools:\n{allowed}{own}"
        f"disallowed_tools: [{blocked}]\nmax_turns: 20\n"
        "limits: {max_depth: 2, max_fanout: 4, run_timeout: 600, token_budget: 100000, cost_budget: 1.0}\n"
        f"---\n{INSTRUCTIONS}\n"
    )
    (folder / f"{NAME}.md").write_text(text)


def count_numbered(tools: int) -> int:
    """How many of so many tools of `workload.many` the agent may see."""
    names = map(workload.many_name, range(tools))
    return sum(name[-1] not in "59" and name not in BLOCKED for name in names)
