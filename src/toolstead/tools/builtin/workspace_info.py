"""`workspace-info`: where the project is, which branch is checked out, where it came from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.builtin.repository_memory import RepositoryMemory
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations

_DESCRIPTION = """\
Show where the project is: its folder, the git branch that is checked out, and the address of its git remote. \
`branch` is null outside a repository or when no branch is checked out, `remoteUrl` when there is no remote. \
Passwords and tokens in the address are masked. Changes nothing."""

_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

_OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "projectPath": {"type": "string", "description": "The project's root folder."},
        "branch": {"type": ["string", "null"], "description": "The branch that is checked out."},
        "remoteUrl": {"type": ["string", "null"], "description": "The remote's address, without secrets."},
    },
    "required": ["projectPath", "branch", "remoteUrl"],
    "additionalProperties": False,
}

_ADDRESS = r"(?s)(?<![A-Za-z0-9+.-])(?P<before>[0-9+.-]*)(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)"
_HOST = r"(?:\[[^\]]*\]|[^:@/?#]*)(?::\d*)?(?=[/?#]|$)"
_SCP_PASSWORD = r"^(?P<user>[^:/@]+):[^/]*@(?=[^/@]+:)"
_NAMES_ITS_USER = frozenset({"ssh", "git+ssh", "ssh+git"})


def workspace_info_tool(root: Path, repositories: RepositoryMemory) -> Tool:
    """The tool, for a project.

    Args:
        root: The project's root.
        repositories: Finds the repository it lies in.
    """
    project = str(root.absolute())

    async def show_workspace(_: PluginContext, __: dict[str, Any], ___: ToolMeta) -> ToolResult:
        # With it comes all that running a program needs, and only a call pays for it.
        from toolstead.tools.builtin.git import decode_output

        branch = remote_url = None
        repository = await repositories.find_repository()
        if repository is not None:
            branch = await repository.read_branch()
            address = repository.remote_url(branch)
            remote_url = None if address is None else without_secrets(decode_output(os.fsencode(address)))
        return ToolResult.of_json(
            {
                "projectPath": decode_output(os.fsencode(project)),
                "branch": branch,
                "remoteUrl": remote_url,
            }
        )

    return Tool(
        name="workspace-info",
        title="Workspace info",
        description=_DESCRIPTION,
        schema=_SCHEMA,
        output_schema=_OUTPUT_SCHEMA,
        handler=show_workspace,
        annotations=Annotations(read_only=True, open_world=False),
    )


def without_secrets(address: str) -> str:
    """A remote's address with passwords, tokens and queries masked.

    The user of an ssh address stays (`git@` is no secret); before any other host, whatever stands
    there may be a token.
    """
    if "://" not in address:
        return re.sub(_SCP_PASSWORD, r"\g<user>:***@", address)
    return re.sub(_ADDRESS, _mask_match, address)


def _mask_match(match: re.Match[str]) -> str:
    scheme, rest = match["scheme"], match["rest"]
    user = ""
    if not re.match(_HOST, rest) and "@" in rest:  # a password may have an unescaped `/` in it
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        end = (authority if "@" in authority else rest).rindex("@")
        name, has_password, _ = rest[:end].partition(":")
        rest = rest[end + 1 :]
        user = "***@"
        if scheme.lower() in _NAMES_ITS_USER:
            user = f"{name}:***@" if has_password else f"{name}@"
    place, has_query, _ = rest.partition("?")
    return f"{match['before']}{scheme}://{user}{place}{'?***' if has_query else ''}"
