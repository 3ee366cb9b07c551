"""The conversations of a scripted runtime: in memory, and in a folder when another process is to resume them."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(slots=True, kw_only=True)
class ScriptedConversation:
    """What a scripted model has been told and has answered.

    Attributes:
        id: With which it can be resumed.
        thread_id: Where it takes place.
        played: How many turns without `when` its thread has used up.
        said: Role and text, in order.
    """

    id: str
    thread_id: str
    played: int = 0
    said: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class ScriptedConversations:
    """Conversations by id."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, ScriptedConversation] = {}

    def begin_conversation(self, thread_id: str, played: int) -> ScriptedConversation:
        """A new one."""
        conversation = ScriptedConversation(id=secrets.token_hex(8), thread_id=thread_id, played=played)
        self._known[conversation.id] = conversation
        return conversation

    def find_conversation(self, id: str) -> ScriptedConversation | None:
        """The one with this id, from the folder too; None when there is none."""
        if self._folder is not None and _ID.fullmatch(id):
            kept = _read(self._folder / f"{id}.json")  # another process may have gone on with it
            if kept is not None:
                self._known[id] = kept
        return self._known.get(id)

    def keep_conversation(self, conversation: ScriptedConversation) -> None:
        """Write it down, where there is a folder."""
        if self._folder is not None:
            _write(self._folder / f"{conversation.id}.json", conversation)

    def rotate_id(self, conversation: ScriptedConversation) -> None:
        """Give it another id; the old one leads nowhere any more."""
        self.forget_conversation(conversation.id)
        conversation.id = secrets.token_hex(8)
        self._known[conversation.id] = conversation

    def forget_conversation(self, id: str) -> None:
        """Lose it."""
        self._known.pop(id, None)
        if self._folder is not None:
            (self._folder / f"{id}.json").unlink(missing_ok=True)


def _read(path: Path) -> ScriptedConversation | None:
    try:
        kept: Any = json.loads(path.read_bytes())
        said = [(str(role), str(text)) for role, text in kept["said"]]
        return ScriptedConversation(
            id=path.stem, thread_id=str(kept["threadId"]), played=int(kept["played"]), said=said
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None  # gone, or no conversation of ours: it is lost, and the caller says so


def _write(path: Path, conversation: ScriptedConversation) -> None:
    """Write a file whole: who reads it sees the old content or the new."""
    kept = {"threadId": conversation.thread_id, "played": conversation.played, "said": conversation.said}
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{secrets.token_hex(4)}.tmp")
    aside.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    aside.replace(path)
