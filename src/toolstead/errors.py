"""Every error raised on purpose, drawn as a tree. Nothing is below this module.

```
ToolsteadError
├── DefinitionError        a tool that cannot be registered: where, which field, why
│   ├── SchemaError        its schema is no schema, is too large, or refers outside
│   └── DuplicateToolError its name already has a holder
├── PluginError            a plugin that cannot be loaded, registered or started: which, which field, why
├── PythonFileError        a Python file whose tools cannot be served: where, why
├── UnavailableError       a capability that the plugin asked for is missing
├── Rejected               a reviewer rejects a finished task, with feedback for the next attempt
├── SettingsError          a setting that is unknown or has a bad value: where, why
├── ClientConfigError      an MCP client's configuration cannot be read or changed
├── ProofError             what a client was to start or to reach does not answer with tools
├── StateError             the switches' file cannot be read or written
├── TrustError             what a project brings cannot be read, approved or kept
│   └── UnreadableTrustError it cannot be read at the moment; what was read before still counts
├── StorageError           the database cannot be opened, read or written
│   └── RowRefusedError    it works, and does not take what was to be written: trying again changes nothing
├── NotFoundError          no such thread, run, task, result, resource, approval or shared file
├── ThreadChoiceError      no thread, or more than one, is what a person named
├── StaleClaimError        a write to a task by a process that does not hold it any more
├── ApprovalDecidedError   a decision that comes too late: there is one already
├── InvalidApprovalError   a decision that cannot be taken: what is wrong with it
├── UnknownToolError       no such tool here, or it is blocked
├── InvalidRequestError    a client asks for a prompt, a resource or a completion as it cannot be: what is wrong
├── FailedRequestError     a prompt, a resource or a completion failed, or took too long
├── UnknownProfileError    the settings have no such profile
├── ToolError              foreseen: the text goes to the model
│   ├── RefusedError       the request is not allowed (a path, a gate's denial)
│   │   ├── InvalidFileError  a shared file that cannot be written or read so: its path, its text, a limit
│   │   ├── FileConflictError a write to a shared file that would lose a newer version
│   │   └── InvalidAgentError an agent given as markdown in a call that is none, or would have too much power
│   └── NoClientError      the caller cannot be asked, logged to or shown progress
├── InvocationError        an agent could not be invoked
│   ├── SessionLostError   the runtime does not have the conversation any more
│   ├── RuntimeFailureError the model or its runtime failed
│   │   ├── MissingModelError no model is named, and no key is set that would choose one
│   │   ├── ModelError     a model API refused or broke off: which fault, and whether to try again
│   │   └── LimitError     an agent reached one of its limits: turns, tokens, money, mistakes, children
│   ├── UnknownAgentError  no such agent here
│   ├── TimedOutError      the invocation took longer than it may, and was ended
│   └── NoRoomError        every session is in use, and this caller may not wait
├── ScriptError            a script that the scripted runtime cannot play: where, why
└── ServeError             a server cannot start (bind without token), or cannot be asked
    ├── PortTakenError     its port is taken: by whom
    └── RefusedRequestError a running server refused what a command asked of it
```

A handler raises `ToolError` to report to the model what went wrong. Any other exception out of a
handler is a crash: its text is withheld from the model, and the log has the traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from toolstead.nearest_names import suggest


class ToolsteadError(Exception):
    """The base of every error raised on purpose."""


class DefinitionError(ToolsteadError):
    """A tool that cannot be registered.

    Attributes:
        tool: The tool's name, as far as it has one.
        field: The field that is wrong.
        reason: What is wrong with it, and what would be right.
    """

    def __init__(self, *, tool: str, field: str, reason: str) -> None:
        self.tool, self.field, self.reason = tool, field, reason
        super().__init__(f"tool {tool!r}: {field}: {reason}")


class SchemaError(DefinitionError):
    """A schema that is no schema, is too large or too deep, or refers outside itself.

    Attributes:
        path: Where in the schema, if known.
    """

    def __init__(self, *, tool: str, field: str, reason: str, path: tuple[str | int, ...] = ()) -> None:
        self.path = path
        super().__init__(tool=tool, field=field, reason=reason)


class DuplicateToolError(DefinitionError):
    """A tool whose name already has a holder; the holder keeps it."""

    def __init__(self, *, tool: str, holder: str) -> None:
        self.holder = holder
        reason = f"the name is already held by {holder}; choose another, or remove that one first"
        super().__init__(tool=tool, field="name", reason=reason)


class PluginError(ToolsteadError):
    """A plugin that cannot be loaded, registered or started.

    Attributes:
        plugin: Its name, as far as it has one.
        field: What of it is wrong: `name`, `tools`, `register`, `start`, `settings`, …
        reason: What is wrong with it, and what would be right.
    """

    def __init__(self, *, plugin: str, field: str, reason: str) -> None:
        self.plugin, self.field, self.reason = plugin, field, reason
        super().__init__(f"plugin {plugin!r}: {field}: {reason}")


class PythonFileError(ToolsteadError):
    """A Python file whose tools cannot be served; the text says where in it, and why."""


class UnavailableError(ToolsteadError):
    """A capability that the plugin asked for is missing.

    Attributes:
        what: The capability, such as `ctx.search`.
        why: Why it is missing, and how to get it.
    """

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what} is not available: {why}")


class Rejected(ToolsteadError):  # noqa: N818 - part of the plugin contract under this name
    """A reviewer rejects a finished task: `raise Rejected("the tests do not pass")`.

    Attributes:
        feedback: For the next attempt.
    """

    def __init__(self, feedback: str) -> None:
        self.feedback = feedback
        super().__init__(feedback)


class SettingsError(ToolsteadError):
    """A setting that is unknown or has a bad value.

    Attributes:
        key: The dotted key, such as `tools.timeout`, or empty when a whole file is unreadable.
        origin: Where it was set: a file with its line, an environment variable, `--set`.
        reason: What is wrong with it, and what would be right.
    """

    def __init__(self, *, key: str, origin: str, reason: str) -> None:
        self.key, self.origin, self.reason = key, origin, reason
        super().__init__(f"{origin}: {f'{key}: ' if key else ''}{reason}")


class ClientConfigError(ToolsteadError):
    """The configuration of an MCP client cannot be read or changed; it is as it was."""


class ProofError(ToolsteadError):
    """What a client was to start, or to reach, does not answer with tools: says why, and what to do."""


class StateError(ToolsteadError):
    """The file with the switches cannot be read or written."""


class TrustError(ToolsteadError):
    """What a project brings cannot be read whole, approved or kept."""


class UnreadableTrustError(TrustError):
    """A file that is there cannot be read at the moment, as when too many are open; what was read before counts."""


class StorageError(ToolsteadError):
    """The database cannot be opened, read or written; nothing that was acknowledged is lost."""

    is_away = False
    """Whether it cannot be reached at all. An open store logs once that it is away, and once that it is back."""
    is_lasting = False
    """Whether no later try can succeed before a person changes something."""

    @property
    def log_level(self) -> int:
        """For what is tried again: DEBUG while the database is away."""
        return logging.DEBUG if self.is_away else logging.WARNING


class RowRefusedError(StorageError):
    """The database does not take what was to be written; trying again changes nothing."""


class NotFoundError(ToolsteadError):
    """No such thread, run, task, result, approval or shared file.

    Attributes:
        kind: What was looked for: `thread`, `run`, `task`, `result`, `approval`, `file`.
        id: Its id.
    """

    def __init__(self, kind: str, id: str) -> None:
        self.kind = kind
        self.id = id
        super().__init__(f"no {kind} {id!r}")


class ThreadChoiceError(ToolsteadError):
    """No thread, or more than one, is what a person named."""


class StaleClaimError(ToolsteadError):
    """A write to a task by a process that does not hold it any more, or that comes after the task's end.

    Attributes:
        task_id: The task.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"task {task_id!r} has ended, or another process works on it now")


class ApprovalDecidedError(ToolsteadError):
    """A decision that comes too late; the one that is there stays.

    Attributes:
        id: The approval's id.
        decision: How it was decided: `allow` or `deny`.
        reason: The reason given for it; may be empty.
    """

    def __init__(self, *, id: str, decision: str, reason: str) -> None:
        self.id = id
        self.decision = decision
        self.reason = reason
        super().__init__(f"approval {id!r} is decided already: {decision}{f' ({reason})' if reason else ''}")


class InvalidApprovalError(ToolsteadError):
    """A decision that cannot be taken.

    Attributes:
        field: What is wrong: `decision`, `input` or `reason`.
        problems: What is wrong with it, and what would be right.
    """

    def __init__(self, field: str, *problems: str) -> None:
        self.field = field
        self.problems = problems
        super().__init__("; ".join(f"{field}: {problem}" for problem in problems))


class InvocationError(ToolsteadError):
    """An agent could not be invoked."""


class SessionLostError(InvocationError):
    """The runtime does not have the conversation any more; a new session may do."""


class RuntimeFailureError(InvocationError):
    """The model or its runtime failed; the text says why, and what to do about it."""


class MissingModelError(RuntimeFailureError):
    """No model is named, and no key is set that would choose one."""


ModelFault = Literal[
    "busy", "rate", "server", "network", "unreachable", "overflow", "schema", "rejected", "key", "name", "quota"
]
"""Why a model API gave no answer.

`busy`, `rate`, `server`, `network` and `unreachable` (nothing listens on this machine) pass: another try may succeed.
`overflow`: the conversation is too long for the model. `schema`: one tool's schema is refused. `key`, `name`, `quota`:
the API key, the model's name, the account.
`rejected`: anything else that the same request would meet again.
"""


class ModelError(RuntimeFailureError):
    """A model API refused a request, or broke off in the middle of its answer.

    Attributes:
        fault: What kind of failure it is.
        retry_after: Seconds that the API asks to wait, where it does.
        tool: The tool whose schema it refuses, for `schema`.
    """

    def __init__(
        self, message: str, *, fault: ModelFault, retry_after: float | None = None, tool: str | None = None
    ) -> None:
        self.fault: ModelFault = fault
        self.retry_after = retry_after
        self.tool = tool
        super().__init__(message)


class LimitError(RuntimeFailureError):
    """An agent was stopped at one of its limits; the text says which, and how to raise it.

    Attributes:
        limit: `turns`, `tokens`, `cost`, `mistakes`, or for a child that may not be started: `depth`, `fanout`,
            `descendants`.
    """

    def __init__(self, message: str, *, limit: str) -> None:
        self.limit = limit
        super().__init__(message)


class UnknownAgentError(InvocationError):
    """No agent of this name is defined here.

    Attributes:
        name: The name that was asked for.
        known: The agents that are there.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known = tuple(known)
        shown = ", ".join(self.known[:20]) + (", …" if len(self.known) > 20 else "")
        hint = suggest(name, self.known)
        there = f"{f'{hint} T' if hint else 't'}he agents are {shown}"
        none = "none can be used here: multi_agent.agents names none, or no file defines one"
        super().__init__(f"there is no agent {name[:200]!r}; {there if known else none}")


class TimedOutError(InvocationError):
    """The invocation took longer than it may, and was ended.

    Attributes:
        seconds: How long it was allowed to take.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"not finished after {seconds:g} seconds, so it was ended")


class NoRoomError(InvocationError):
    """Every session is in use, and this caller may not wait for one: its parent holds one."""


class ScriptError(ToolsteadError):
    """A script that the scripted runtime cannot play.

    Attributes:
        problems: Each as `file:line:column: field: what is wrong, and what would be right`.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class UnknownToolError(ToolsteadError):
    """No tool of this name can be called here: it does not exist, or it is blocked.

    Attributes:
        name: The name that was asked for.
        nearest: Names that look like it, best first.
    """

    def __init__(self, name: str, nearest: tuple[str, ...] = (), *, reason: str = "", note: str = "") -> None:
        """Say that the name is unknown, and a note; or, to a caller who may know it, why it cannot be called."""
        self.name = name
        self.nearest = nearest
        hint = f"; did you mean {' or '.join(repr(n) for n in nearest)}?" if nearest else ""
        super().__init__(reason or f"unknown tool {name[:200]!r}{hint}{note}")


class InvalidRequestError(ToolsteadError):
    """A client asks for a prompt, a resource or a completion as it cannot be: says what is wrong, and what is right."""


class FailedRequestError(ToolsteadError):
    """A prompt, a resource or a completion failed, or took too long; the client cannot change that."""


class UnknownProfileError(ToolsteadError):
    """The settings have no profile of this name.

    Attributes:
        name: The name that was asked for.
        known: The profiles that are there.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known = tuple(known)
        hint = suggest(name, self.known, otherwise=f"there are: {', '.join(self.known[:20])}")
        there = hint if known else "a table [profiles.NAME] makes one"
        super().__init__(f"the settings have no profile {name[:200]!r}; {there}")


class ToolError(ToolsteadError):
    """A foreseen failure of a tool. Its text goes to the model, so say what would be right."""


class RefusedError(ToolError):
    """The request is not allowed: a path outside the project, a gate's denial."""


class InvalidFileError(RefusedError):
    """A shared file that cannot be written or read so.

    Attributes:
        field: What is wrong: `path`, `content`, `old`, `version`, or the limit that is reached.
        reason: What is wrong with it, and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


class FileConflictError(RefusedError):
    """A write to a shared file that would lose a newer version; nothing was written.

    Attributes:
        path: The file's path.
        expected: The version that the writer knew; 0 for a file that should not exist.
        version: The newest version; 0 where there never was one.
        author: Who wrote that; empty where there is none.
        deleted: Whether the newest version is the file's deletion.
        texts: The text of the expected version, None where there is none, and the newest text.
        diff: The lines that differ between the two, bounded; empty until it was made.
    """

    def __init__(
        self,
        *,
        path: str,
        expected: int,
        version: int,
        author: str,
        deleted: bool,
        texts: tuple[str | None, str],
        diff: str = "",
    ) -> None:
        self.path, self.expected, self.version = path, expected, version
        self.author, self.deleted = author, deleted
        self.texts, self.diff = texts, diff
        newest = f"its newest version is {version}, {'deleted' if deleted else 'written'} by {author}"
        found = newest if version else "there never was such a file; expectedVersion 0 creates it"
        knew = f"version {expected} was expected" if expected else "it was expected not to exist"
        super().__init__(f"{path!r} was not written: {knew}, but {found}")


class InvalidAgentError(RefusedError):
    """An agent that a call gives as markdown, and that cannot be started.

    Attributes:
        problems: Each as `line 3, column 1: what is wrong, and what would be right`.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(self.problems)
        super().__init__(f"the agent was not started; correct its markdown and call again:\n{listed}")


class NoClientError(ToolError):
    """The caller cannot be asked, logged to or shown progress."""


class ServeError(ToolsteadError):
    """A server cannot start (the port is taken, the bind needs a token), or a command cannot ask one."""


class RefusedRequestError(ServeError):
    """A running server refused what a command asked of it.

    Attributes:
        status: The status of its answer.
        problem: Its problem document; empty where the answer was none.
    """

    def __init__(self, message: str, *, status: int, problem: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.status = status
        self.problem = problem
        super().__init__(message)


class PortTakenError(ServeError):
    """The port of a server is taken; `taken` says which and by whom, `free` how a free one is asked for."""

    def __init__(self, taken: str, *, free: str = "port=0") -> None:
        self.taken = taken
        super().__init__(f"{taken}; choose another, or {free} for any free one")
