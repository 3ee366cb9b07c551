"""What the programs on Node need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import node_packages


@pytest.fixture
def packages(requires: Callable[[str], None]) -> Path:
    """The installed packages; the registry is needed only when they are not here yet."""
    requires("node")
    if not node_packages.are_installed():
        requires("npm")
    return node_packages.install()
