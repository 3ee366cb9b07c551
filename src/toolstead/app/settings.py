"""The settings as a model: every key with its type, its default and what it may be.

A key that is documented is known here, also when the feature behind it is still to come;
`IN_EFFECT` says which keys this version reads. The structs are msgspec's and not pydantic's:
a stdio server has about 60 ms from start to first answer, and pydantic alone costs more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct, structs

from toolstead.app.masks import MASK

Flag = Annotated[bool, Meta(description="true or false")]
Words = Annotated[str, Meta(description="text")]
WordList = Annotated[tuple[str, ...], Meta(description="a list of texts")]
Seconds = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
Count = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
Several = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
Size = Annotated[int, Meta(ge=1024, description="a whole number of bytes, 1024 or more")]
Port = Annotated[int, Meta(ge=0, le=65535, description="a whole number from 0 (any free port) to 65535")]
Money = Annotated[float, Meta(ge=0, description="an amount in USD, 0 or more")]
Host = Annotated[str, Meta(pattern=r"^[^\s/]+\Z", description="a host name or address")]
Hosts = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[^\s/]+\Z")], ...],
    Meta(description='a list of hosts, such as ["example.org", "10.0.0.7:8080"]'),
]
Origins = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[a-z][a-z0-9+.-]*://[^\s/]+\Z")], ...],
    Meta(description='a list of origins, such as ["https://example.org"] (scheme and host, no path)'),
]
Patterns = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9_*?\[\]!-]+\Z")], ...],
    Meta(description='a list of tool names or patterns, such as ["git-*"] (letters, digits, _ - and * ? [ ])'),
]
Prose = Annotated[str, Meta(max_length=8_000, description="text of at most 8,000 characters")]
Title = Annotated[str, Meta(max_length=200, description="text of at most 200 characters")]
FilePatterns = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^(?!/)(?!([^\n]*/)?\.\.(/|\Z))[^\x00\n]+\Z")], ...],
    Meta(description='a list of paths or patterns inside the project, such as ["README.md", "docs/*.md"]'),
]
Token = Annotated[
    str, Meta(pattern=r"^[\x21-\x7e]*\Z", description='ASCII text without blanks, "auto", or "" for none')
]
RuntimeName = Annotated[
    Literal["auto", "kernel", "claude", "codex", "scripted"],
    Meta(description="one of auto, kernel, claude, codex, scripted"),
]
Scope = Annotated[
    str,
    Meta(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]*\Z", description='one OAuth scope, such as "tools:read", or "" for none'),
]
ProfileToken = Annotated[
    str, Meta(pattern=r"^(?!auto\Z)[\x21-\x7e]*\Z", description='ASCII text without blanks, not "auto", or "" for none')
]
SecureUrl = Annotated[
    str,
    Meta(
        pattern=r"^(https://[^\s/?#@]+|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?)(/[^\s?#]*)?\Z|^\Z",
        description='an https URL (http only for loopback) without a query, such as "https://id.example.org", or ""',
    ),
]
PublicUrl = Annotated[
    str,
    Meta(
        pattern=r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?\Z|^\Z",
        description='scheme and host as clients type them, without a path, such as "https://stead.example.org", or ""',
    ),
]
ClientApprovals = Annotated[Literal["page", "form", "none"], Meta(description="one of page, form, none")]
OpenTable = Mapping[str, Mapping[str, Any]]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of settings with a fixed list of keys."""


class ProgramSettings(Section, frozen=True, kw_only=True):
    """`[runtime.claude]` and `[runtime.codex]`."""

    tools: WordList = ()
    login: Flag = False
    max_turns: Several = 100


class KernelSettings(Section, frozen=True, kw_only=True):
    """`[runtime.kernel]`."""

    max_turns: Several = 100


class ScriptedSettings(Section, frozen=True, kw_only=True):
    """`[runtime.scripted]`."""

    script: Words = ""
    folder: Words = ""


class RuntimeSettings(Section, frozen=True, kw_only=True):
    """`[runtime]`: what drives the model."""

    default: RuntimeName = "auto"
    agent: Words = "main"
    model: Words = ""
    claude: ProgramSettings = ProgramSettings()
    codex: ProgramSettings = ProgramSettings()
    kernel: KernelSettings = KernelSettings()
    scripted: ScriptedSettings = ScriptedSettings()


class ToolsSettings(Section, frozen=True, kw_only=True):
    """`[tools]`: which tools there are, and the limits of a call."""

    include_plan_tool: Flag = True
    allowed: Patterns = ("*",)
    blocked: Patterns = ()
    allowed_hosts: Hosts = ()
    timeout: Seconds = 60
    max_output: Size = 262_144
    proxy: Words = ""


class MultiAgentSettings(Section, frozen=True, kw_only=True):
    """`[multi_agent]`: whom work may be handed to."""

    agents: WordList = ()
    max_concurrent_delegates: Several = 5


class LimitSettings(Section, frozen=True, kw_only=True):
    """`[limits]`: how far a tree of runs may grow."""

    max_depth: Count = 5
    max_fanout: Count = 8
    max_descendants: Count = 64
    run_timeout: Seconds = 1800
    token_budget: Count = 500_000
    cost_budget: Money = 5.0


class SessionSettings(Section, frozen=True, kw_only=True):
    """`[sessions]`: how many runtime connections are kept, and how long."""

    ttl: Seconds = 480
    max: Count = 8
    max_live: Several = 32


class StorageSettings(Section, frozen=True, kw_only=True):
    """`[storage]`: how long events and whole results are kept."""

    retention_days: Count = 90


class OAuthSettings(Section, frozen=True, kw_only=True):
    """`[server.oauth]`: whose access tokens are accepted over HTTP, besides the tokens of the settings."""

    issuer: SecureUrl = ""
    audience: SecureUrl = ""
    jwks_uri: SecureUrl = ""


class ServerSettings(Section, frozen=True, kw_only=True):
    """`[server]`: where `toolstead serve` listens, and to whom."""

    host: Host = "127.0.0.1"
    port: Port = 8420
    token: Token = ""
    public_url: PublicUrl = ""
    allowed_hosts: Hosts = ()
    allowed_origins: Origins = ()
    session_idle: Seconds = 1800
    max_sessions: Several = 1000
    ask_timeout: Seconds = 600
    max_asking: Several = 200
    client_approvals: ClientApprovals = "page"
    max_body: Size = 4_194_304
    oauth: OAuthSettings = OAuthSettings()

    def __repr__(self) -> str:
        """Leave the token out: a struct ends up in logs and tracebacks sooner or later."""
        return f"ServerSettings(host={self.host!r}, port={self.port!r}, token={MASK if self.token else ''!r}, …)"


class McpSettings(Section, frozen=True, kw_only=True):
    """`[mcp]`: what MCP clients are shown besides tools."""

    instructions: Prose = ""
    title: Title = ""
    icon: Words = ""
    resources: FilePatterns = ()


class GateSettings(Section, frozen=True, kw_only=True):
    """One of `[[delegation.gates]]`: a command that must succeed, or files that must exist."""

    command: Words = ""
    timeout: Seconds = 300
    files: WordList = ()


Gates = Annotated[
    tuple[GateSettings, ...],
    Meta(description='a list of gates, such as [{command = "pytest -q"}, {files = ["README.md"]}]'),
]


class DelegationSettings(Section, frozen=True, kw_only=True):
    """`[delegation]`: what holds for every delegated task."""

    stall_timeout: Seconds = 600
    gates: Gates = ()


class ProfileSettings(Section, frozen=True, kw_only=True):
    """`[profiles.NAME]`: which tools whoever calls under it sees, and what gives it over HTTP."""

    allowed: Patterns = ("*",)
    blocked: Patterns = ()
    token: ProfileToken = ""
    scope: Scope = ""

    def __repr__(self) -> str:
        """Leave the token out, as in the settings of the server."""
        return f"ProfileSettings(allowed={self.allowed!r}, blocked={self.blocked!r}, scope={self.scope!r}, …)"


class Settings(Section, frozen=True, kw_only=True):
    """Everything that can be set. `plugins` and `mcp_servers` hold whatever their owners define."""

    runtime: RuntimeSettings = RuntimeSettings()
    tools: ToolsSettings = ToolsSettings()
    multi_agent: MultiAgentSettings = MultiAgentSettings()
    limits: LimitSettings = LimitSettings()
    sessions: SessionSettings = SessionSettings()
    storage: StorageSettings = StorageSettings()
    delegation: DelegationSettings = DelegationSettings()
    plugins: OpenTable = {}
    mcp_servers: OpenTable = {}
    mcp: McpSettings = McpSettings()
    profiles: Mapping[str, ProfileSettings] = {}
    server: ServerSettings = ServerSettings()

    def __repr__(self) -> str:
        """Name plugins and servers without their settings: secrets live there."""
        return f"Settings(tools={self.tools!r}, server={self.server!r}, plugins={sorted(self.plugins)}, …)"


IN_EFFECT = frozenset(
    {
        "tools.allowed",
        "tools.blocked",
        "tools.timeout",
        "tools.max_output",
        "tools.allowed_hosts",
        "tools.proxy",
        "tools.include_plan_tool",
        "runtime.default",
        "runtime.agent",
        "runtime.model",
        "runtime.claude.tools",
        "runtime.claude.login",
        "runtime.claude.max_turns",
        "runtime.codex.tools",
        "runtime.codex.login",
        "runtime.codex.max_turns",
        "runtime.kernel.max_turns",
        "runtime.scripted.script",
        "runtime.scripted.folder",
        "multi_agent.agents",
        "multi_agent.max_concurrent_delegates",
        "delegation.stall_timeout",
        "delegation.gates",
        "limits.max_depth",
        "limits.max_fanout",
        "limits.max_descendants",
        "limits.run_timeout",
        "limits.token_budget",
        "limits.cost_budget",
        "sessions.ttl",
        "sessions.max",
        "sessions.max_live",
        "storage.retention_days",
        "mcp.instructions",
        "mcp.title",
        "mcp.icon",
        "mcp.resources",
        "server.host",
        "server.port",
        "server.token",
        "server.public_url",
        "server.allowed_hosts",
        "server.allowed_origins",
        "server.session_idle",
        "server.max_sessions",
        "server.ask_timeout",
        "server.max_asking",
        "server.client_approvals",
        "server.max_body",
        "server.oauth.issuer",
        "server.oauth.audience",
        "server.oauth.jwks_uri",
    }
)
"""The keys that this version reads. The others are checked and kept for the features they belong to."""

UNIONS = frozenset({("tools", "blocked")})

OPEN_TABLES = ("plugins", "mcp_servers")

PROFILES = "profiles"
"""The table whose tables a person names, and whose keys in each are fixed."""
PROFILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

OPEN_IN_EFFECT = frozenset({"plugins", PROFILES})
"""The tables without a fixed list of keys that this version reads."""


class Key(Struct, frozen=True, kw_only=True):
    """One known key.

    Attributes:
        path: Its parts, from the section down.
        type: What msgspec checks a value against.
        default: Its value when it is not set, as TOML would hold it.
        allowed: What it may be, in words.
    """

    path: tuple[str, ...]
    type: Any
    default: Any
    allowed: str


@cache
def known_keys() -> Mapping[tuple[str, ...], Key]:
    """Every known key by its path, in the documented order; what is in open tables is not among them."""
    return {key.path: key for key in _walk_section(Settings, ())}


@cache
def profile_keys() -> Mapping[str, Key]:
    """The keys of each profile, by their names; their paths are those of a profile called NAME."""
    return {key.path[-1]: key for key in _walk_section(ProfileSettings, (PROFILES, "NAME"))}


def find_key(path: tuple[str, ...]) -> Key | None:
    """The known key at a path, one of a profile included."""
    if len(path) == 3 and path[0] == PROFILES and (key := profile_keys().get(path[2])) is not None:
        return structs.replace(key, path=path)
    return known_keys().get(path)


def is_union(path: tuple[str, ...]) -> bool:
    """Whether every layer adds to a list, as to what is blocked; every other list replaces the one below it."""
    return path in UNIONS or (len(path) == 3 and path[0] == PROFILES and path[2] == "blocked")


@cache
def known_sections() -> frozenset[tuple[str, ...]]:
    """The paths of all tables with a fixed list of keys."""
    return frozenset(path[:depth] for path in known_keys() for depth in range(1, len(path)))


def _walk_section(section: type[Struct], above: tuple[str, ...]) -> Iterator[Key]:
    for field in structs.fields(section):
        kind: Any = field.type
        path = (*above, field.name)
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield from _walk_section(kind, path)
        elif field.name not in (*OPEN_TABLES, PROFILES):
            default: Any = list(cast("Any", field.default)) if isinstance(field.default, tuple) else field.default
            yield Key(path=path, type=field.type, default=default, allowed=field.type.__metadata__[0].description)
