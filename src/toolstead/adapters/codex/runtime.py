"""Codex as a runtime: implements the runtime port.

All sessions are threads of one `codex app-server` process: a thread costs a few megabytes and a tenth of a second, a
process about 150 megabytes and three times as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.adapters.codex.program import prepare_program
from toolstead.adapters.importing import import_lock
from toolstead.adapters.providers.catalogue import Lookup, find_model
from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import Offered, SessionSpec

if TYPE_CHECKING:
    import mcp_types

    from toolstead.adapters.codex.session import CodexSession
    from toolstead.adapters.codex.station import Stations
    from toolstead.adapters.tool_copies import ToolCopies

OWN_TOOLS = ("shell",)
"""The built-in tools of Codex that an agent may be permitted to use."""


class CodexRuntime:
    """Opens threads of Codex.

    Attributes:
        name: `codex`.
        owns_process: False: a session is a thread of a shared process.
    """

    name = "codex"
    owns_process = False

    def __init__(
        self,
        *,
        offered: Offered,
        folder: Path,
        lookup: Lookup,
        login: bool = False,
        tools: Sequence[str] = (),
        max_turns: int = 100,
        version: str = "0",
    ) -> None:
        """Create a runtime; nothing is started or imported yet.

        Args:
            offered: The tools of an agent.
            folder: A private folder where Codex keeps its conversations; the same every time.
            lookup: The user's environment and keys: `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `PATH`, proxies, certificates.
            login: Work in the user's own Codex home, with the account that is logged in there, and no key.
            tools: Built-in tools of Codex that every agent may use: `shell`, read-only, with each command gated.
            max_turns: Model requests allowed for one prompt.
            version: Sent to Codex.

        Raises:
            RuntimeFailureError: A tool cannot be permitted.
        """
        self._offered = offered
        self._tools = tuple(tools)
        self._max_turns = max_turns
        self._login = login
        self._check_permissions(self._tools)
        self._version = version
        self._prepare = partial(prepare_program, folder=folder, lookup=lookup, login=login)
        self._parts: tuple[Stations, ToolCopies[mcp_types.Tool]] | None = None
        self._importing = asyncio.Lock()

    def resolve_model(self, model: str) -> str:
        """The full name of the model that answers; empty when that is Codex's own choice.

        Raises:
            RuntimeFailureError: Codex cannot run that model.
        """
        vendor, colon, name = model.partition(":")  # a name may have colons of its own: ft:gpt-…:org::id
        vendor, name = (vendor, name) if colon else (_vendor_of(model), vendor)
        if vendor != "openai":
            raise RuntimeFailureError(
                f"Codex cannot run {model!r}: it runs OpenAI's models, named like openai:gpt-…; leave the model out"
                " for Codex's own choice, or use another runtime"
            )
        return f"openai:{name}" if name else ""

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> CodexSession:
        """Open a session.

        Raises:
            SessionLostError: Codex no longer has the conversation `resume`.
            RuntimeFailureError: Codex is not installed, has no key, or does not start.
        """
        stations, copies = await self._load_parts()
        from toolstead.adapters.codex.session import CodexSession

        self._check_permissions(spec.permitted_tools(self._tools))
        again = True
        while True:
            station = await stations.enter_station()
            session = CodexSession(
                station,
                stations,
                spec,
                offered=self._offered,
                copies=copies,
                own=self._tools,
                hooked=not self._login,
                max_turns=self._max_turns,
            )
            try:
                await session.attach_thread(resume)
            except RuntimeFailureError:
                died = not station.server.is_alive
                await session.close()
                if not (again and died):
                    raise
                again = False  # the process is shared: whatever ended it, open the session in a new one
            except BaseException:
                await session.close()
                raise
            else:
                return session

    def _check_permissions(self, permitted: Sequence[str]) -> None:
        """Refuse tools that our gates cannot check."""
        if unknown := [name for name in permitted if name not in OWN_TOOLS]:
            raise RuntimeFailureError(
                f"Codex cannot be permitted {', '.join(unknown)}: of its own tools only {', '.join(OWN_TOOLS)} can be;"
                " everything else comes from the stead"
            )
        if permitted and self._login:
            raise RuntimeFailureError(
                f"Codex cannot be permitted {', '.join(permitted)} with a person's own login: our gates cannot check"
                " it there; use the stead's own tools, or a key"
            )

    async def _load_parts(self) -> tuple[Stations, ToolCopies[mcp_types.Tool]]:
        async with self._importing:
            if self._parts is None:
                self._parts = await asyncio.to_thread(self._load)
            return self._parts

    def _load(self) -> tuple[Stations, ToolCopies[mcp_types.Tool]]:
        """Not on the event loop: the MCP SDK takes most of a second."""
        with import_lock():
            from toolstead.adapters.codex import session as _  # noqa: F401 - paid here
            from toolstead.adapters.codex.station import Stations
            from toolstead.adapters.codex.tool_copies import codex_copies

        return Stations(self._prepare, version=self._version), codex_copies()


def _vendor_of(name: str) -> str:
    """The provider of a name without one; OpenAI if unknown, because Codex may know the model."""
    try:
        return find_model(name)[0].name if name else "openai"
    except RuntimeFailureError:
        return "openai"
