"""The MCP clients that can be connected: where each keeps its servers, and what it writes for one.

For Claude Code, Codex, Gemini CLI and opencode it is what their own commands write (`claude mcp add`, …), and what each
needs to have the tools from the first question on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import which
from typing import Any, Literal

from toolstead.app.connect.target import Target
from toolstead.errors import ClientConfigError
from toolstead.nearest_names import suggest

Scope = Literal["user", "project"]
START_SECONDS = 30
"""What a client is asked to wait for a start, where its own bound is less: a busy machine takes longer than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a user's programs keep their files.

    Attributes:
        folder: The home folder.
        environ: The environment, in which some programs look for other places.
        is_mac: It is macOS.
    """

    folder: Path
    environ: Mapping[str, str]
    is_mac: bool

    @property
    def config(self) -> Path:
        """The folder for settings that is not of macOS."""
        named = Path(self.environ.get("XDG_CONFIG_HOME", ""))
        return named if named.is_absolute() else self.folder / ".config"

    @property
    def desktop(self) -> Path:
        """Where programs with windows keep their settings."""
        return self.folder / "Library" / "Application Support" if self.is_mac else self.config

    def named_folder(self, variable: str, usual: str) -> Path:
        """A folder that a variable may move."""
        named = self.environ.get(variable, "")
        return Path(named).expanduser() if named else self.folder / usual


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClient:
    """A program that uses MCP servers.

    Attributes:
        name: What it is called on our command line.
        title: What it calls itself.
        program: Its command.
        user_file: Its configuration for all projects.
        project_file: That for one project, below its root; empty where it has none.
        has_two_names: Either file may end in `.json` or `.jsonc`.
        language: `json`, `commented` (JSON with comments), `jsonc` (with trailing commas too) or `toml`.
        table: The key that its servers stand below.
        make_entry: What says which server it is: ours, and written again whenever it is connected.
        make_defaults: What a new entry gets beside that; from then on it is the person's.
        places: Folders and programs without a command that show that it is installed.
        passes_environment: It gives servers its own environment, and that is the terminal's.
        takes_variables: Its entry can name a variable that a server gets from its own environment.
        next_step: What to do in it.
        free_entry: What its entry says when it may call the tools without asking; empty where that is not said there.
        free_way: How it is allowed elsewhere.
    """

    name: str
    title: str
    program: str
    user_file: Callable[[Home], Path]
    project_file: str = ""
    has_two_names: bool = False
    language: Literal["json", "commented", "jsonc", "toml"] = "json"
    table: str = "mcpServers"
    make_entry: Callable[[Target], dict[str, Any]]
    make_defaults: Callable[[Target], dict[str, Any]] = lambda _: {}
    places: Callable[[Home], tuple[Path, ...]]
    passes_environment: bool = True
    takes_variables: bool = True
    next_step: str
    free_entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    free_way: str = ""

    def find_trace(self, home: Home) -> str:
        """What shows that it is on this machine: its program, else a folder of it; empty where nothing does."""
        if (program := which(self.program, path=home.environ.get("PATH"))) is not None:
            return program
        return next((str(place) for place in (*self.places(home), self.user_file(home)) if place.exists()), "")


def find_home(environ: Mapping[str, str] | None = None) -> Home:
    """This user's."""
    environ = os.environ if environ is None else environ
    folder = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    return Home(folder=folder, environ=environ, is_mac=sys.platform == "darwin")


def find_client(name: str) -> McpClient:
    """The client of this name.

    Raises:
        ClientConfigError: There is none.
    """
    if name in CLIENTS:
        return CLIENTS[name]
    hint = suggest(name, CLIENTS, otherwise=f"there are: {', '.join(CLIENTS)}.")
    raise ClientConfigError(
        f"{name[:100]!r} is no client that is known here; {hint} Any other MCP client takes the command"
        " `toolstead mcp`, or the address of a server's /mcp"
    )


def _launch(target: Target, reference: str = "${%s}") -> dict[str, Any]:
    entry: dict[str, Any] = {"command": target.command[0], "args": list(target.command[1:])}
    environ = _environ(target, reference)
    return {**entry, "env": environ} if environ else entry


def _environ(target: Target, reference: str) -> dict[str, str]:
    return {**target.environ, **{name: reference % name for name in target.passed}}


def _headers(target: Target, reference: str) -> dict[str, Any]:
    return {"headers": {"Authorization": reference % target.token_env}} if target.token_env else {}


def _claude_code_entry(target: Target) -> dict[str, Any]:
    if target.url:
        return {"type": "http", "url": target.url, **_headers(target, "Bearer ${%s}")}
    return {"type": "stdio", **_launch(target), "env": _environ(target, "${%s}")}


def _claude_code_defaults(_: Target) -> dict[str, Any]:
    return {"alwaysLoad": True}  # without it, it starts without servers that are not ready yet


def _codex_entry(target: Target) -> dict[str, Any]:
    if target.url:
        return {"url": target.url, **({"bearer_token_env_var": target.token_env} if target.token_env else {})}
    entry = _launch(replace(target, passed=()))
    return {**entry, "env_vars": list(target.passed)} if target.passed else entry


def _codex_defaults(target: Target) -> dict[str, Any]:
    # A server that is reached is not required: Codex would not start while a team's server is down.
    return {**({} if target.url else {"required": True}), "startup_timeout_sec": START_SECONDS}


def _gemini_entry(target: Target) -> dict[str, Any]:
    if target.url:
        return {"url": target.url, "type": "http", **_headers(target, "Bearer ${%s}")}
    return _launch(target)


def _opencode_entry(target: Target) -> dict[str, Any]:
    if target.url:
        token = {**_headers(target, "Bearer {env:%s}"), "oauth": False} if target.token_env else {}
        return {"type": "remote", "url": target.url, **token}
    environ = _environ(target, "{env:%s}")
    entry: dict[str, Any] = {"type": "local", "command": list(target.command)}
    return {**entry, "environment": environ} if environ else entry


def _opencode_defaults(_: Target) -> dict[str, Any]:
    return {"enabled": True, "timeout": START_SECONDS * 1000}


def _cursor_entry(target: Target) -> dict[str, Any]:
    if target.url:
        return {"url": target.url, **_headers(target, "Bearer ${env:%s}")}
    return {"type": "stdio", **_launch(target, "${env:%s}")}


def _vscode_entry(target: Target) -> dict[str, Any]:
    if target.url:
        return {"type": "http", "url": target.url, **_headers(target, "Bearer ${env:%s}")}
    return {"type": "stdio", **_launch(target, "${env:%s}")}


def _find_opencode_file(home: Home) -> Path:
    named = home.environ.get("OPENCODE_CONFIG")
    return Path(named).expanduser() if named else home.config / "opencode" / "opencode.jsonc"


_ALL = (
    McpClient(
        name="claude-code",
        title="Claude Code",
        program="claude",
        user_file=lambda home: home.named_folder("CLAUDE_CONFIG_DIR", ".") / ".claude.json",
        project_file=".mcp.json",
        make_entry=_claude_code_entry,
        make_defaults=_claude_code_defaults,
        places=lambda home: (home.named_folder("CLAUDE_CONFIG_DIR", ".claude"),),
        next_step="In a new `claude`, /mcp shows the server and its tools",
        free_way="`/permissions` in it, or `claude --allowedTools mcp__toolstead`",
    ),
    McpClient(
        name="claude-desktop",
        title="Claude Desktop",
        program="claude-desktop",
        user_file=lambda home: home.desktop / "Claude" / "claude_desktop_config.json",
        make_entry=_launch,
        places=lambda home: (home.desktop / "Claude", Path("/Applications/Claude.app")),
        passes_environment=False,
        takes_variables=False,
        next_step="Quit Claude Desktop and start it again; the tools are listed below its message box",
        free_way="it offers to always allow a tool when it asks",
    ),
    McpClient(
        name="codex",
        title="Codex",
        program="codex",
        user_file=lambda home: home.named_folder("CODEX_HOME", ".codex") / "config.toml",
        project_file=".codex/config.toml",
        language="toml",
        table="mcp_servers",
        make_entry=_codex_entry,
        make_defaults=_codex_defaults,
        places=lambda home: (home.named_folder("CODEX_HOME", ".codex"),),
        passes_environment=False,
        next_step="In a new `codex`, /mcp shows the server and its tools",
        free_entry={"default_tools_approval_mode": "approve"},
    ),
    McpClient(
        name="gemini",
        title="Gemini CLI",
        program="gemini",
        user_file=lambda home: home.named_folder("GEMINI_CLI_HOME", ".") / ".gemini" / "settings.json",
        project_file=".gemini/settings.json",
        language="commented",
        make_entry=_gemini_entry,
        places=lambda home: (home.named_folder("GEMINI_CLI_HOME", ".") / ".gemini",),
        next_step="In a new `gemini`, /mcp shows the server and its tools (in a folder that Gemini trusts)",
        free_entry={"trust": True},
    ),
    McpClient(
        name="opencode",
        title="opencode",
        program="opencode",
        user_file=_find_opencode_file,
        project_file="opencode.json",
        has_two_names=True,
        language="jsonc",
        table="mcp",
        make_entry=_opencode_entry,
        make_defaults=_opencode_defaults,
        places=lambda home: (home.config / "opencode",),
        next_step="A new `opencode` has the tools; `opencode mcp list` shows the server",
        free_way="it asks about no MCP tool, unless `permission` in its configuration says so",
    ),
    McpClient(
        name="cursor",
        title="Cursor",
        program="cursor",
        user_file=lambda home: home.folder / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        language="jsonc",
        make_entry=_cursor_entry,
        places=lambda home: (home.folder / ".cursor", Path("/Applications/Cursor.app")),
        passes_environment=False,
        next_step="In Cursor, Settings > MCP lists the server; switch it on there if it is off",
        free_way="its settings have a list of tools that it may call",
    ),
    McpClient(
        name="vscode",
        title="VS Code",
        program="code",
        user_file=lambda home: home.desktop / "Code" / "User" / "mcp.json",
        project_file=".vscode/mcp.json",
        language="jsonc",
        table="servers",
        make_entry=_vscode_entry,
        places=lambda home: (home.desktop / "Code", Path("/Applications/Visual Studio Code.app")),
        passes_environment=False,
        next_step="In VS Code, `MCP: List Servers` shows the server; the first start asks whether you trust it",
        free_way="it offers to always allow a tool when it asks",
    ),
)
CLIENTS: dict[str, McpClient] = {client.name: client for client in _ALL}
"""Every client by its name."""
