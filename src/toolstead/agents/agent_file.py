"""One agent's file: bytes in, an agent and findings out, each finding with its line and column.

`frontmatter` and `yaml_nodes` read the YAML, `claude_file` what Claude Code's own files spell differently,
`agent_builder` each key; what the files say about each other and about tools is checked by `references`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from toolstead.agents.agent_builder import AgentBuilder, KnownNames
from toolstead.agents.agent_folder import LARGEST_FILE
from toolstead.agents.claude_file import adapt_frontmatter, read_lines
from toolstead.agents.findings import FindingReport
from toolstead.agents.frontmatter import AgentText
from toolstead.agents.yaml_nodes import FrontmatterError, YamlNode
from toolstead.types.agent import Agent, AgentScope, Finding

FrontmatterCheck = Callable[[YamlNode, FindingReport], None]
"""Reports what else is wrong with a frontmatter, besides what is wrong in every file."""


class LoadedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds.

    Attributes:
        path: The file.
        agent: Its agent; None when an error keeps it out, or when the file is no agent's.
        findings: What was found in it.
    """

    path: Path
    agent: Agent | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class AgentReader(KnownNames):
    """Reads agents' files, given what they may name."""

    def read(self, path: Path, data: bytes, scope: AgentScope, check: FrontmatterCheck | None = None) -> LoadedAgent:
        """Read a file's content. Never raises for what is in it; an error among the findings means no agent.

        Args:
            path: The file; its name is the agent's where the frontmatter has none.
            data: Its content.
            scope: Where it comes from.
            check: Looks at the frontmatter too.
        """
        if len(data) > LARGEST_FILE:
            return _refuse_file(path, f"the file is larger than {LARGEST_FILE:,} bytes; an agent is shorter")
        try:
            decoded = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            return _refuse_file(path, "this is no UTF-8 text; save the file as UTF-8", line)
        text = AgentText(decoded.replace("\r\n", "\n").replace("\r", "\n"))
        report = FindingReport(path, text)
        root = _parse_root(text, scope, report)
        if root is not None and check is not None:
            check(root, report)
        agent = AgentBuilder(self, text, report, scope).read_agent(root) if root is not None else None
        return LoadedAgent(path=path, agent=None if report.has_errors else agent, findings=report.findings)


def _refuse_file(path: Path, message: str, line: int = 1) -> LoadedAgent:
    finding = Finding(severity="error", source=str(path), message=message, line=line, column=1)
    return LoadedAgent(path=path, agent=None, findings=(finding,))


def _parse_root(text: AgentText, scope: AgentScope, report: FindingReport) -> YamlNode | None:
    """The frontmatter, or None with a finding."""
    if text.start is None:
        if scope == "claude":
            report.add_note(0, "no frontmatter, so it is no agent; one begins with a line `---`")
        else:
            report.add_error(
                0, "an agent's file begins with frontmatter: a line `---`, lines such as `name: reviewer`, a line `---`"
            )
        return None
    if text.is_open:
        report.add_error(0, "the frontmatter that begins here has no end; write a line `---` below its last key")
        return None
    try:
        root = text.parse_frontmatter()
    except FrontmatterError as error:
        root = read_lines(text) if scope == "claude" and error.is_syntax else None
        if root is None:
            report.add_error(error.at, error.reason)
            return None
        report.add_note(error.at, f"this is no YAML ({error.reason}); it was read line by line, as `key: text`")
    return adapt_frontmatter(root, report) if scope == "claude" else root
