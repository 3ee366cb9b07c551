"""Claude Code as a runtime: opens sessions, each with its own process.

The SDK is imported when the first session is opened, off the event loop.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.adapters.claude.launch import SPAWNING, Launch, Launches, own_tools
from toolstead.adapters.importing import import_lock
from toolstead.adapters.installing import install_command, reinstall_command
from toolstead.adapters.providers.catalogue import Lookup, find_model
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import SessionSpec, instructions_of
from toolstead.types.tool import ToolInfo

if TYPE_CHECKING:
    import mcp_types

    from toolstead.adapters.claude.session import ClaudeSession
    from toolstead.adapters.tool_copies import ToolCopies

_UNKNOWN = "no conversation found"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ClaudeRuntime:
    """Opens sessions with Claude Code.

    Attributes:
        name: `claude`.
        owns_process: True: a session is a process.
    """

    name = "claude"
    owns_process = True

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        lookup: Lookup,
        offered: Callable[[SessionSpec], Sequence[ToolInfo]],
        folder: Path,
        tools: Sequence[str] = (),
        login: bool = False,
        max_turns: int = 100,
    ) -> None:
        """Create a runtime; nothing is imported, started or written yet.

        Args:
            environ: The environment; paths, language, proxies and certificates are passed on.
            lookup: Returns `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`.
            offered: The tools that an agent is offered now.
            folder: Private: configuration, conversations and temporary files of Claude Code are kept here.
            tools: Claude's own tools that it may use, such as `Bash`; none unless named.
            login: Use the user's own configuration and login instead of a private one and a key.
            max_turns: Model requests allowed for one prompt.
        """
        self._offered = offered
        self._tools = tools
        self._launches = Launches(environ=environ, lookup=lookup, folder=folder, login=login, max_turns=max_turns)
        self._copies: ToolCopies[mcp_types.Tool] | None = None

    def resolve_model(self, model: str) -> str:
        """The full name of a model; an empty one means Anthropic's usual model, or the user's own choice of a login.

        Raises:
            RuntimeFailureError: There is no such model, or it is not one of Anthropic's.
        """
        if not model and self._launches.login:
            return ""
        vendor, found = find_model(model or "sonnet")
        if vendor.name != "anthropic":
            raise RuntimeFailureError(
                f"model {model!r} is one of {vendor.title}, and the claude runtime runs only those of Anthropic; "
                f"name one of them, such as anthropic:{find_model('sonnet')[1]}, or use the kernel runtime"
            )
        return f"{vendor.name}:{found}"

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> ClaudeSession:
        """Start a program, and resume a conversation if one is named; no model request is made yet.

        Raises:
            SessionLostError: The conversation `resume` does not exist.
            RuntimeFailureError: The extra is not installed, there is no key, or the program cannot be started.
        """
        if resume is not None and _ID.fullmatch(resume) is None:
            raise SessionLostError(f"{resume[:100]!r} is not a conversation of Claude Code")
        permitted = spec.permitted_tools(self._tools)
        own = own_tools([name for name in permitted if spec.may_spawn or name not in SPAWNING])
        launch = await asyncio.to_thread(self._prepare_launch, spec, own, resume)
        from toolstead.adapters.claude.connection import BrokenError
        from toolstead.adapters.claude.session import ClaudeSession
        from toolstead.adapters.claude.tools_server import claude_copies

        self._copies = self._copies or claude_copies()
        session = ClaudeSession(
            launch,
            spec,
            offered=self._offered,
            copies=self._copies,
            own=own,
            resume=resume,
            max_turns=self._launches.limit_turns(spec),
        )
        try:
            await session.open()
        except BrokenError as error:
            if resume is not None and _UNKNOWN in str(error).lower():
                raise SessionLostError(f"Claude Code no longer has the conversation {resume!r}") from error
            raise RuntimeFailureError(f"Claude Code cannot be started: {error}") from error
        return session

    def _prepare_launch(self, spec: SessionSpec, own: Sequence[str], resume: str | None) -> Launch:
        """Import the SDK and write files: not on the event loop, the import alone takes most of a second."""
        try:
            with import_lock():
                import claude_agent_sdk

                import_module("toolstead.adapters.claude.session")  # the rest, so that the event loop finds it imported
        except ModuleNotFoundError as error:
            raise RuntimeFailureError(
                f"the claude runtime is not installed ({error}): {install_command('claude')}"
            ) from error
        bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
        found = bundled if bundled.is_file() else shutil.which("claude", path=self._launches.environ.get("PATH", ""))
        if found is None:
            raise RuntimeFailureError(
                f"the claude runtime has no program: {bundled} is missing, and no `claude` is on PATH; "
                f"{reinstall_command('claude-agent-sdk')} brings it"
            )
        return self._launches.prepare_launch(
            Path(found), spec, instructions=instructions_of(spec), own=own, resume=resume
        )
