"""The approved markdown files of a project: agents and prompts are read from here, never from the project's folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.agents.agent_folder import AgentFile
from toolstead.errors import TrustError
from toolstead.schema.visible import escape_unseen

if TYPE_CHECKING:
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.types.agent import AgentScope


class ApprovedMarkdown:
    """Some of the files of a project, as they were approved."""

    def __init__(self, trust: ProjectTrust, find_scope: Callable[[str], AgentScope | None]) -> None:
        """Read nothing yet.

        Args:
            trust: What of the project may be loaded.
            find_scope: What a file is, by its path in the project; None for one that is not wanted.
        """
        self._trust = trust
        self._find_scope = find_scope

    def list_files(self) -> Sequence[AgentFile]:
        """Every approved file; where one cannot be read, the reason."""
        trust = self._trust
        try:
            approval = trust.read_approval()  # read again: it may just have been revoked
        except TrustError as error:
            problem = str(error)
            return [AgentFile(path=trust.project, scope="project", problem=problem, is_folder=True, is_unread=True)]
        files: list[AgentFile] = []
        for within in sorted(approval.files) if approval is not None else ():
            if (scope := self._find_scope(within)) is None:
                continue
            shown = Path(escape_unseen(str(trust.project / within)))
            try:
                data = trust.approvals.approved_content(trust.project, within)
                files.append(AgentFile(path=shown, scope=scope, data=data or b""))
            except TrustError as error:
                files.append(AgentFile(path=shown, scope=scope, problem=str(error)))
        return files
