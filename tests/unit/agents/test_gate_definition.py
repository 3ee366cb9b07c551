"""Gates as authors write them: what can be run is read, and what never could is refused with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.agents.gate_definition import (
    LONGEST_TIMEOUT,
    TIMEOUT,
    CommandGate,
    FilesGate,
    InvalidGateError,
    read_gate,
)


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("pytest -q", ("pytest", "-q")),
        ("  make   check ", ("make", "check")),
        ("""python -c "import sys; sys.exit(1 > 0)" """, ("python", "-c", "import sys; sys.exit(1 > 0)")),
        (r"grep -q 'a|b && $c' it\'s\;", ("grep", "-q", "a|b && $c", "it's;")),
        ("pytest tests/a.py::test_b[1-2] -k 'not slow'", ("pytest", "tests/a.py::test_b[1-2]", "-k", "not slow")),
        ("grep -E end$ a.txt", ("grep", "-E", "end$", "a.txt")),
        (r'printf "a \" ; b"', ("printf", 'a " ; b')),
    ],
)
def test_a_command_is_split_as_a_shell_would_and_quotes_protect(command: str, argv: tuple[str, ...]) -> None:
    assert read_gate({"command": command}) == CommandGate(command=command, argv=argv, timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ({"command": "pytest && ruff check"}, "no shell is started, so `&&`"),
        ({"command": "cat a | sort"}, "`|` has no meaning"),
        ({"command": "make; make"}, "`;`"),
        ({"command": "make > log"}, "`>`"),
        ({"command": "echo $HOME"}, r"`\$`"),
        ({"command": "echo `date`"}, "no shell"),
        ({"command": "make\nmake"}, "a line break"),
        ({"command": 'echo "open'}, "quotes do not match"),
        ({"command": "a\0b"}, "null byte"),
        ({"command": "  "}, "names no program"),
        ({"command": "''"}, "names no program"),
        ({"command": "a", "timeout": 0}, "above 0"),
        ({"command": "a", "timeout": float("nan")}, "above 0"),
        ({"command": "a", "timeout": True}, "above 0"),
        ({"command": "a", "files": ["b"]}, "either"),
        ({"command": ["a"]}, "either"),
        ({"command": "a", "shell": True}, "either"),
        ({}, "either"),
        ({"files": []}, "at least one"),
        ({"files": "a.txt"}, "either"),
        ({"files": ["a.txt"], "timeout": 3}, "either"),
        ({"files": ["/etc/passwd"]}, "leads out"),
        ({"files": ["a/../../b"]}, "leads out"),
        ({"files": ["."]}, "the task's folder itself"),
        ({"files": [""]}, "a path or a glob"),
        ({"files": [7]}, "a path or a glob"),
    ],
)
def test_a_gate_that_could_never_run_is_refused_with_what_would_be_right(gate: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidGateError, match=why):
        read_gate(gate)


def test_files_and_times_are_read_and_a_timeout_has_an_upper_bound() -> None:
    assert read_gate({"files": ["a.txt", "dist/*.whl"]}) == FilesGate(files=("a.txt", "dist/*.whl"))
    assert read_gate({"command": "a", "timeout": 2}) == CommandGate(command="a", argv=("a",), timeout=2.0)
    assert read_gate({"command": "a", "timeout": 1e12}) == CommandGate(
        command="a", argv=("a",), timeout=LONGEST_TIMEOUT
    )
