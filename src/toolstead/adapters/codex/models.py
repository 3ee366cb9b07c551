"""Codex's list of known models, changed so that they see our tools directly.

For most models Codex would list no tools: the model writes programs that search for tools and call them, and may start
subagents, which no other setting forbids. For the others it would offer a tool search. The other properties in the
list are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolstead.errors import RuntimeFailureError
from toolstead.processes.program_run import run_program

_SECONDS = 30.0
_MOST_WORDS = 500
_LONGEST_LIST = 64 << 20
_NOT_SAID = ("tool_mode", "multi_agent_version")
"""The properties that hide tools behind programs or allow subagents."""
_SAID: Mapping[str, Any] = {"supports_search_tool": False, "experimental_supported_tools": []}
"""Disables tool search and unknown tools."""


class _List(msgspec.Struct):
    """The models, with arbitrary members."""

    models: list[dict[str, msgspec.Raw]]


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
            _write(path, _change_models(_read_list(program, folder, environ)))
    except (OSError, msgspec.MsgspecError) as error:
        raise RuntimeFailureError(
            f"Codex does not list its models, and with its own list it would hide our tools: {error}"
        ) from error
    return path


def _identify_program(program: Path) -> str:
    """A file name that depends on the program and on our changes."""
    file = program.stat()
    parts = (file.st_size, file.st_mtime_ns, _NOT_SAID, _SAID)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _read_list(program: Path, folder: Path, environ: Mapping[str, str]) -> bytes:
    command = (str(program), "debug", "models", "--bundled")
    running = run_program(command, cwd=folder, env={**environ, "CODEX_HOME": str(folder)}, limit=_LONGEST_LIST)
    try:
        done = asyncio.run(asyncio.wait_for(running, _SECONDS))
    except TimeoutError:
        raise OSError(f"no answer within {_SECONDS:.0f} seconds") from None
    if done.status != 0:
        words = done.stderr.decode(errors="replace").strip()[-_MOST_WORDS:]
        raise OSError(f"it ended with status {done.status}: {words or 'no output'}")
    return done.stdout


def _change_models(told: bytes) -> bytes:
    """The list with our changes; the rest of it, which is long, is not decoded."""
    models = msgspec.json.decode(told, type=_List).models
    said = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in _SAID.items()}
    ours = [{**{name: of for name, of in model.items() if name not in _NOT_SAID}, **said} for model in models]
    return msgspec.json.encode(_List(models=ours))


def _write(path: Path, text: bytes) -> None:
    """Write the file atomically: another process may be reading it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".models-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
