"""The prompts of markdown files: those of the user's folder, and the approved ones of the project.

A project's prompt stands in for the user's of the same name. A bad file is reported alone; the rest is there.
"""

from __future__ import annotations

import logging
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from toolstead.agents.agent_folder import AgentFile, AgentFolder, is_agent_file
from toolstead.app.approved_markdown import ApprovedMarkdown
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.plugin_instance import PluginPrompt

if TYPE_CHECKING:
    from toolstead.agents.prompt_file import LoadedPrompt
    from toolstead.app.places import Places
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.types.agent import AgentScope, Finding

logger = logging.getLogger(__name__)

FOLDER = ".toolstead/prompts"
"""Where the prompts of a project are."""


class PromptFiles:
    """The prompts of files.

    Attributes:
        users: The user's folder of prompts.
        prompts: What was read last, by name.
        findings: What was found in the files.
    """

    def __init__(self, places: Places, trust: ProjectTrust) -> None:
        """Read nothing yet."""
        self.users = AgentFolder(places.user_content / "prompts", "user")
        self.prompts: tuple[PluginPrompt, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self._sources = (ApprovedMarkdown(trust, find_scope), self.users)
        self._context = PluginContext(name="prompts", logger=logging.getLogger("toolstead.prompts"))
        self._logged: frozenset[Finding] = frozenset()

    def read(self, *, logs: bool = True) -> None:
        """Read every file anew, and log what is wrong with them; in a worker thread."""
        loaded = [_load(file) for source in self._sources for file in source.list_files()]
        found: dict[str, PluginPrompt] = {}
        findings: list[Finding] = []
        for one in loaded:
            findings += one.findings
            if one.prompt is not None and one.prompt.name not in found:
                offered = PluginPrompt(prompt=one.prompt, origin=str(one.path), context=self._context)
                found[one.prompt.name] = offered
        self.prompts = tuple(found[name] for name in sorted(found))
        self.findings = tuple(findings)
        if logs:
            self._log_findings()

    def _log_findings(self) -> None:
        from toolstead.agents.catalogue import describe_finding

        for finding in self.findings:
            if finding not in self._logged:
                logger.log(logging.DEBUG if finding.severity == "note" else logging.WARNING, describe_finding(finding))
        self._logged = frozenset(self.findings)


def find_scope(within: str) -> AgentScope | None:
    """Whether a file of a project is a prompt, by its path there."""
    path = PurePosixPath(within)
    return "project" if path.parent == PurePosixPath(FOLDER) and is_agent_file(path.name) else None


def _load(file: AgentFile) -> LoadedPrompt:
    # What reads YAML is imported where there is a file, and many have none.
    from toolstead.agents.prompt_file import read_prompt, refuse_prompt

    if file.data is None:
        return refuse_prompt(file.path, file.problem)
    try:
        return read_prompt(file.path, file.data)
    except Exception:
        logger.exception("%s made the reader fail; please report this", file.path)
        return refuse_prompt(file.path, "the reader failed on this file; the log has the details")
