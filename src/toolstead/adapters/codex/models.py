"""Codex's list of the models it knows, changed so that our tools are theirs.

For most of them Codex would show no tool at all: the model is to write programs that look for tools and call them,
and it may start agents of its own, which no other setting forbids. For the rest it would let tools be searched for.
What the list says of them besides, such as how they are asked, stays.
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
"""What hides tools behind programs, and what lets agents be started."""
_SAID: Mapping[str, Any] = {"supports_search_tool": False, "experimental_supported_tools": []}
"""No tool is kept back to be searched for, and none is there that we do not know."""


class _List(msgspec.Struct):
    """Each model is its members, whatever they are."""

    models: list[dict[str, msgspec.Raw]]


def write_models(program: Path, folder: Path, environ: Mapping[str, str]) -> Path:
    """Where the list is, as we changed it. The first time it starts the program, and writes: not for an event loop.

    Args:
        program: The program, whose list it is.
        folder: Where it is written, which is there.
        environ: What the program lives in.

    Raises:
        RuntimeFailureError: The program does not tell its list, or it cannot be written.
    """
    try:
        path = folder / f"models-{_identify_program(program)}.json"
        if not path.exists():
            _write(path, _change_models(_read_list(program, folder, environ)))
    except (OSError, msgspec.MsgspecError) as error:
        raise RuntimeFailureError(
            f"Codex does not say which models it knows, and with its own list it would hide our tools: {error}"
        ) from error
    return path


def _identify_program(program: Path) -> str:
    """Another one for another program, and for other changes."""
    file = program.stat()
    parts = (file.st_size, file.st_mtime_ns, _NOT_SAID, _SAID)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _read_list(program: Path, folder: Path, environ: Mapping[str, str]) -> bytes:
    command = (str(program), "debug", "models", "--bundled")
    running = run_program(command, cwd=folder, env={**environ, "CODEX_HOME": str(folder)}, limit=_LONGEST_LIST)
    try:
        done = asyncio.run(asyncio.wait_for(running, _SECONDS))
    except TimeoutError:
        raise OSError(f"it does not answer within {_SECONDS:.0f} seconds") from None
    if done.status != 0:
        words = done.stderr.decode(errors="replace").strip()[-_MOST_WORDS:]
        raise OSError(f"it ended with status {done.status}: {words or 'without a word'}")
    return done.stdout


def _change_models(told: bytes) -> bytes:
    """The list with our changes; the rest of it, which is long, is not even looked at."""
    models = msgspec.json.decode(told, type=_List).models
    said = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in _SAID.items()}
    ours = [{**{name: of for name, of in model.items() if name not in _NOT_SAID}, **said} for model in models]
    return msgspec.json.encode(_List(models=ours))


def _write(path: Path, text: bytes) -> None:
    """Write it whole: another process may be about to read it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".models-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
