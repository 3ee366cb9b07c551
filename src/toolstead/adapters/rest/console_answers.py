"""What the routes for a server's owner answer: settings, sessions, trust and tool files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from toolstead.adapters.rest.answers import SessionCounts
from toolstead.types.sent import SentStruct
from toolstead.types.session import SessionInfo
from toolstead.types.tool import ClientWarning, Problem

SettingOrigin = Literal["default", "user", "project", "environment", "command line", "python"]


class OverriddenValue(SentStruct, frozen=True, kw_only=True):
    """A value of a setting that another one took the place of.

    Attributes:
        origin: Which layer set it.
        place: The file with the line, or the variable.
        value: The value; a secret is masked.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"place"})

    origin: SettingOrigin
    place: str = ""
    value: Any


class EffectiveSetting(SentStruct, frozen=True, kw_only=True):
    """A setting, as it is in effect.

    Attributes:
        key: The dotted key, as TOML writes it.
        value: The value in effect; a secret is masked.
        default: The value without any settings; null where it has none.
        origin: The layer that set it; for a list that grows with every layer, the highest one.
        place: The file with the line, or the variable; several are joined by ` + `.
        overrode: The values it took the place of, nearest layer first.
        in_effect: Whether anything in this version reads it.
        masked: Whether the value shown is not the real one.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"place"})

    key: str
    value: Any
    default: Any
    origin: SettingOrigin
    place: str = ""
    overrode: tuple[OverriddenValue, ...]
    in_effect: bool
    masked: bool


class SettingProblem(SentStruct, frozen=True, kw_only=True):
    """Why what is in effect is not what the settings say now.

    Attributes:
        message: What is wrong, and what would be right.
        key: The setting; absent where a whole file is meant.
        place: Where it is set.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"key", "place"})

    message: str
    key: str = ""
    place: str = ""


class SettingList(SentStruct, frozen=True, kw_only=True):
    """The settings of a server.

    Attributes:
        settings: In the order of the documentation.
        problems: What the settings say now and the server does not do, because it is wrong or needs a restart.
    """

    settings: list[EffectiveSetting]
    problems: list[SettingProblem]


class SessionList(SentStruct, frozen=True, kw_only=True):
    """The open sessions.

    Attributes:
        sessions: Those that are open or being opened, the oldest place first.
        counts: How many there are and were, as in health.
    """

    sessions: list[SessionInfo]
    counts: SessionCounts


class TrustFile(SentStruct, frozen=True, kw_only=True):
    """A file that the project brings.

    Attributes:
        path: Its path in the project.
        size: How many bytes it has.
    """

    path: str
    size: Annotated[int, msgspec.Meta(ge=0)]


TrustState = Literal["nothing", "waiting", "trusted", "changed", "refused"]


class TrustReview(SentStruct, frozen=True, kw_only=True):
    """What the project brings, and whether it is approved.

    Attributes:
        project: The project's root.
        state: `nothing`: it brings nothing; `waiting`: nothing of it is approved; `trusted`: what it brings is
            approved; `changed`: it is not what was approved, which stays in use; `refused`: it cannot be approved.
        files: What it brings.
        shown: Lines to read before approving: what would run, or the difference to what is approved.
        refused: Why it cannot be approved.
        digest: Names exactly these bytes, names and modes; an approval has to send it back. Empty where there is
            nothing that could be approved.
    """

    project: str
    state: TrustState
    files: tuple[TrustFile, ...] = ()
    shown: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    digest: str = ""


class ToolFileSummary(SentStruct, frozen=True, kw_only=True):
    """One of the user's tool files, as it counts now.

    Attributes:
        name: The file's name without `.json`.
        path: The file.
        tools: The tools that it holds; of one that became bad, its last good ones.
        problems: What is wrong with it.
    """

    name: str
    path: str
    tools: tuple[str, ...]
    problems: tuple[Problem, ...]


class ToolFileList(SentStruct, frozen=True, kw_only=True):
    """The user's tool files.

    Attributes:
        files: By name.
    """

    files: list[ToolFileSummary]


class ToolFileText(SentStruct, frozen=True, kw_only=True):
    """A tool file as it is now.

    Attributes:
        name: The file's name without `.json`.
        path: The file.
        text: Its text.
        digest: Names exactly this text; a change that sends it back replaces no other.
    """

    name: str
    path: str
    text: str
    digest: str


class ToolFileWritten(SentStruct, frozen=True, kw_only=True):
    """A tool file that was written.

    Attributes:
        name: The file's name without `.json`.
        path: The file.
        digest: Names the text that it has now.
        tools: Its tools.
        hidden: Those of them that cannot be called here, with the reason.
        warnings: What known clients cannot take of them.
    """

    name: str
    path: str
    digest: str
    tools: tuple[str, ...]
    hidden: Mapping[str, str]
    warnings: tuple[ClientWarning, ...]


class CheckedTool(SentStruct, frozen=True, kw_only=True):
    """A good tool of a text that was checked.

    Attributes:
        name: Its name.
        description: What it says of itself to models.
        input_schema: The schema of its arguments.
        kind: The kind of its handler.
        advice: What to look at in it.
        preview: What a call would run, send or read: `argv`, `command`, `cwd` and `stdin` of a shell handler;
            `method`, `url`, `headers` and `body` of an http handler, secrets masked; `path` of a file-read handler.
        preview_error: Why a call with this input would be refused before anything is run.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"preview", "preview_error"})

    name: str
    description: str
    input_schema: Annotated[Any, msgspec.Meta(extra_json_schema={"type": "object"})]
    kind: Literal["shell", "http", "file-read"]
    advice: tuple[str, ...]
    preview: Mapping[str, Any] | None = None
    preview_error: str = ""


class ToolFileCheck(SentStruct, frozen=True, kw_only=True):
    """The verdict on the text of a tool file; nothing was written or run.

    Attributes:
        problems: Why it would not be written as it is.
        warnings: What known clients cannot take of its good tools.
        tools: Its good tools.
    """

    problems: tuple[Problem, ...]
    warnings: tuple[ClientWarning, ...]
    tools: tuple[CheckedTool, ...]


RefusalReason = Literal["name", "unknown", "conflict", "content"]


class ToolFileRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a tool file was not read, written or deleted; nothing changed.

    Attributes:
        reason: `name`: no such name is possible; `unknown`: there is no such file; `conflict`: it is not as it was
            read; `content`: its text is refused, or cannot be read.
        message: What is wrong, and what would be right.
        problems: What is wrong in the text.
        digest: Of a conflict: what the file is now; empty where it is gone.
    """

    reason: RefusalReason
    message: str
    problems: tuple[Problem, ...] = ()
    digest: str = ""


class TrustRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a project was not approved; nothing changed.

    Attributes:
        message: What is wrong, and what would be right.
        review: What the project brings now.
        is_changed: Whether it is not what was shown.
    """

    message: str
    review: TrustReview
    is_changed: bool
