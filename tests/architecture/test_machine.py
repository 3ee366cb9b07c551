"""Skips are counted by name, and `TOOLSTEAD_REQUIRE` turns them into failures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import TESTS

NEEDS_GIT = """
import os
import pytest

@pytest.mark.requires("git")
def test_marked(): ...

class TestOthers:
    pytestmark = pytest.mark.requires("git")
    def test_in_a_marked_class(self): ...

def test_asking_while_it_runs(requires):
    requires("git")

def test_without_needs(): ...
"""

NEEDS_AN_EXTRA = """
import pytest
import a_package_of_an_extra

pytestmark = [pytest.mark.promise("X"), pytest.mark.requires("git")]

def test_one(): ...

class TestOthers:
    @pytest.mark.parametrize("number", [1, 2])
    async def test_two(self, number): ...
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run pytest on a text of tests, under our own conftest, on a machine without any program on its PATH."""
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "machine.py"):
        shutil.copy(TESTS / name, tests / name)
    (tmp_path / "pyproject.toml").write_text((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))

    def run_pytest(text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (tests / "test_inner.py").write_text(text, encoding="utf-8")
        surroundings = {**os.environ, "PATH": str(tmp_path / "nothing"), **environment}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            *arguments,
        ]
        return subprocess.run(
            command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=100, check=False
        )

    return run_pytest


def test_what_is_lacking_is_skipped_and_counted_by_name(run) -> None:
    done = run(NEEDS_GIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lacking git: 3 tests skipped (no git on PATH)" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed, 3 skipped")


def test_a_module_that_requires_what_is_lacking_is_not_imported_and_each_of_its_tests_is_counted(run) -> None:
    done = run(NEEDS_AN_EXTRA)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lacking git: 2 tests skipped (no git on PATH)" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 skipped")


def test_a_module_that_requires_what_is_lacking_fails_the_run_where_that_is_required(run) -> None:
    done = run(NEEDS_AN_EXTRA, TOOLSTEAD_REQUIRE="git")
    assert done.returncode != 0
    assert "TOOLSTEAD_REQUIRE asks for 'git', which this machine lacks: no git on PATH" in done.stderr


def test_what_is_there_is_run_and_nothing_is_said(run) -> None:
    done = run(NEEDS_GIT, PATH=os.environ["PATH"])
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert "lacking" not in done.stdout


def test_a_required_thing_that_is_lacking_fails_the_run_before_it_starts(run) -> None:
    done = run(NEEDS_GIT, TOOLSTEAD_REQUIRE="root, git")
    assert done.returncode != 0
    assert "TOOLSTEAD_REQUIRE asks for 'git', which this machine lacks: no git on PATH" in done.stderr
    assert "passed" not in done.stdout


def test_a_required_thing_that_shows_while_a_test_runs_fails_that_test(run) -> None:
    done = run(NEEDS_GIT, "-k", "asking", TOOLSTEAD_REQUIRE="git")
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "TOOLSTEAD_REQUIRE asks for 'git', which this machine lacks: no git on PATH" in done.stdout


def test_an_unknown_required_name_is_an_error_that_names_the_nearest(run) -> None:
    done = run(NEEDS_GIT, TOOLSTEAD_REQUIRE="nod")
    assert done.returncode != 0
    assert "TOOLSTEAD_REQUIRE: unknown name 'nod'; did you mean 'node'?" in done.stderr


def test_an_unknown_name_in_a_mark_is_an_error_that_names_the_nearest(run) -> None:
    done = run("import pytest\n@pytest.mark.requires('giit')\ndef test_x(): ...\n")
    assert done.returncode != 0
    assert "unknown name 'giit'; did you mean 'git'?" in done.stderr + done.stdout


def test_tests_are_shielded_from_the_home_and_the_settings_of_whoever_runs_them(run) -> None:
    text = """
import os
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def early():
    return dict(os.environ)

def test_x(early, home, tmp_path):
    for environ in (early, os.environ):
        assert "TOOLSTEAD_TOKEN" not in environ and "GIT_DIR" not in environ
        assert "mine" not in environ["HOME"] + environ["TOOLSTEAD_HOME"] + environ["XDG_DATA_HOME"]
    assert Path.home() == home and not list(home.iterdir()) and not list(tmp_path.iterdir())
    assert early["HOME"] != os.environ["HOME"]
"""
    mine = {
        "HOME": "/mine",
        "TOOLSTEAD_HOME": "/mine",
        "XDG_DATA_HOME": "/mine",
        "TOOLSTEAD_TOKEN": "x",
        "GIT_DIR": "x",
    }
    done = run(text, **mine)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_hanging_test_is_ended(run) -> None:
    done = run("import threading\ndef test_x():\n    threading.Event().wait()\n", "--timeout=1")
    assert done.returncode != 0
    assert "Timeout" in done.stdout


def test_a_warning_is_an_error(run) -> None:
    done = run("import warnings\ndef test_x():\n    warnings.warn('mind', stacklevel=1)\n")
    assert "1 failed" in done.stdout
