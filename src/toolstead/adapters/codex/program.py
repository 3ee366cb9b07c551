"""The Codex program: its path, environment, command line and list of models.

It comes with the extra `codex`. Unless it uses the user's own login, it has a private folder, reads none of the user's
configuration, and gets an allow-list of the environment.

Its list of known models is changed so that they see our tools directly. For most models Codex would list no tools: the
model writes programs that search for tools and call them, and may start subagents, which no other setting forbids. For
the others it would offer a tool search. The other properties in the list are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import Lookup
from toolstead.errors import RuntimeFailureError
from toolstead.processes.program_run import run_program

KEY = "OPENAI_API_KEY"
ADDRESS = "OPENAI_BASE_URL"
USUAL_ADDRESS = "https://api.openai.com/v1"
PROVIDER = "toolstead"

_GIVEN = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "USER", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)
_LOOPBACK = "127.0.0.1,localhost,::1"
_TRIES = 3
_MOST_SHOWN = 131_072
"""Tokens of a tool's answer that the model is shown, four bytes each: twice what `tools.max_output` usually lets
through. By default Codex shows 10,000, and cuts the rest out of the middle."""

OFF = (
    # Features that search other sources, or install things.
    *("plugins", "apps", "remote_plugin", "plugin_sharing", "tool_suggest", "skill_search", "api_key_model_discovery"),
    *("skill_mcp_dependency_install", "workspace_dependencies", "daemon_auto_start", "memories", "image_generation"),
    # Features that act autonomously; subagents would escape our limits.
    *("multi_agent", "goals", "hooks", "browser_use", "browser_use_external", "computer_use", "in_app_browser"),
    *("view_image", "sleep_tool", "shell_snapshot", "worktrees", "guardian_approval", "unbounded_connection_retries"),
)
"""Features of Codex that are switched off."""
SHELL = ("shell_tool", "unified_exec")
"""Features that let it run commands; a thread may have them, behind our gates and in the read-only sandbox."""

_COMMON_SETTINGS: Mapping[str, Any] = {
    "web_search": "disabled",
    "approval_policy": "never",
    "sandbox_mode": "read-only",
    "check_for_update_on_startup": False,
    "thread_unload_delay_secs": 0,
    "tool_output_token_limit": _MOST_SHOWN,
    "analytics.enabled": False,
    "feedback.enabled": False,
    "history.persistence": "none",
    "skills.include_instructions": False,
    "tools.experimental_request_user_input.enabled": False,
    "tools.update_plan.enabled": False,
    "shell_environment_policy.inherit": "core",
    **{f"features.{name}": False for name in (*OFF, *SHELL)},
}
"""The settings that also apply with the user's own login, by dotted name."""

_LISTING = 30.0
_LONGEST_ERROR = 500
_LONGEST_LIST = 64 << 20
_REMOVED = ("tool_mode", "multi_agent_version")
"""The properties that hide tools behind programs or allow subagents."""
_CHANGED: Mapping[str, Any] = {"supports_search_tool": False, "experimental_supported_tools": []}
"""Disables tool search and unknown tools."""


class _ModelList(msgspec.Struct):
    """The models, with arbitrary members."""

    models: list[dict[str, msgspec.Raw]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexProgram:
    """What to start.

    Attributes:
        command: The program and its arguments.
        environ: Its whole environment.
        folder: Where it is started.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path


def prepare_program(*, folder: Path, lookup: Lookup, login: bool) -> CodexProgram:
    """Find the program and create its home. Blocks on imports and file writes.

    Args:
        folder: Its private folder, created if missing.
        lookup: The user's environment, and keys.
        login: Work in the user's own Codex home, with the account that is logged in there.

    Raises:
        RuntimeFailureError: The extra is not installed, there is no key, or the folder cannot be created.
    """
    program, beside = _find_program()
    settings = dict(_COMMON_SETTINGS)
    environ = {name: value for name in _GIVEN if (value := lookup(name))}
    environ["PATH"] = os.pathsep.join([*beside, environ.get("PATH", os.defpath)])
    # Our endpoint is on this machine, so no proxy may be used for it.
    excepted = lookup("NO_PROXY") or lookup("no_proxy")
    environ["NO_PROXY"] = environ["no_proxy"] = f"{excepted},{_LOOPBACK}" if excepted else _LOOPBACK
    if login:
        home = lookup("HOME")
        if not home:
            raise RuntimeFailureError("Codex cannot be used with your own login: HOME is not set")
        theirs = Path(lookup("CODEX_HOME") or Path(home, ".codex"))
        environ |= {"HOME": home, "CODEX_HOME": str(theirs)}
        settings |= _without_servers(theirs / "config.toml")
    else:
        key = lookup(KEY)
        if not key:
            raise RuntimeFailureError(
                f"Codex needs a key: set {KEY}, or let it use your own login (runtime.codex.login = true)"
            )
        settings |= _private_settings(lookup(ADDRESS) or USUAL_ADDRESS)
        environ |= {"HOME": str(folder), "CODEX_HOME": str(folder), KEY: key}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeFailureError(f"the folder of Codex cannot be created: {error}") from error
    settings["model_catalog_json"] = str(write_models(program, folder, environ))
    # As arguments, not as a file: several processes may share one home, each with its own address.
    overrides = [word for name, value in settings.items() for word in ("-c", f"{name}={_write_toml(value)}")]
    return CodexProgram(
        command=(str(program), "app-server", "--listen", "stdio://", *overrides),
        environ=environ,
        folder=folder,
    )


def _find_program() -> tuple[Path, list[str]]:
    """The program, and the folders of the programs that it calls."""
    try:
        package: Any = import_module("codex_cli_bin")  # the package has no type information
        path: Path = package.bundled_codex_path()
        beside: Path | None = package.bundled_path_dir()
    except (ImportError, FileNotFoundError) as error:
        raise RuntimeFailureError(f"Codex is not installed ({error}): {install_command('codex')}") from error
    return path, [str(beside)] if beside is not None else []


def _private_settings(address: str) -> Mapping[str, Any]:
    """The settings for a private home."""
    provider = f"model_providers.{PROVIDER}"
    return {
        "model_provider": PROVIDER,
        "project_doc_max_bytes": 0,
        "cli_auth_credentials_store": "file",
        f"{provider}.name": "OpenAI",
        f"{provider}.base_url": address,
        f"{provider}.wire_api": "responses",
        f"{provider}.env_key": KEY,
        f"{provider}.request_max_retries": _TRIES,
        f"{provider}.stream_max_retries": _TRIES,
        f"{provider}.supports_websockets": False,
    }


def _without_servers(config: Path) -> Mapping[str, Any]:
    """Settings that switch off the user's own MCP servers, whose tools would bypass our gates.

    Raises:
        RuntimeFailureError: The file cannot be read.
    """
    try:
        servers: Any = tomllib.loads(config.read_text(encoding="utf-8")).get("mcp_servers", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RuntimeFailureError(f"Codex cannot be used with your own login: {config}: {error}") from error
    if odd := [name for name in servers if re.fullmatch(r"[A-Za-z0-9_-]+", name) is None]:
        raise RuntimeFailureError(f"{config}: the MCP server {odd[0]!r} cannot be switched off by name; rename it")
    return {f"mcp_servers.{name}.enabled": False for name in servers}


def _write_toml(value: str | int | bool) -> str:
    return json.dumps(value, ensure_ascii=True)  # strings, numbers and booleans are the same in JSON and TOML


def write_models(program: Path, folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of the changed list. The first call runs the program and writes a file: it blocks.

    Args:
        program: The program, whose list it is.
        folder: An existing folder, where it is written.
        environ: The program's environment.

    Raises:
        RuntimeFailureError: The program does not print its list, or it cannot be written.
    """
    try:
        path = folder / f"models-{_identify_program(program)}.json"
        if not path.exists():
            _write_list(path, _change_models(_read_list(program, folder, environ)))
    except (OSError, msgspec.MsgspecError) as error:
        raise RuntimeFailureError(
            f"Codex does not list its models, and with its own list it would hide our tools: {error}"
        ) from error
    return path


def _identify_program(program: Path) -> str:
    """A file name that depends on the program and on our changes."""
    file = program.stat()
    parts = (file.st_size, file.st_mtime_ns, _REMOVED, _CHANGED)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _read_list(program: Path, folder: Path, environ: Mapping[str, str]) -> bytes:
    command = (str(program), "debug", "models", "--bundled")
    running = run_program(command, cwd=folder, env={**environ, "CODEX_HOME": str(folder)}, limit=_LONGEST_LIST)
    try:
        done = asyncio.run(asyncio.wait_for(running, _LISTING))
    except TimeoutError:
        raise OSError(f"no answer within {_LISTING:.0f} seconds") from None
    if done.status != 0:
        errors = done.stderr.decode(errors="replace").strip()[-_LONGEST_ERROR:]
        raise OSError(f"it ended with status {done.status}: {errors or 'no output'}")
    return done.stdout


def _change_models(data: bytes) -> bytes:
    """The list with our changes; the rest of it, which is long, is not decoded."""
    models = msgspec.json.decode(data, type=_ModelList).models
    changed = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in _CHANGED.items()}
    ours = [{**{name: of for name, of in model.items() if name not in _REMOVED}, **changed} for model in models]
    return msgspec.json.encode(_ModelList(models=ours))


def _write_list(path: Path, text: bytes) -> None:
    """Write the file atomically: another process may be reading it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".models-") as folder:
        unfinished = Path(folder, path.name)
        unfinished.touch(mode=0o600)
        unfinished.write_bytes(text)
        unfinished.replace(path)
