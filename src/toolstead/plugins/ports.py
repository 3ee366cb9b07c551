"""What a plugin can do, each capability a port of its own; `PluginContext` holds them.

The wiring fills them, `toolstead.testing` has doubles, and one contract suite runs on both. A capability that
is missing (a tool file's tool has no store, there is no search provider) raises when it is used.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from toolstead.errors import UnavailableError

if TYPE_CHECKING:
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.types.result import ToolResult
    from toolstead.types.run import Run
    from toolstead.types.thread import Message
    from toolstead.types.vfs import FileVersion, SharedFile

Status = Literal["running", "degraded"]
"""The statuses that a plugin may report."""


class KeyValues(Protocol):
    """The plugin's own key-value space in the database: JSON by name, shared by every process."""

    async def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        ...

    async def set(self, key: str, value: Any) -> None:
        """Keep a JSON value. Raises TypeError for anything else."""
        ...

    async def delete(self, key: str) -> bool:
        """Forget it; False when there was none."""
        ...

    async def keys(self, prefix: str = "") -> list[str]:
        """The keys, sorted."""
        ...


class Agents(Protocol):
    """Invoking agents."""

    async def invoke(
        self,
        prompt: str,
        *,
        thread_id: str | None = None,
        model: str | None = None,
        session_id: str | None = None,
        timeout: float | None = None,
        agent: str | None = None,
        meta: ToolMeta | None = None,
    ) -> Run:
        """Ask an agent, and wait for the end of its run; a failure is in the run's `error`.

        Raises ToolError when nothing was started: there is no such agent, or a limit of the tree of runs is reached.

        A tool passes on the `meta` of the call it is in: the run is then a child of the run that called the tool, and
        is refused (`no_room`) where it would wait while that one waits for it. Without it, never ask for a thread
        whose run is waiting for you: runs of a thread come one after the other.
        """
        ...

    async def prewarm(self, thread_id: str) -> bool:
        """Open a thread's session ahead of its next message."""
        ...


class Threads(Protocol):
    """Conversations."""

    async def history(self, thread_id: str, *, limit: int | None = None) -> list[Message]:
        """Its messages, oldest first; with a limit the newest of them. Nothing for a thread that is not there."""
        ...

    async def send(self, thread_id: str, content: str, *, kind: str = "text", wake: bool = False) -> str:
        """Put a message into a thread, and give its id.

        With `wake` it is a message of the user that the thread's agent answers; else one of the system
        that starts nothing. Raises NotFoundError for a thread that is not there.
        """
        ...

    async def broadcast(
        self, event: str, data: Mapping[str, Any], *, thread_id: str | None = None, meta: ToolMeta | None = None
    ) -> None:
        """Broadcast an event to the event log, its readers, and the other plugins' `on_broadcast`.

        The type is `<plugin>.<word>`. It belongs to a thread, or to the call it comes from. Raises
        ValueError for a type that is not the plugin's.
        """
        ...


class Files(Protocol):
    """The files that the agents of a thread tree share.

    The tree is that of the call whose `meta` is passed on, or that of a thread. Every version is kept, with its author:
    the agent that called, or the plugin where no call is named. What is refused is an `InvalidFileError` with a text
    for the model.
    """

    async def read(
        self, path: str, *, version: int | None = None, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> SharedFile:
        """A file's newest text, or that of a version, which may be a deletion.

        Raises NotFoundError for what is not there, and for a deleted file where no version is named.
        """
        ...

    async def list(
        self, prefix: str = "", *, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> Sequence[FileVersion]:
        """The newest version of each file whose path begins so, sorted by path."""
        ...

    async def log(
        self, path: str, *, limit: int = 100, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> Sequence[FileVersion]:
        """A file's versions, the newest first, deletions included. Raises NotFoundError where there never was one."""
        ...

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_version: int | None = None,
        meta: ToolMeta | None = None,
        thread_id: str = "default",
    ) -> FileVersion:
        """Write the file's next version.

        With `expected_version` only where that is the newest one; 0 is for a file that must not exist. Else
        FileConflictError, whose `diff` shows what changed since.
        """
        ...

    async def edit(
        self, path: str, old: str, new: str, *, meta: ToolMeta | None = None, thread_id: str = "default"
    ) -> FileVersion:
        """Replace a part of the newest text that is there exactly once. Raises NotFoundError."""
        ...

    async def delete(self, path: str, *, meta: ToolMeta | None = None, thread_id: str = "default") -> FileVersion:
        """Delete the file; its history stays. Raises NotFoundError."""
        ...


class Tasks(Protocol):
    """Delegated work: what the tools that delegate are made of.

    A plugin that delegates passes on the `meta` of the call it is in: the task then belongs to the run that called,
    counts in its limits and budgets, and its result is delivered to that run's thread.
    """

    async def start(
        self,
        prompt: str,
        *,
        parent: ToolMeta,
        agent: str | None = None,
        model: str | None = None,
        max_attempts: int = 5,
        context: Mapping[str, Any] | None = None,
    ) -> str:
        """Start a detached task, and give its id; without an agent, the one that calls works on it.

        Raises ToolError when it is refused: the text says which limit, and what would be right.
        """
        ...

    async def delegate(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        meta: ToolMeta,
        mode: Literal["immediate", "detached"] = "immediate",
        queue: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        """Start several tasks, wait for them unless they are detached, and give an entry for each, in order.

        An item has `agent_id` and `prompt`, and may have `context`, `conversation_id` and `model`; or, for an agent
        that the call itself defines, `markdown` in place of `agent_id`. Nothing else is a field of it.

        An entry has `agent_id`, `status` (an outcome, `running` or `refused`), and as far as they are known `run_id`,
        `conversation_id`, `summary`, `duration` in seconds and `error`.
        """
        ...

    async def status(self, task_id: str) -> Mapping[str, Any]:
        """How far it is, what was attempted, and the evidence: which tools were called, what the gates said."""
        ...

    async def cancel(self, task_id: str) -> None:
        """End it, and what it delegated. Raises NotFoundError."""
        ...

    async def list(self, *, meta: ToolMeta) -> Sequence[Mapping[str, Any]]:
        """The tasks that the thread of a call delegated, the newest first, as `delegate` gives them."""
        ...

    async def read(self, task_id: str, *, meta: ToolMeta, offset: int = 0) -> Mapping[str, Any]:
        """A task of the thread of a call, with its result from an offset on. Raises ToolError."""
        ...

    async def cancel_own(self, task_id: str, *, meta: ToolMeta) -> Mapping[str, Any]:
        """End a task of the thread of a call. Raises ToolError."""
        ...

    async def checkin(self, message: str, *, meta: ToolMeta) -> None:
        """Report the task's progress to the parent thread; its model is not asked. Raises ToolError."""
        ...

    async def signal(self, message: str, *, meta: ToolMeta) -> None:
        """Give the parent's agent a message, which it answers. Raises ToolError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a server answered.

    Attributes:
        content: The body, as far as `max_bytes` let it in.
        cut: Whether there was more.
        url: The address that answered, after every redirect.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes = b""
    cut: bool = False
    url: str = ""

    @property
    def text(self) -> str:
        """The body as text; what is no UTF-8 is replaced."""
        return self.content.decode("utf-8", "replace")


class Http(Protocol):
    """The guarded client: http(s) only, no private addresses unless the settings allow the host."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        timeout: float = 10.0,
        max_bytes: int = 1_048_576,
    ) -> HttpAnswer:
        """Send a request. Raises RefusedError for what the guard refuses, ToolError when no answer comes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that a search found."""

    title: str
    url: str
    snippet: str = ""


class Search(Protocol):
    """Searching the web, where a provider is configured."""

    async def __call__(self, query: str, *, max_results: int = 5) -> Sequence[Found]:
        """What was found, best first."""
        ...


class CallPluginTool(Protocol):
    """Calling tools, with everything that goes with a call: validation, gates, limits, the log."""

    async def __call__(
        self, name: str, input: Mapping[str, Any] | None = None, *, meta: ToolMeta | None = None
    ) -> ToolResult:
        """Call a tool; pass on the `meta` of the call you are in, so that it stays in its thread and run.

        Raises UnknownToolError; every other failure is a result.
        """
        ...


class RunBackground(Protocol):
    """Work that outlives a call or a hook, owned by the plugin: it is cancelled before `stop`."""

    def __call__(self, work: Coroutine[Any, Any, Any], *, name: str = "") -> None:
        """Begin it. What it raises is logged, and makes the plugin `degraded`."""
        ...


class ReportStatus(Protocol):
    """Reports the plugin's own status."""

    def __call__(self, status: Status, message: str = "") -> None:
        """`degraded` with a reason, `running` when it has recovered; users see it at once."""
        ...


class _Absent:
    """Placeholder for a missing capability: any use raises UnavailableError."""

    __slots__ = ("_what", "_why")

    def __init__(self, what: str, why: str) -> None:
        self._what = what
        self._why = why

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # copying and inspecting look for these; they mean nothing by it
            raise AttributeError(name)
        raise UnavailableError(f"ctx.{self._what}", self._why)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise UnavailableError(f"ctx.{self._what}", self._why)


def absent_power(what: str, why: str = "only a plugin has it, while its stead is open") -> Any:
    """Make a placeholder for a missing capability: using it raises UnavailableError."""
    return _Absent(what, why)
