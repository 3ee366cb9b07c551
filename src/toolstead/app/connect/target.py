"""What a client is to start, or to reach: our own command, or the address of a server."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any, cast
from urllib.parse import urlsplit

from toolstead.errors import ClientConfigError

PLACES = ("TOOLSTEAD_HOME", "TOOLSTEAD_TOOLS_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that say where the user's tools and data are: a client need not have them, so they are written down."""
_USUAL = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
_REFERENCE = re.compile(r"\$\{(?:env:)?(\w+)\}|\{env:(\w+)\}|\$(\w+)")
_MCP_PATH = re.compile(r"/mcp(/[\w.-]+)?/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a client is to start, or to reach.

    Attributes:
        command: The program with its arguments; empty for a server.
        environ: What it needs in its environment beside what the client gives it.
        passed: Variables that the client passes on to it from where it is started itself.
        url: The address of a server's MCP endpoint.
        token_env: The variable that holds the token for it.
    """

    command: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    passed: tuple[str, ...] = ()
    url: str = ""
    token_env: str = ""

    def describe(self) -> str:
        """The command line, or the address."""
        return self.url or " ".join(f"'{word}'" if " " in word else word for word in self.command)

    @property
    def is_ours(self) -> bool:
        """Whether it starts Toolstead, or may be a server of it."""
        if self.url:
            return _MCP_PATH.fullmatch(urlsplit(self.url).path) is not None
        is_named = any(Path(word).name in ("toolstead", "toolstead.exe") for word in self.command)
        return is_named and "mcp" in self.command

    @property
    def is_this(self) -> bool:
        """Whether it starts this very installation."""
        here = own_command(sys.argv[0], Path.home())
        return self.is_ours and [*map(_resolve_word, self.command[: len(here)])] == [*map(_resolve_word, here)]

    @property
    def python_file(self) -> str:
        """The Python file whose tools it serves; empty where it serves those of the user."""
        last = self.command[-1] if self.command else ""
        return last if last.endswith(".py") else ""

    @property
    def missing_program(self) -> str:
        """The program, if it is not there any more."""
        program = self.command[0] if self.command else ""
        return program if program and which(program) is None else ""


def own_target(arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> Target:
    """This very installation's command, by its absolute path, with what leads it to the user's own files."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME", "")) if environ.get("HOME") else Path.home()
    places: dict[str, str] = {}
    for name in PLACES:
        value = environ.get(name, "")
        usual = str(home / _USUAL[name]) if name in _USUAL else ""
        if value and value != usual:
            places[name] = value if name in _USUAL else str(Path(value).expanduser().absolute())
    return Target(command=(*own_command(sys.argv[0], home), *arguments), environ=places)


def own_command(called: str, home: Path) -> tuple[str, ...]:
    """The command that starts this installation, the way it stays the same when it is upgraded.

    A link that people type (`~/.local/bin/toolstead`) comes before what it leads to.

    Args:
        called: How this process was called, `sys.argv[0]`.
        home: The user's home.
    """
    beside = Path(sys.executable).parent / "toolstead"
    script = which(called) if Path(called).name == "toolstead" else None
    found = Path(script).absolute() if script is not None else beside
    if not os.access(found, os.X_OK):
        return (sys.executable, "-m", "toolstead")
    link = home / ".local" / "bin" / "toolstead"
    if link.is_symlink() and link.resolve() == found.resolve():
        return (str(link),)
    return (str(found),)


def server_target(url: str, token_env: str, profile: str) -> Target:
    """A server that is reached by its address.

    Raises:
        ClientConfigError: The address or the variable's name is none.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise ClientConfigError(f"--url {url}: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ClientConfigError(f"--url {url}: an address such as https://tools.example.com/mcp is needed")
    if parts.username or parts.password or "token=" in parts.query:
        raise ClientConfigError("--url: a token or a password does not belong into the address; name it by --token-env")
    if token_env and re.fullmatch(r"[A-Za-z_]\w*", token_env, re.ASCII) is None:
        raise ClientConfigError(
            "--token-env takes the name of an environment variable, such as TEAM_TOKEN, and not the token itself;"
            " the token is never written into a file"
        )
    path = parts.path.rstrip("/") or "/mcp"
    if profile:
        path = f"{path}/{profile}"
    return Target(url=parts._replace(path=path).geturl(), token_env=token_env)


def read_target(entry: Mapping[str, Any]) -> Target | None:
    """What an entry in a client's configuration starts or reaches, in the form of any client; None for neither."""
    url = entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl")
    if isinstance(url, str):
        found = _REFERENCE.search(str(take_table(entry.get("headers")).get("Authorization", "")))
        named = next(filter(None, found.groups()), "") if found is not None else entry.get("bearer_token_env_var", "")
        return Target(url=url, token_env=str(named))
    words = [*_take_words(entry.get("command")), *_take_words(entry.get("args") or [])]
    if not words:
        return None
    environ = {name: str(value) for name, value in take_table(entry.get("env") or entry.get("environment")).items()}
    referred = [name for name, value in environ.items() if _REFERENCE.fullmatch(value) is not None]
    listed = [name for name in _take_words(entry.get("env_vars") or []) if name not in referred]
    return Target(
        command=tuple(words),
        environ={name: value for name, value in environ.items() if name not in referred},
        passed=(*referred, *listed),
    )


def _resolve_word(word: str) -> str:
    return str(Path(word).resolve()) if os.sep in word else word


def take_table(value: Any) -> Mapping[str, Any]:
    """A table in a configuration; an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _take_words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(word) for word in cast("list[Any]", value)] if isinstance(value, list) else []
