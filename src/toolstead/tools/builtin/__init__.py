"""The tools every project has: one tool, one file, its specification beside its handler."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from toolstead.plugins.contract import PluginContext
from toolstead.tools.builtin.file_reader import NAME as FILE_READER
from toolstead.tools.builtin.file_reader import file_reader_tool
from toolstead.tools.builtin.git_diff_summary import git_diff_summary_tool
from toolstead.tools.builtin.git_status import git_status_tool
from toolstead.tools.builtin.repository_memory import RepositoryMemory
from toolstead.tools.builtin.workspace_info import workspace_info_tool
from toolstead.tools.sources import Offer
from toolstead.types.tool import Provenance

__all__ = ["FILE_READER", "builtin_offers"]


def builtin_offers(root: Path, environ: Mapping[str, str], private: Path | None = None) -> list[Offer]:
    """The built-in tools of a project.

    Args:
        root: The project's root; no tool leads out of it.
        environ: The user's environment; git is given only a few names of it.
        private: The folder of what we keep ourselves, tokens among it; no tool reads it, wherever it lies.
    """
    context = PluginContext(name="builtin", logger=logging.getLogger("toolstead.builtin"))
    repositories = RepositoryMemory(root, environ)
    tools = (
        git_status_tool(root, repositories),
        git_diff_summary_tool(repositories),
        workspace_info_tool(root, repositories),
        file_reader_tool(root, private),
    )
    return [
        Offer(
            tool=tool,
            provenance=Provenance(source="builtin", origin=tool.handler.__module__),
            context=context,
        )
        for tool in tools
    ]
