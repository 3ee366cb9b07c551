"""docs/cli.md: the commands about tasks print what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.agent_folder import write_agent
from tests.surfaces.talking_project import make_project

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
SCRIPT = """
- when: ^Who
  call:
    - tool: delegate_agent
      input: {agent_id: researcher, prompt: "Find out which pages still call /old, and how often."}
  say: "Two pages do: /start and /help."
  usage: {inputTokens: 2100, outputTokens: 40, cost: 0.0069}
- when: ^Find out
  call:
    - tool: delegate_agent
      input:
        batch: [{agent_id: reader, prompt: Read the logs of May.}, {agent_id: reader, prompt: Read the logs of June.}]
  say: "/start 12 times, /help once."
  usage: {inputTokens: 1900, outputTokens: 60, cost: 0.0066}
- when: May
  say: "Nine calls, all from /start."
  usage: {inputTokens: 5200, outputTokens: 20, cost: 0.0159}
- when: June
  say: "Three calls from /start, one from /help."
  usage: {inputTokens: 4800, outputTokens: 25, cost: 0.0148}
"""
VARYING = {
    r"task_\w+": "TASK",
    r"thread_\w+": "THREAD",
    r"\d+s\b": "AGE",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "TIME",
}


def test_the_commands_about_tasks_print_what_the_page_shows(tmp_path: Path, home: Path) -> None:
    project = make_project(tmp_path, home)
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    with (project.home / "config.toml").open("a", encoding="utf-8") as config:
        config.write('[multi_agent]\nagents = ["researcher"]\n')
    write_agent("researcher", "agents: [reader]", home=project.home)
    write_agent("reader", home=project.home)
    (block,) = re.findall(r"^```console\n(\$ toolstead ask .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    exchanges = re.findall(r"^\$ toolstead (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert len(exchanges) == 4
    (theirs, *_) = re.findall(r"task_\w+", exchanges[2][0])
    for command, shown in exchanges:
        ours = project.json("tasks", "list", "--json")["tasks"][-1]["id"] if theirs in command else ""
        done = project.command(*shlex.split(command.replace(theirs, ours)))
        assert done.returncode == 0, done.stderr
        assert without_varying(done.stdout) == without_varying(shown), command


def without_varying(text: str) -> str:
    for varying, word in VARYING.items():
        text = re.sub(varying, word, text)
    return text
