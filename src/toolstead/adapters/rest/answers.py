"""Response bodies that are not plain `toolstead.types`; their schemas are in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from toolstead.plugins.host import PluginView
from toolstead.types.agent import Agent, EffectiveValue, Finding
from toolstead.types.approval import Approval
from toolstead.types.event import Event
from toolstead.types.result import ToolResult
from toolstead.types.run import ListedRun
from toolstead.types.sent import SentStruct
from toolstead.types.step import RunStep
from toolstead.types.thread import ListedThread, Message, Thread
from toolstead.types.tool import Problem, ToolInfo
from toolstead.types.vfs import FileVersion

Count = Annotated[int, msgspec.Meta(ge=0)]


class ToolCounts(SentStruct, frozen=True, kw_only=True):
    """How many there are, by source.

    Attributes:
        total: The sum.
        builtin: From source `builtin`.
        plugin: From source `plugin`.
        agent: From source `agent`.
        mcp: From source `mcp`.
    """

    total: Count
    builtin: Count = 0
    plugin: Count = 0
    agent: Count = 0
    mcp: Count = 0


class ToolList(SentStruct, frozen=True, kw_only=True):
    """Every tool, and what is quarantined.

    Attributes:
        tools: The tools, in a stable order.
        counts: How many there are, by source.
        generation: Counts up with each change of the registry.
        quarantined: What failed to load, and why.
    """

    tools: list[ToolInfo]
    counts: ToolCounts
    generation: Count
    quarantined: tuple[Problem, ...]


class CallResult(SentStruct, frozen=True, kw_only=True):
    """The result of a tool, or its error.

    Attributes:
        duration_ms: How long it took, in milliseconds.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"result"})

    result: ToolResult
    duration_ms: Annotated[float, msgspec.Meta(ge=0)]


class ThreadAnswer(SentStruct, frozen=True, kw_only=True):
    """A conversation, with one page of its messages.

    Attributes:
        messages: The messages of the page, oldest first.
        next: The value of `after` for the next page; absent on the last one, and where `before` was given.
        before: The value of `before` for the page before this one, where `before` was given; absent on the first one.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"thread"})
    optional: ClassVar[frozenset[str]] = frozenset({"next", "before"})

    thread: Thread
    messages: list[Message]
    next: str | None = None
    before: str | None = None


class ThreadList(SentStruct, frozen=True, kw_only=True):
    """Threads.

    Attributes:
        threads: The last used first.
    """

    threads: list[ListedThread]


class MessageAccepted(SentStruct, frozen=True, kw_only=True):
    """The message is stored.

    Attributes:
        message_id: Its id.
        run_id: The run that answers it.
    """

    message_id: str
    run_id: str


class RunAccepted(SentStruct, frozen=True, kw_only=True):
    """The run is queued.

    Attributes:
        run_id: Its id.
        thread_id: Its thread.
    """

    run_id: str
    thread_id: str


class RunList(SentStruct, frozen=True, kw_only=True):
    """Runs, each with the beginnings of its prompt and its result.

    Attributes:
        runs: The newest first; of a tree, the oldest first.
        next: The value of `before` for the next page; absent on the last one.
        cut: True where the tree has more runs than are given.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"next", "cut"})

    runs: list[ListedRun]
    next: str | None = None
    cut: bool = False


class EventLogPage(SentStruct, frozen=True, kw_only=True):
    """A page of the event log.

    Attributes:
        events: Oldest first. They may be fewer than `limit`, or none, while `before` or `after` goes on.
        before: The value of `before` for the page before this one; absent on the first one.
        after: The id after which newer events come: for the next page, or for a stream that goes on from here. Absent
            where `before` was given.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"before", "after"})

    events: list[Event]
    before: str | None = None
    after: str | None = None


class StepList(SentStruct, frozen=True, kw_only=True):
    """What a run sent to its model, and what came back.

    Attributes:
        steps: In order, each with its whole request.
        next: The value of `after` for the next page; null on the last one.
    """

    steps: list[RunStep]
    next: Count | None


class Prewarmed(SentStruct, frozen=True, kw_only=True):
    """Whether the thread's next message finds an open session.

    Attributes:
        warm: Whether a session is open.
        runtime: The runtime it is a session of.
    """

    warm: bool
    runtime: str


class ReadableCall(SentStruct, frozen=True, kw_only=True):
    """Display form for the person who decides.

    Attributes:
        input: The arguments as JSON text, with every invisible character escaped.
        reason: The reason, likewise.
    """

    input: str
    reason: str


class ApprovalAnswer(SentStruct, frozen=True, kw_only=True):
    """A tool call that waits for a person's decision, or has one.

    Attributes:
        shown: Display form for the person who decides.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"approval"})

    approval: Approval
    shown: ReadableCall


class ApprovalList(SentStruct, frozen=True, kw_only=True):
    """The pending approvals.

    Attributes:
        approvals: The oldest first.
    """

    approvals: list[ApprovalAnswer]


class AgentList(SentStruct, frozen=True, kw_only=True):
    """Every agent.

    Attributes:
        agents: By name.
        findings: What the checks found in their files.
    """

    agents: list[Agent]
    findings: list[Finding]


class AgentDetails(SentStruct, frozen=True, kw_only=True):
    """An agent with all that is known of it.

    Attributes:
        instructions: The body of its file; empty for the built-in instructions.
        prompts: The templates of its custom tools, by their names.
        delegates: The agents that it may delegate to.
        effective: Every value that it runs with, and where that comes from.
        findings: What the checks found in its file.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"agent"})

    agent: Agent
    instructions: str
    prompts: dict[str, str]
    delegates: list[str]
    effective: list[EffectiveValue]
    findings: list[Finding]


class AgentTool(SentStruct, frozen=True, kw_only=True):
    """Whether an agent sees a tool.

    Attributes:
        name: The tool's name.
        visible: Whether it does, when it is the root of a tree.
        reason: Why it does not, in a sentence; absent where it does.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"reason"})

    name: str
    visible: bool
    reason: str = ""


class AgentToolList(SentStruct, frozen=True, kw_only=True):
    """Every tool that there is, from the view of an agent.

    Attributes:
        tools: Those of the server, in its order; then the agent's own, those of other agents, and the quarantined.
    """

    tools: list[AgentTool]


class PluginList(SentStruct, frozen=True, kw_only=True):
    """Every plugin.

    Attributes:
        plugins: In the order they were registered.
    """

    plugins: list[PluginView]


class FileList(SentStruct, frozen=True, kw_only=True):
    """The shared files of a thread tree.

    Attributes:
        files: The newest version of each, sorted by path.
    """

    files: list[FileVersion]


class FileHistory(SentStruct, frozen=True, kw_only=True):
    """Versions of a shared file.

    Attributes:
        versions: The newest first.
        next: The value of `before` for the next page; absent on the last one.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"next"})

    versions: list[FileVersion]
    next: Count | None = None


class SessionCounts(SentStruct, frozen=True, kw_only=True):
    """The warm connections to runtimes, counted since the server started.

    Attributes:
        idle: Sessions that wait for a message.
        live: All open sessions.
        hits: Messages whose session was open.
        misses: Messages whose session had to be opened.
        rebuilt: Messages whose session was open with other settings.
        evicted: Sessions that were closed: too old, too many, or broken.
    """

    idle: Count
    live: Count
    hits: Count
    misses: Count
    rebuilt: Count
    evicted: Count


class AccessAnswer(SentStruct, frozen=True, kw_only=True):
    """What a client may do.

    Attributes:
        private: Whether it has the rights of the private token.
        login: How a person gets them, in one sentence.
    """

    private: bool
    login: str


class HealthAnswer(SentStruct, frozen=True, kw_only=True):
    """The server is up.

    Attributes:
        status: Always `ok`.
        version: Toolstead's version.
        generation: The registry's generation.
        runtime: The default runtime; null when none is available.
        runtime_reason: Why it was chosen, empty when the settings name it; or what is missing.
        agent: The agent that answers where none is named; empty where none can.
        model: The model that it asks; empty where the runtime has its own choice, or none is available.
        sessions: The warm connections to runtimes, counted since the server started.
    """

    status: Literal["ok"]
    version: str
    generation: Count
    runtime: str | None
    runtime_reason: str
    agent: str
    model: str
    sessions: SessionCounts


class ProblemDocument(SentStruct, frozen=True, kw_only=True):
    """A problem document (RFC 9457).

    Attributes:
        type: Which kind of error: its place in this documentation.
        title: The kind, in a few words.
        status: The HTTP status.
        detail: What was wrong with this request, and what would be right.
        instance: The path of the request.
        nearest: Names of tools like the requested one.
        max_body: Bytes a body may have.
        id: The id of the entry in the server's log.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"instance", "nearest", "max_body", "id"})

    type: str
    title: str
    status: Count
    detail: str
    instance: str = ""
    nearest: tuple[str, ...] = ()
    max_body: Count = 0
    id: str = ""
