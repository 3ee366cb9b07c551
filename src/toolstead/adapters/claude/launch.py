"""Command line and environment of a session's program; the environment is built, not inherited."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from toolstead.adapters.providers.catalogue import Lookup
from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import SessionSpec

SERVER = "toolstead"
"""The name of our MCP server in Claude Code."""
OUR_PREFIX = f"mcp__{SERVER}__"
"""Begins the names of our tools there."""

CLAUDE_TOOLS = frozenset(
    {
        *("Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "EnterPlanMode", "ExitPlanMode", "Glob", "Grep"),
        *("KillBash", "KillShell", "LS", "LSP", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Skill"),
        *("SlashCommand", "Task", "TaskOutput", "TaskStop", "TodoRead", "TodoWrite", "ToolSearch", "WebFetch"),
        *("WebSearch", "Write"),
    }
)
"""The tools that Claude Code brings itself, as files of agents name them."""

SPAWNING = frozenset({"Agent", "Task"})
"""Those that start agents; a run that may start none does not get them."""

KEY, ADDRESS = "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"

_PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "TMPDIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
_OF_A_LOGIN = ("ANTHROPIC_", "CLAUDE_", "XDG_")

_ALWAYS = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # nothing keeps running after a turn
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",  # report when a turn is really over
    "DISABLE_AUTOUPDATER": "1",
    "ENABLE_TOOL_SEARCH": "false",  # it would hide our tools behind a search
    "MAX_MCP_OUTPUT_TOKENS": "1000000",  # tools.max_output is the cap; text beside an image would be cut at 25,000
    "MCP_TOOL_TIMEOUT": str(24 * 3_600_000),  # the dispatcher sets deadlines, and an approval may take long
}
_OWN_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program to start.

    Attributes:
        argv: The program and its arguments.
        environment: The whole environment, except the mark that every child process gets.
        cwd: The folder it works in.
        key: Passed outside the environment, which a shell of Claude could print; empty with a login.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Builds launches, and creates the folders and files that they need.

    Attributes:
        environ: The environment; the permitted part of it is passed on.
        lookup: Returns the key and the address.
        folder: Private: configuration, conversations and temporary files are kept here.
        login: Use the user's own configuration instead, without a key.
        max_turns: Model requests allowed for one prompt, unless the agent's file says how many.
    """

    environ: Mapping[str, str]
    lookup: Lookup
    folder: Path
    login: bool
    max_turns: int

    def prepare_launch(
        self, program: Path, spec: SessionSpec, *, instructions: str, own: Sequence[str], resume: str | None
    ) -> Launch:
        """Build the launch of a session. Writes files.

        Raises:
            RuntimeFailureError: No key, an invalid name of a built-in tool, or no writable folder.
        """
        try:
            prompt = self._write_prompt(instructions)
            environment = self._build_environment() | {"PWD": str(spec.cwd)}
            key = self._read_key()
        except OSError as error:
            raise RuntimeFailureError(f"the claude runtime cannot write its files to {self.folder}: {error}") from error
        return Launch(
            argv=(str(program), *self._build_arguments(spec, prompt, own, resume)),
            environment=environment,
            cwd=spec.cwd,
            key=key,
        )

    def limit_turns(self, spec: SessionSpec) -> int:
        """How many model requests a session may make for one prompt."""
        return self.max_turns if spec.max_turns is None else spec.max_turns

    def _build_arguments(self, spec: SessionSpec, prompt: Path, own: Sequence[str], resume: str | None) -> list[str]:
        model = model_name(spec.model)
        return [
            *("--output-format", "stream-json", "--input-format", "stream-json", "--verbose"),
            *("--include-partial-messages", "--replay-user-messages"),
            *("--max-turns", str(self.limit_turns(spec))),
            *("--system-prompt-file", str(prompt)),
            *("--tools", ",".join(own)),
            # Ours are allowed as a whole, those of a later reload included. Claude's own ones are not: what our hook
            # does not allow is refused without a question.
            *("--allowedTools", f"mcp__{SERVER}", "--permission-mode", "dontAsk"),
            *("--mcp-config", json.dumps({"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}})),
            "--strict-mcp-config",
            f"--setting-sources={'user' if self.login else ''}",
            *(["--model", model] if model else []),
            *([f"--resume={resume}"] if resume is not None else []),
        ]

    def _build_environment(self) -> dict[str, str]:
        places = {"CLAUDE_CODE_TMPDIR": self.folder / "tmp"}
        if not self.login:
            places |= {"CLAUDE_CONFIG_DIR": self.folder / "config", "XDG_CACHE_HOME": self.folder / "cache"}
        for place in places.values():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        passed = {name: value for name, value in self.environ.items() if self._passes_variable(name)}
        address = (self.lookup(ADDRESS) or "").strip()
        reached = {ADDRESS: address} if address and not self.login else {}
        return passed | _ALWAYS | {name: str(place) for name, place in places.items()} | reached

    def _passes_variable(self, name: str) -> bool:
        return name in _PASSED or name.startswith("LC_") or (self.login and name.startswith(_OF_A_LOGIN))

    def _read_key(self) -> str:
        if self.login:
            return ""
        if key := (self.lookup(KEY) or "").strip():
            return key
        raise RuntimeFailureError(
            f"the claude runtime has no key: set {KEY}, or runtime.claude.login = true to use the login of Claude "
            "Code (`claude` and `/login` make one)"
        )

    def _write_prompt(self, instructions: str) -> Path:
        """Write the instructions to a file: an argument is visible in process lists, and has a length limit."""
        data = instructions.encode("utf-8", "replace")
        folder = self.folder / "instructions"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{blake2b(data, digest_size=16).hexdigest()}.md"
        if not path.exists():
            unfinished = path.with_suffix(f".{secrets.token_hex(4)}")
            unfinished.write_bytes(data)
            unfinished.replace(path)
        return path


def own_tools(*named: Sequence[str]) -> tuple[str, ...]:
    """The names of Claude's built-in tools, without duplicates.

    Raises:
        RuntimeFailureError: One of them is not a valid name.
    """
    names = tuple(dict.fromkeys(name for some in named for name in some))
    for name in names:
        if _OWN_TOOL.fullmatch(name) is None or name.startswith("mcp__"):
            raise RuntimeFailureError(
                f"runtime.claude.tools: {name[:100]!r} is not a tool of Claude Code; "
                "use names such as Bash, Read or WebFetch, without a pattern"
            )
    return names


def model_name(full: str) -> str:
    """A model's name as Claude Code expects it."""
    return full.removeprefix("anthropic:")
