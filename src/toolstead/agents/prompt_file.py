"""A prompt in a markdown file: its name is the file's, its arguments are in the frontmatter, its text is the body.

`prompt_template` fills the text in, `frontmatter` and `yaml_nodes` read the YAML; findings have their line and column.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolstead.agents.agent_fields import FieldReader, find_name_problem
from toolstead.agents.agent_folder import LARGEST_FILE
from toolstead.agents.findings import FindingReport
from toolstead.agents.frontmatter import AgentText
from toolstead.agents.prompt_template import PLACEHOLDER, LongPromptError, fill_template
from toolstead.agents.yaml_nodes import FrontmatterError, YamlNode
from toolstead.errors import ToolError
from toolstead.plugins.contract import PluginContext, Prompt, PromptArgument
from toolstead.schema.visible import find_unseen, first_unseen
from toolstead.types.agent import Finding

KEYS = ("title", "description", "arguments")
ARGUMENT_KEYS = ("title", "description", "required", "values")
MOST_ARGUMENTS = 100


class LoadedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds.

    Attributes:
        path: The file.
        prompt: Its prompt; None when an error keeps it out.
        findings: What was found in it.
    """

    path: Path
    prompt: Prompt | None
    findings: tuple[Finding, ...]


def read_prompt(path: Path, data: bytes) -> LoadedPrompt:
    """Read a file's content. Never raises for what is in it; an error among the findings means no prompt."""
    if len(data) > LARGEST_FILE:
        return refuse_prompt(path, f"the file is larger than {LARGEST_FILE:,} bytes; a prompt is shorter")
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return refuse_prompt(path, "this is no UTF-8 text; save the file as UTF-8", line)
    text = AgentText(decoded.replace("\r\n", "\n").replace("\r", "\n"))
    report = FindingReport(path, text)
    prompt = _PromptBuilder(text, report).build_prompt(path.stem)
    return LoadedPrompt(path=path, prompt=None if report.has_errors else prompt, findings=report.findings)


def refuse_prompt(path: Path, message: str, line: int = 1) -> LoadedPrompt:
    """What becomes of a file that cannot be read."""
    finding = Finding(severity="error", source=str(path), message=message, line=line, column=1)
    return LoadedPrompt(path=path, prompt=None, findings=(finding,))


class _PromptBuilder:
    """Builds one prompt from its frontmatter and body."""

    def __init__(self, text: AgentText, report: FindingReport) -> None:
        self._text = text
        self._report = report
        self._fields = FieldReader(report)

    def build_prompt(self, name: str) -> Prompt | None:
        if (problem := find_name_problem(name)) is not None:
            self._report.add_error(0, f"the file's name is the prompt's, and in it {problem}")
        members = self._read_frontmatter()
        if members is None:
            return None
        title = self._fields.read_filled_text(members["title"], "title") if "title" in members else None
        description = (
            self._fields.read_description(members["description"], "description") if ("description" in members) else ""
        )
        arguments = self._read_arguments(members["arguments"]) if "arguments" in members else ()
        body = self._read_body(arguments)
        return Prompt(
            name=name,
            title=title,
            description=description or "",
            arguments=arguments,
            handler=_Template(body, arguments).fill,
        )

    def _read_frontmatter(self) -> Mapping[str, YamlNode] | None:
        if self._text.start is None:  # the whole file is the text
            return {}
        if self._text.is_open:
            self._report.add_error(0, "the frontmatter that begins here has no end; write a line `---` below it")
            return None
        try:
            root = self._text.parse_frontmatter()
        except FrontmatterError as error:
            self._report.add_error(error.at, error.reason)
            return None
        self._fields.check_keys(root, KEYS, "a prompt")
        return root.members or {}

    def _read_arguments(self, node: YamlNode) -> tuple[PromptArgument, ...]:
        if node.members is None:
            self._report.add_error(
                node.start, "arguments: a mapping such as {path: {description: The file.}} is needed"
            )
            return ()
        if len(node.members) > MOST_ARGUMENTS:
            self._report.add_error(node.start, f"arguments: {len(node.members)} are too many; at most {MOST_ARGUMENTS}")
            return ()
        read = (self._read_argument(name, member, node.keys[name]) for name, member in node.members.items())
        return tuple(argument for argument in read if argument is not None)

    def _read_argument(self, name: str, node: YamlNode, at: int) -> PromptArgument | None:
        field = f"arguments.{name[:64]}"
        if not PLACEHOLDER.fullmatch(f"{{{{{name}}}}}"):
            self._report.add_error(at, f"{field}: letters, digits, `_`, `-` and `.` are allowed, at most 64")
            return None
        members = node.members
        if members is None and node.value is not None:
            self._report.add_error(node.start, f"{field}: a mapping such as {{description: The file.}} is needed")
            return None
        members = members or {}
        self._fields.check_keys(node, ARGUMENT_KEYS, "an argument")
        return PromptArgument(
            name=name,
            title=self._fields.read_filled_text(members["title"], f"{field}.title") if "title" in members else None,
            description=(
                self._fields.read_description(members["description"], f"{field}.description")
                if "description" in members
                else ""
            )
            or "",
            required=bool(
                self._fields.read_flag(members["required"], f"{field}.required") if "required" in members else False
            ),
            values=self._read_values(members["values"], f"{field}.values") if "values" in members else (),
        )

    def _read_values(self, node: YamlNode, field: str) -> tuple[str, ...]:
        items = self._fields.read_items(node, field, "[short, long]") or ()
        read = (self._fields.read_filled_text(item, f"{field}.{at}") for at, item in enumerate(items))
        return tuple(value for value in read if value is not None)

    def _read_body(self, arguments: tuple[PromptArgument, ...]) -> str:
        body, start = self._text.body, self._text.body_start
        if not body.strip():
            self._report.add_error(self._text.end, "the prompt has no text; write it below the frontmatter")
        if (reason := first_unseen(body, "prose")) is not None:
            self._report.add_error(start + find_unseen(body, "prose")[0], f"the text: {reason}")
        known, used = {argument.name for argument in arguments}, set[str]()
        for found in PLACEHOLDER.finditer(body):
            if found[1] not in known and found[1] not in used:
                message = f"`{{{{{found[1]}}}}}` is no argument and stays as it is; name it in `arguments`"
                self._report.add_warning(start + found.start(), message)
            used.add(found[1])
        for name in sorted(known - used):
            self._report.add_warning(0, f"arguments.{name}: the text does not use it; write {{{{{name}}}}} in it")
        return body


class _Template:
    """The text of a prompt; an argument that is not given is empty."""

    __slots__ = ("_absent", "_body")

    def __init__(self, body: str, arguments: tuple[PromptArgument, ...]) -> None:
        self._body = body.strip("\n")
        self._absent = dict.fromkeys((argument.name for argument in arguments), "")

    async def fill(self, _: PluginContext, arguments: dict[str, str]) -> str:
        """The text with its arguments."""
        try:
            return fill_template(self._body, self._absent | arguments)
        except LongPromptError as error:
            raise ToolError(str(error)) from None
