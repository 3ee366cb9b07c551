"""The catalogue: who holds a name, what stays when a file becomes bad, and what a reload reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolstead.agents import agent_folder
from toolstead.agents.agent_file import AgentReader, LoadedAgent
from toolstead.agents.catalogue import AgentCatalogue, AgentChanges, AgentFile, AgentFolder, AgentSource
from toolstead.types.agent import AgentScope, Finding


class CountingReader(AgentReader):
    """A reader that says which files it read."""

    __slots__ = ("read_paths",)

    def __init__(self) -> None:
        super().__init__(model_problem=lambda _model: "", runtimes=("kernel",), own_tools=("Read",))
        object.__setattr__(self, "read_paths", [])

    def read(self, path: Path, data: bytes, scope: AgentScope) -> LoadedAgent:
        self.read_paths.append(path.name)
        return AgentReader.read(self, path, data, scope)


def write_agent(folder: Path, name: str, description: str = "d", body: str = "Do it.", file: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file or name}.md"
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n", encoding="utf-8")
    return path


def make_catalogue(sources: Sequence[AgentSource]) -> AgentCatalogue:
    return AgentCatalogue(sources, AgentReader(lambda _model: "", ("kernel",), ("Read",)))


def severe(catalogue: AgentCatalogue, severity: str) -> list[Finding]:
    return [finding for finding in catalogue.findings if finding.severity == severity]


async def test_the_built_in_agent_is_there_before_and_without_any_file(tmp_path: Path) -> None:
    catalogue = make_catalogue([AgentFolder(tmp_path / "none", "user")])
    assert list(catalogue.agents) == ["main"]
    assert not await catalogue.reload()
    assert catalogue.agents["main"].description == "Answers with every tool."
    assert catalogue.findings == ()


async def test_a_reload_reports_what_differs_and_reads_only_what_changed(tmp_path: Path) -> None:
    reader = CountingReader()
    catalogue = AgentCatalogue([AgentFolder(tmp_path, "user")], reader)
    write_agent(tmp_path, "beta")
    changed = write_agent(tmp_path, "alpha")
    assert await catalogue.reload() == AgentChanges(added=("alpha", "beta"))
    assert list(catalogue.agents) == ["alpha", "beta", "main"]
    assert reader.read_paths == ["alpha.md", "beta.md"]

    os.utime(changed, ns=(1, 1))  # touched, and the same
    assert not await catalogue.reload()
    assert reader.read_paths == ["alpha.md", "beta.md"]

    write_agent(tmp_path, "alpha", body="Do it otherwise.")
    (tmp_path / "beta.md").unlink()
    assert await catalogue.reload() == AgentChanges(changed=("alpha",), removed=("beta",))
    assert reader.read_paths == ["alpha.md", "beta.md", "alpha.md"]

    changed.write_text(changed.read_text(encoding="utf-8").replace("---\nname", "---\n# why\nname"), encoding="utf-8")
    assert not await catalogue.reload(), "a comment changes no agent"
    assert catalogue.agents["alpha"].lines["name"] == 3
    changed.unlink()
    assert await catalogue.reload()


async def test_a_file_that_became_bad_keeps_its_last_good_agent_until_it_is_mended(tmp_path: Path) -> None:
    catalogue = make_catalogue([AgentFolder(tmp_path, "user")])
    path = write_agent(tmp_path, "alpha", body="The good version.")
    write_agent(tmp_path, "beta")
    await catalogue.reload()
    path.write_text("---\nname: alpha\nmodle: x\n---\nThe bad version.\n", encoding="utf-8")
    assert await catalogue.reload() == AgentChanges(changed=("alpha",))
    kept = catalogue.agents["alpha"]
    assert kept.stale
    assert kept.instructions == "The good version.\n"
    assert [(finding.line, finding.source) for finding in severe(catalogue, "error")] == [(3, str(path))]
    assert not catalogue.agents["beta"].stale

    path.write_text("---\nname: alpha\nmodle: y\n---\n", encoding="utf-8")  # bad again: the last good one still stays
    assert not await catalogue.reload()
    assert catalogue.agents["alpha"].instructions == "The good version.\n"

    write_agent(tmp_path, "alpha", body="Mended.")
    assert await catalogue.reload() == AgentChanges(changed=("alpha",))
    assert (catalogue.agents["alpha"].stale, severe(catalogue, "error")) == (False, [])
    path.unlink()
    assert await catalogue.reload() == AgentChanges(removed=("alpha",))


async def test_a_file_that_was_never_good_is_reported_and_kept_out(tmp_path: Path) -> None:
    catalogue = make_catalogue([AgentFolder(tmp_path, "user")])
    write_agent(tmp_path, "good")
    (tmp_path / "bad.md").write_text("no frontmatter", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / ".hidden.md").write_text("x", encoding="utf-8")
    (tmp_path / "notes.md~").write_text("x", encoding="utf-8")
    await catalogue.reload()
    assert list(catalogue.agents) == ["good", "main"]
    assert [Path(finding.source).name for finding in severe(catalogue, "error")] == ["bad.md", "folder.md", "pipe.md"]


@pytest.mark.parametrize("order", [1, -1])
async def test_project_over_claude_over_user_over_built_in(tmp_path: Path, order: int) -> None:
    scopes: list[AgentScope] = ["project", "claude", "user"]
    for scope in scopes:
        write_agent(tmp_path / scope, "main", description=scope)
    catalogue = make_catalogue([AgentFolder(tmp_path / scope, scope) for scope in scopes[::order]])
    for scope in scopes:
        await catalogue.reload()
        assert catalogue.agents["main"].scope == scope
        notes = [finding for finding in severe(catalogue, "note") if "replaces" in finding.message]
        assert {finding.source for finding in notes} == {str(tmp_path / scope / "main.md")}
        (tmp_path / scope / "main.md").unlink()
    assert "replaces the agent that is built in" in notes[-1].message
    assert await catalogue.reload() == AgentChanges(changed=("main",))
    assert catalogue.agents["main"].scope == "builtin"


async def test_of_two_files_of_one_folder_the_first_by_path_holds_the_name(tmp_path: Path) -> None:
    catalogue = make_catalogue([AgentFolder(tmp_path, "user")])
    first = write_agent(tmp_path, "twin", description="first", file="a")
    second = write_agent(tmp_path, "twin", description="second", file="b")
    await catalogue.reload()
    assert catalogue.agents["twin"].description == "first"
    (error,) = severe(catalogue, "error")
    assert (error.source, error.line) == (str(second), 2)
    assert str(first) in error.message
    first.unlink()
    assert await catalogue.reload() == AgentChanges(changed=("twin",))
    assert catalogue.agents["twin"].description == "second"


async def test_only_the_folder_of_claude_code_is_read_with_those_below(tmp_path: Path) -> None:
    for scope in ("claude", "user"):
        write_agent(tmp_path / scope / "below" / "deeper", "nested")
        write_agent(tmp_path / scope / ".hidden", "hidden")
    (tmp_path / "claude" / "loop").symlink_to(tmp_path / "claude")
    files = {scope: AgentFolder(tmp_path / scope, scope).list_files() for scope in ("claude", "user")}
    assert [file.path.name for file in files["claude"]] == ["nested.md"]
    assert files["user"] == []


async def test_a_folder_that_cannot_be_read_now_keeps_its_agents(tmp_path: Path) -> None:
    class Failing(AgentFolder):
        problem = False

        def list_files(self) -> Sequence[AgentFile]:
            if self.problem:
                raise RuntimeError("the disk is gone")
            return super().list_files()

    write_agent(tmp_path / "user", "alpha")
    source = Failing(tmp_path / "user", "user")
    catalogue = make_catalogue([source, AgentFolder(tmp_path / "project", "project")])
    await catalogue.reload()
    source.problem = True
    write_agent(tmp_path / "project", "beta")
    assert await catalogue.reload() == AgentChanges(added=("beta",))
    assert "alpha" in catalogue.agents
    source.problem = False
    (tmp_path / "user").rename(tmp_path / "away")
    (tmp_path / "user").write_text("not a folder", encoding="utf-8")
    assert not await catalogue.reload()
    assert ["cannot be read" in finding.message for finding in severe(catalogue, "error")] == [True]


async def test_a_reader_or_listener_that_fails_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Crashing(AgentReader):
        __slots__ = ()

        def read(self, path: Path, data: bytes, scope: AgentScope) -> LoadedAgent:
            if path.stem == "bad":
                raise RuntimeError("a fault of the reader")
            return AgentReader.read(self, path, data, scope)

    write_agent(tmp_path, "bad")
    write_agent(tmp_path, "good")
    catalogue = AgentCatalogue([AgentFolder(tmp_path, "user")], Crashing(lambda _model: "", (), ()))
    assert await catalogue.reload() == AgentChanges(added=("good",))
    assert [finding.severity for finding in catalogue.findings] == ["error"]
    assert "a fault of the reader" in caplog.text


async def test_files_are_bounded_in_number_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_folder, "MOST_FILES", 3)
    for number in range(5):
        write_agent(tmp_path, f"agent-{number}")
    catalogue = make_catalogue([AgentFolder(tmp_path, "user")])
    await catalogue.reload()
    assert list(catalogue.agents) == ["agent-0", "agent-1", "agent-2", "main"]
    assert "only the first 3" in severe(catalogue, "error")[0].message
    write_agent(tmp_path, "agent-1", body="x" * agent_folder.LARGEST_FILE)
    await catalogue.reload()
    assert catalogue.agents["agent-1"].stale
    write_agent(tmp_path, "agent-2", body="x" * 1_000_000)
    assert len(AgentFolder(tmp_path, "user").list_files()[-1].data or b"") == agent_folder.LARGEST_FILE + 1
    monkeypatch.setattr(agent_folder, "MOST_ENTRIES", 2)
    assert any("not looked at" in file.problem for file in AgentFolder(tmp_path, "user").list_files())


async def test_the_stamp_changes_with_any_file(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, "user")
    stamps = [folder.stamp()]
    path = write_agent(tmp_path, "alpha")
    stamps.append(folder.stamp())
    write_agent(tmp_path, "alpha", body="Longer than it was.")
    stamps.append(folder.stamp())
    os.utime(path, ns=(10**18, 10**18))
    stamps.append(folder.stamp())
    assert folder.stamp() == stamps[-1]
    path.unlink()
    stamps.append(folder.stamp())
    assert len(set(map(str, stamps))) == 4, "the first and the last are of an empty folder"
