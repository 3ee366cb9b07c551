"""The locks: exact versions with hashes, and nothing of the machine they were made on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.sources import ROOT

FOLDER = ROOT / "requirements"
LOCKS = ["core.txt", "quick.txt", "test.txt"]
NODE_LOCK = "console.txt"
"""Node alone, for building the console."""
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
EXTRA_LOCKS = {name: f"extra-{name}.txt" for name in EXTRAS if name != "all"}
"""Each holds what an extra needs beside the core."""
SOURCES = {
    "core.txt": ["build.in"],
    "quick.txt": ["build.in", "quick.in"],
    "test.txt": ["build.in", "quick.in", "console.in", "test.in"],
}
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[a-z0-9.+!]+)(?: ; (?P<marker>[\w\s.'\"<>=!()-]+?))? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?P<more> \\)?$")


def _pins(text: str) -> dict[str, list[tuple[str, str | None]]]:
    """Name → versions with their markers. A line that is neither a pin nor a hash is refused."""
    pins: dict[str, list[tuple[str, str | None]]] = {}
    hashes_follow = False
    for number, line in enumerate(text.splitlines(), start=1):
        if hashes_follow:
            found = HASH.match(line)
            assert found, f"line {number} is no hash: {line}"
            hashes_follow = found["more"] is not None
        else:
            found = PIN.match(line)
            assert found, f"line {number} is no exact version: {line}"
            pins.setdefault(found["name"], []).append((found["version"], found["marker"]))
            hashes_follow = True
    assert pins
    assert not hashes_follow, "the last hash is missing"
    return pins


def _locked(name: str) -> dict[str, list[tuple[str, str | None]]]:
    return _pins((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("lock", [*LOCKS, NODE_LOCK, *EXTRA_LOCKS.values()])
def test_a_lock_holds_versions_and_hashes_and_nothing_else(lock: str) -> None:
    assert _locked(lock)


@pytest.mark.parametrize(
    ("small", "large"), [("core.txt", "quick.txt"), ("quick.txt", "test.txt"), (NODE_LOCK, "test.txt")]
)
def test_a_larger_lock_holds_all_of_the_smaller_one(small: str, large: str) -> None:
    held, holding = _locked(small), _locked(large)
    assert {name: holding.get(name) for name in held} == held


@pytest.mark.parametrize("extra", EXTRA_LOCKS)
def test_the_lock_of_an_extra_holds_what_it_names_in_the_versions_that_are_tested(extra: str) -> None:
    locked, tested = _locked(EXTRA_LOCKS[extra]), _locked("test.txt")
    for requirement in map(Requirement, EXTRAS[extra]):
        versions = [version for version, _ in locked[canonicalize_name(requirement.name)]]
        assert all(requirement.specifier.contains(version, prereleases=True) for version in versions)
    different = {
        name: (pins, tested.get(name))
        for name, pins in locked.items()
        if not {version for version, _ in pins} <= {version for version, _ in tested.get(name, pins)}
    }
    assert not different
    assert not locked.keys() & _locked("core.txt").keys(), "the core is installed beside it"


def test_the_quick_lock_holds_no_extra() -> None:
    named = {canonicalize_name(Requirement(text).name) for texts in EXTRAS.values() for text in texts}
    assert named - {"toolstead"}
    assert not (named - {"toolstead"}) & _locked("quick.txt").keys()


def test_every_direct_dependency_is_locked_in_a_version_that_it_allows() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*settings["project"]["dependencies"], *settings["build-system"]["requires"]]
    for lock, sources in SOURCES.items():
        locked = _locked(lock)
        for text in wanted + [line for source in sources for line in _named_in(FOLDER / source)]:
            requirement = Requirement(text)
            versions = [version for version, _ in locked.get(canonicalize_name(requirement.name), [])]
            assert versions, f"{lock}: {requirement.name} is missing; run make lock"
            for version in versions:
                assert requirement.specifier.contains(version, prereleases=True), f"{lock}: {version} is not {text}"


def test_the_sources_of_the_locks_hold_no_option_but_each_other() -> None:
    for path in FOLDER.glob("*.in"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not line.startswith("-") or line in ("-r build.in", "-r quick.in", "-r console.in"), (
                f"{path.name}: {line}"
            )
            assert "://" not in line, f"{path.name}: {line}"


def test_there_are_no_other_files_beside_the_locks() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        *LOCKS,
        NODE_LOCK,
        *EXTRA_LOCKS.values(),
        *SOURCES["test.txt"],
    }


def test_an_isolated_build_gets_the_node_that_is_locked() -> None:
    [named] = _named_in(FOLDER / "console.in")
    assert f'NODE_PACKAGE = "{named}"' in (ROOT / "hatch_build.py").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "--index-url https://host/simple\n",
        "--find-links wheels\n",
        "# made by a command\n",
        "click==8.1\n",
        "click>=8 \\\n    --hash=sha256:" + "0" * 64 + "\n",
        "click==8.1 \\\n    --hash=md5:00\n",
        "click @ file:///wheels/click.whl \\\n    --hash=sha256:" + "0" * 64 + "\n",
        "click==8.1 \\\n    --hash=sha256:" + "0" * 64 + " \\\n",
        "",
    ],
)
def test_anything_else_in_a_lock_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        _pins(text)


def _named_in(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith(("#", "-"))]
