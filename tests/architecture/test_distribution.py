"""What leaves the house: the wheel and the sdist hold the package, its metadata, and nothing else.

Both are built without the console, whatever lies in its folders; `tests/e2e/test_console_build.py` has that.
"""

from __future__ import annotations

import email.parser
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import toolstead
from tests.architecture.sources import PACKAGE, ROOT, own_files

pytestmark = pytest.mark.requires("git")

WEB = "toolstead/console/web/"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--sdist",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    environ = {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _package_files() -> set[str]:
    return {path.relative_to(PACKAGE.parent).as_posix() for path in own_files() if path.is_relative_to(PACKAGE)}


def test_the_wheel_holds_the_package_and_its_metadata(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    info = f"toolstead-{toolstead.__version__}.dist-info"
    about = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert names == {name for name in _package_files() if not name.startswith(WEB)} | about
    assert "toolstead/py.typed" in names


def test_the_sdist_holds_what_builds_the_wheel(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    about = {"PKG-INFO", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore"}
    assert names == {f"src/{name}" for name in _package_files()} | about


def test_the_metadata_is_what_the_project_says(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        info = f"toolstead-{toolstead.__version__}.dist-info"
        metadata = email.parser.Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
        commands = wheel.read(f"{info}/entry_points.txt").decode()
    assert metadata["Name"] == "toolstead"
    assert metadata["Version"] == toolstead.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "toolstead = toolstead.console.cli.main:main" in commands
    needed = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    heavy = ("claude", "openai", "pydantic-ai", "asyncpg", "opentelemetry", "dbos", "textual", "fastmcp")
    assert not [text for text in needed if text.startswith(heavy)], "the core stays light: make it an extra"
