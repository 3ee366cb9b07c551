"""How agents' files are read in a stead: the folders, and the models, runtimes and tools that they may name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from toolstead.adapters.claude.launch import CLAUDE_TOOLS
from toolstead.adapters.providers.catalogue import find_model
from toolstead.agents.agent_file import AgentReader
from toolstead.agents.agent_folder import is_agent_file
from toolstead.app.runtimes import NAMES
from toolstead.errors import RuntimeFailureError
from toolstead.types.agent import AgentScope

FOLDERS: Mapping[str, AgentScope] = {".toolstead/agents": "project", ".claude/agents": "claude"}
"""The folders of a project; those of Claude Code may have folders inside."""


def create_reader() -> AgentReader:
    """A reader of agents' files."""
    return AgentReader(model_problem=find_model_problem, runtimes=NAMES, own_tools=CLAUDE_TOOLS)


def find_scope(within: str) -> AgentScope | None:
    """What a file of a project is, by its path there: an agent of one of the folders, or None."""
    path = PurePosixPath(within)
    folder = next((folder for folder in FOLDERS if within.startswith(f"{folder}/")), None)
    if folder is None or not is_agent_file(path.name):
        return None
    scope = FOLDERS[folder]
    return scope if scope == "claude" or path.parent == PurePosixPath(folder) else None


def find_model_problem(name: str) -> str:
    """Why there is no model of this name; empty when there may be one."""
    try:
        find_model(name)
    except RuntimeFailureError as error:
        return str(error)
    return ""
