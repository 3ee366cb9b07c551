"""Files that were written for Claude Code load as they are."""

from __future__ import annotations

from pathlib import Path

from tests.unit.agents.claude_files import CLAUDE_FILES
from toolstead.agents.agent_file import AgentReader

READER = AgentReader(
    model_problem=lambda model: "" if model in ("opus", "sonnet", "haiku") else "no such model",
    runtimes=("kernel", "claude"),
    own_tools=("Read", "Grep", "Bash", "Write"),
)


def test_files_in_the_shapes_of_public_collections_load_unchanged() -> None:
    assert len(CLAUDE_FILES) >= 20
    wrong: list[str] = []
    for name, file in CLAUDE_FILES.items():
        text = f"---\n{file.frontmatter}---\n{file.body}"
        data = (file.mark + text.replace("\n", file.line_end)).encode()
        loaded = READER.read(Path("file-name.md"), data, "claude")
        if loaded.agent is None:
            wrong.append(f"{name}: {loaded.findings}")
            continue
        if loaded.agent.instructions != file.body:
            wrong.append(f"{name}: the body differs")
        read = {field: getattr(loaded.agent, field) for field in file.gives}
        if read != file.gives:
            wrong.append(f"{name}: {read} instead of {file.gives}")
        by_line = [finding.severity for finding in loaded.findings if "read line by line" in finding.message]
        if by_line != ([] if file.is_yaml else ["note"]):
            wrong.append(f"{name}: {loaded.findings}")
    assert not wrong, "\n".join(wrong)


def test_a_file_without_frontmatter_is_no_agent_and_no_error() -> None:
    loaded = READER.read(Path("README.md"), b"# Our agents\n", "claude")
    assert loaded.agent is None
    assert [finding.severity for finding in loaded.findings] == ["note"]


def test_only_these_files_are_read_line_by_line() -> None:
    text = b"---\nname: a\ndescription: Use it: now\n---\nx\n"
    assert READER.read(Path("a.md"), text, "claude").agent is not None
    loaded = READER.read(Path("a.md"), text, "project")
    assert loaded.agent is None
    assert "put the whole value in quotes" in loaded.findings[0].message


def test_what_is_not_used_is_a_note_with_its_line() -> None:
    text = b"---\nname: a\ndescription: d\ncolor: red\nhooks: {}\n---\nx\n"
    loaded = READER.read(Path("a.md"), text, "claude")
    assert [(finding.severity, finding.line) for finding in loaded.findings] == [("note", 4), ("note", 5)]
