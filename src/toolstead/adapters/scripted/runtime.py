"""The scripted runtime: implements the runtime port by playing a script.

Everything a runtime can do to its caller happens here on demand: answers in pieces, tool calls,
silence, failures, lost conversations, ids that change.
"""

from __future__ import annotations

from pathlib import Path

from toolstead.adapters.scripted.conversations import ScriptedConversations
from toolstead.adapters.scripted.script import Script
from toolstead.adapters.scripted.script_file import parse_script
from toolstead.adapters.scripted.script_state import Received, ScriptState
from toolstead.adapters.scripted.session import ScriptedSession
from toolstead.errors import SessionLostError
from toolstead.invoker.runtime import SessionSpec


class ScriptedRuntime:
    """A runtime that plays a script; see `toolstead.adapters.scripted.script` for which turn answers what."""

    def __init__(
        self,
        script: Script | str,
        *,
        resumes: bool = True,
        folder: str | Path | None = None,
        owns_process: bool = False,
    ) -> None:
        """Make a runtime.

        Args:
            script: From `load_script`, or as YAML text.
            resumes: False makes it a runtime that begins every session empty, whatever it is asked.
            folder: Where conversations are kept, so that another process can resume them.
            owns_process: Whether the pool counts its sessions, as if each were a process.

        Raises:
            ScriptError: The text is no script.
        """
        played = parse_script(script) if isinstance(script, str) else script
        self._conversations = ScriptedConversations(Path(folder) if folder is not None else None)
        self._stage = ScriptState(played, self._conversations)
        self._resumes = resumes
        self._owns_process = owns_process

    @property
    def name(self) -> str:
        """`scripted`."""
        return "scripted"

    @property
    def owns_process(self) -> bool:
        """As it was given."""
        return self._owns_process

    def resolve_model(self, model: str) -> str:
        """Any name will do: the script answers."""
        return model

    @property
    def received(self) -> list[Received]:
        """What models were told, oldest first; the last 10,000."""
        return list(self._stage.received)

    @property
    def opened(self) -> int:
        """How many sessions were opened."""
        return self._stage.opened

    @property
    def closed(self) -> int:
        """How many of them are closed."""
        return self._stage.closed

    def conversation(self, session_id: str) -> list[tuple[str, str]]:
        """What is in a conversation, as role and text; empty when it is unknown."""
        found = self._conversations.find_conversation(session_id)
        return list(found.said) if found is not None else []

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> ScriptedSession:
        """Open a session.

        Raises:
            SessionLostError: `resume` is unknown here.
        """
        found = None
        if resume is not None and self._resumes:
            found = self._conversations.find_conversation(resume)
            if found is None:
                raise SessionLostError(f"the scripted runtime has no conversation {resume!r}")
        conversation = self._stage.enter_conversation(thread_id, found)
        return ScriptedSession(self._stage, spec, thread_id, conversation, resumed=found is not None)
