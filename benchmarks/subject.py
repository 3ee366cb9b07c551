"""What exactly is measured: the version of Toolstead that is installed here, and a mark of its files.

A checkout that is installed in place changes under a run when somebody edits it, and then early and late rounds are of
different programs. The mark is taken before and after, and a run whose mark changed says so and fails.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path


def installed_version() -> str:
    """The version of Toolstead beside this Python."""
    try:
        return version("toolstead")
    except PackageNotFoundError:
        return "not installed"


def mark() -> str:
    """Short, and different as soon as one source file is."""
    spec = find_spec("toolstead")
    digest = hashlib.sha256()
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
