"""Builds an agent from its frontmatter and body, and reports what is wrong with each key."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import msgspec

from toolstead.agents.agent_fields import FieldReader, find_name_problem, make_name
from toolstead.agents.claude_file import CLAUDE_KEYS
from toolstead.agents.custom_tool import read_custom_tool, read_model
from toolstead.agents.findings import FindingReport
from toolstead.agents.frontmatter import AgentText
from toolstead.agents.gate_definition import InvalidGateError, check_pattern, split_command
from toolstead.agents.yaml_nodes import YamlNode
from toolstead.nearest_names import suggest
from toolstead.schema.visible import find_unseen, first_unseen
from toolstead.types.agent import DELEGATE_NAME, Agent, AgentLimits, AgentScope, PromptTool

KEYS = (
    *("name", "description", "model", "runtime", "tools", "disallowed_tools", "agents"),
    *("max_turns", "limits", "result_schema", "gates"),
)
LIMITS = tuple(field.name for field in msgspec.structs.fields(AgentLimits))
_AMOUNTS = frozenset({"run_timeout", "cost_budget"})
"""Limits that need not be whole numbers."""
GATE_KEYS = ("command", "timeout", "files")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What an agent's file may name.

    Attributes:
        model_problem: Says why there is no such model; empty when there is.
        runtimes: The names of the runtimes.
        own_tools: The names of Claude Code's own tools, such as `Read` and `Bash`.
    """

    model_problem: Callable[[str], str]
    runtimes: Collection[str]
    own_tools: Collection[str]


class AgentBuilder:
    """Builds one agent from its frontmatter and body."""

    def __init__(self, known: KnownNames, text: AgentText, report: FindingReport, scope: AgentScope) -> None:
        self._known = known
        self._text = text
        self._report = report
        self._scope: AgentScope = scope
        self._fields = FieldReader(report)
        self._lines: dict[str, int] = {}
        self._members: dict[str, YamlNode] = {}

    def read_agent(self, root: YamlNode) -> Agent | None:
        """The agent; None when it has no name. What is wrong is in the report."""
        self._members = dict(root.members or {})
        self._lines = {key: self._find_line(at) for key, at in root.keys.items()}
        self._check_keys(root)
        name = self._read_agent_name()
        description = self._read_agent_description()
        tools, custom = self._read_tools()
        agent = Agent(
            name=name or "",
            description=description,
            instructions=self._read_body(),
            model=read_model(self._members.get("model"), "model", self._fields, self._known.model_problem),
            runtime=self._read_runtime(),
            tools=tools,
            disallowed_tools=self._read_disallowed(),
            agents=self._read_agents(),
            max_turns=self._read_max_turns(),
            limits=self._read_limits(),
            result_schema=self._read_result_schema(),
            gates=self._read_gates(),
            custom_tools=custom,
            scope=self._scope,
            origin=str(self._report.path),
            lines=self._lines,
        )
        return agent if name is not None else None

    def _check_keys(self, root: YamlNode) -> None:
        """Report unknown keys; of Claude Code's own files they keep none out, because others read these too."""
        is_claude = self._scope == "claude"
        for key, at in root.keys.items():
            if key in KEYS:
                continue
            self._members.pop(key, None)
            self._lines.pop(key, None)
            if key in CLAUDE_KEYS:
                message = f"`{key}` is a key of Claude Code and has no effect here"
                self._report.add_note(at, message) if is_claude else self._report.add_warning(at, message)
                continue
            hint = suggest(key, KEYS, show=lambda near: f"`{near}`", otherwise=f"there are: {', '.join(KEYS)}")
            message = f"`{key[:60]}` is no key of an agent; {hint}"
            self._report.add_warning(at, message) if is_claude else self._report.add_error(at, message)

    def _read_agent_name(self) -> str | None:
        name = self._read_name()
        if name is not None and re.search(DELEGATE_NAME, name) is None:
            node = self._members.get("name")
            at = (self._text.start or 0) if node is None else node.start
            message = (
                f"no agent can delegate to it: `delegate_agent` takes names of small letters, digits, `_` and `-`; "
                f"call it `{make_name(name)}`"
            )
            is_others = self._scope == "claude"
            self._report.add_note(at, message) if is_others else self._report.add_warning(at, message)
        return name

    def _read_name(self) -> str | None:
        node = self._members.get("name")
        if node is not None and self._scope == "claude" and isinstance(node.value, str):
            spelled = make_name(node.value)
            if find_name_problem(node.value) is not None and find_name_problem(spelled) is None:
                self._report.add_note(
                    node.start, f"name: it is called `{spelled}` here; names have no other characters"
                )
                return spelled
        if node is not None:
            return self._fields.read_name(node, "name")
        stem = self._report.path.stem
        if (problem := find_name_problem(stem)) is not None:
            self._report.add_error(
                self._text.start or 0, f"without a `name` the file's name is the agent's, and in it {problem}"
            )
            return None
        return stem

    def _read_agent_description(self) -> str:
        node = self._members.get("description")
        description = self._fields.read_description(node, "description") if node is not None else ""
        if description is not None and not description.strip():
            at = (self._text.start or 0) if node is None else node.start
            self._report.add_warning(at, "no `description`; write when to use this agent, for people and other agents")
        return description or ""

    def _read_body(self) -> str:
        body = self._text.body
        if not body.strip():
            self._report.add_warning(
                self._text.end, "no instructions follow the frontmatter; the built-in ones are used"
            )
            return ""
        if (reason := first_unseen(body, "prose")) is not None:
            at = self._text.body_start + find_unseen(body, "prose")[0]
            self._report.add_error(at, f"instructions: {reason}")
        return body

    def _read_runtime(self) -> str:
        node = self._members.get("runtime")
        runtime = self._fields.read_filled_text(node, "runtime", kind="name") if node is not None else None
        if node is not None and runtime and runtime not in self._known.runtimes:
            known = ", ".join(sorted(self._known.runtimes))
            hint = suggest(runtime, self._known.runtimes, show=lambda near: f"`{near}`")
            self._report.add_error(
                node.start, f"runtime: there is no `{runtime[:60]}`; {f'{hint} ' if hint else ''}There are: {known}"
            )
        return runtime or ""

    def _read_tools(self) -> tuple[tuple[str, ...] | None, tuple[PromptTool, ...]]:
        """The allow-list, which mappings alone do not make, and the custom tools."""
        node = self._members.get("tools")
        items = self._fields.read_items(node, "tools", "[git-status, web_*]") if node is not None else None
        if items is None:
            return None, ()
        patterns: list[str] = []
        custom: dict[str, PromptTool] = {}
        for at, item in enumerate(items):
            if item.members is not None:
                self._read_custom(item, f"tools.{at}", custom)
            elif (pattern := self._read_tool_pattern(item, f"tools.{at}")) is not None:
                self._lines.setdefault(f"tools.{pattern}", self._find_line(item.start))
                patterns.append(pattern)
        is_listed = len(items) == 0 or any(item.members is None for item in items)
        return tuple(dict.fromkeys(patterns)) if is_listed else None, tuple(custom.values())

    def _read_custom(self, item: YamlNode, field: str, custom: dict[str, PromptTool]) -> None:
        tool = read_custom_tool(
            item, field, self._fields, text=self._text.text, model_problem=self._known.model_problem
        )
        if tool is None:
            return
        if tool.name in custom:
            self._report.add_error(
                item.find_place(("name",)), f"{field}.name: this file has a custom tool `{tool.name}` already"
            )
        self._lines.setdefault(f"tools.{tool.name}", self._find_line(item.start))
        custom[tool.name] = tool

    def _read_tool_pattern(self, item: YamlNode, field: str) -> str | None:
        """A tool's name or pattern; None also for Claude Code's own tools, which other files cannot give."""
        is_claude = self._scope == "claude"
        own = item.value.partition("(")[0] if isinstance(item.value, str) else ""
        if own in self._known.own_tools and not is_claude:
            self._report.add_note(
                item.start, f"{field}: `{own}` is Claude Code's own tool; only files in .claude/agents give it"
            )
            return None
        return self._fields.read_pattern(item, field, takes_rules=is_claude)

    def _read_disallowed(self) -> tuple[str, ...]:
        node = self._members.get("disallowed_tools")
        if node is None:
            return ()
        for item in node.items or ():
            if isinstance(item.value, str):
                self._lines.setdefault(f"disallowed_tools.{item.value}", self._find_line(item.start))
        is_claude = self._scope == "claude"
        return self._fields.read_patterns(node, "disallowed_tools", takes_rules=is_claude) or ()

    def _read_agents(self) -> tuple[str, ...] | None:
        node = self._members.get("agents")
        if node is None:
            return None
        for item in node.items or ():
            if isinstance(item.value, str):
                self._lines.setdefault(f"agents.{item.value}", self._find_line(item.start))
        return self._fields.read_names(node, "agents")

    def _read_max_turns(self) -> int | None:
        node = self._members.get("max_turns")
        return self._fields.read_number(node, "max_turns", is_whole=True, least=1) if node is not None else None

    def _read_limits(self) -> AgentLimits:
        node = self._members.get("limits")
        if node is None:
            return AgentLimits()
        if node.members is None:
            self._report.add_error(node.start, "limits: a mapping such as {max_depth: 2, run_timeout: 600} is needed")
            return AgentLimits()
        self._fields.check_keys(node, LIMITS, "limits")
        given: dict[str, Any] = {}
        for key, member in node.members.items():
            if key in LIMITS:
                given[key] = self._fields.read_number(
                    member, f"limits.{key}", is_whole=key not in _AMOUNTS, is_above=key == "run_timeout"
                )
        return AgentLimits(**given)

    def _read_result_schema(self) -> Any:
        node = self._members.get("result_schema")
        if node is None:
            return None
        return self._fields.read_schema(node, "result_schema")

    def _read_gates(self) -> tuple[dict[str, Any], ...]:
        node = self._members.get("gates")
        items = self._fields.read_items(node, "gates", '[{command: "pytest -q"}]') if node is not None else None
        if node is None or items is None:
            return ()
        return tuple(filter(None, (self._read_gate(item, f"gates.{at}") for at, item in enumerate(items))))

    def _read_gate(self, node: YamlNode, field: str) -> dict[str, Any] | None:
        members = node.members
        if members is None or ("command" in members) is ("files" in members):
            self._report.add_error(
                node.start,
                f'{field}: either {{command: "pytest -q", timeout: 300}} or {{files: [report.md]}} is needed',
            )
            return None
        self._fields.check_keys(node, GATE_KEYS, "a gate")
        if "files" in members:
            if "timeout" in members:
                self._report.add_error(node.keys["timeout"], f"{field}.timeout: only a command takes time; remove it")
            items = self._fields.read_items(members["files"], f"{field}.files", "[report.md]")
            if items == ():
                self._report.add_error(members["files"].start, f"{field}.files: name at least one, such as [report.md]")
            places = enumerate(items or ())
            read = (self._read_gate_text(item, f"{field}.files.{at}", check_pattern) for at, item in places)
            return {"files": [file for file in read if file is not None]}
        gate: dict[str, Any] = {"command": self._read_gate_text(members["command"], f"{field}.command", split_command)}
        if "timeout" in members:
            gate["timeout"] = self._fields.read_number(members["timeout"], f"{field}.timeout", is_above=True)
        return gate

    def _read_gate_text(self, node: YamlNode, field: str, check: Callable[[str], object]) -> str | None:
        text = self._fields.read_filled_text(node, field)
        if text is None:
            return None
        try:
            check(text)
        except InvalidGateError as error:
            self._report.add_error(node.start, f"{field}: {error}")
            return None
        return text

    def _find_line(self, at: int) -> int:
        return self._text.locate(at)[0]
