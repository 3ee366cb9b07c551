"""Commands whose standard streams are closed or full, as schedulers and shells start them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.programs.running import TOOLSTEAD
from tests.surfaces.talking_project import Finished, Project, make_project
from tests.waiting import PATIENCE

FULL = "toolstead: stdout cannot be written: no space left on device\n"


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return make_project(tmp_path, home)


def in_shell(project: Project, words: str, redirection: str) -> Finished:
    line = f"{shlex.join(TOOLSTEAD)} {words} {redirection}"
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=project.folder,
        env={**os.environ, "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("redirection", "answer"),
    [("<&-", "Hello hi\n"), (">&-", ""), ("2>&-", "Hello hi\n"), ("2>/dev/full", "Hello hi\n"), ("<&- >&- 2>&-", "")],
)
def test_a_question_is_answered_whichever_stream_is_closed(project: Project, redirection: str, answer: str) -> None:
    done = in_shell(project, "ask hi", redirection)
    assert (done.returncode, done.stdout) == (0, answer), done.stderr
    assert "Traceback" not in done.stderr
    assert project.runs() == [("hi", "completed")]


@pytest.mark.parametrize("words", ["ask hi", "tools list", "--help"])
def test_an_output_that_cannot_be_written_is_one_sentence_and_a_failure(project: Project, words: str) -> None:
    done = in_shell(project, words, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.endswith(FULL)
    assert "Traceback" not in done.stderr


def test_a_server_for_a_client_still_says_that_its_wire_is_closed(project: Project) -> None:
    done = in_shell(project, "mcp", "<&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolstead: stdin is closed; an MCP client connects to both stdin and stdout\n"
