"""Handlers are equal when the same text in the same place made them: else an edit would go unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstead.tools.handlers.file_read import FileReadConfig, FileReadHandler
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.shell import ShellConfig, ShellHandler, load_shell

pytestmark = pytest.mark.promise("R6")


def shell(root: str = "/", **config: Any) -> ShellHandler:
    surroundings = Surroundings(root=Path(root), environ={})
    given = ShellConfig(**{"command": "ls {{x}}", **config})
    return load_shell(given, properties=["x"], required=["x"], with_default=[], surroundings=surroundings)


def file_read(root: str = "/", **config: Any) -> FileReadHandler:
    return FileReadHandler(FileReadConfig(**{"base_path": "a", **config}), Surroundings(root=Path(root), environ={}))


@pytest.mark.parametrize(
    "change",
    [
        {"root": "/tmp"},
        {"command": "ls -l {{x}}"},
        {"cwd": "a"},
        {"env": {"A": "1"}},
        {"stdin": "{{x}}"},
        {"max_output": 2_000},
        {"stream": True},
        {"allow_leading_dash": ["x"]},
        {"allow_script": ["x"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_command_differs_where_anything_of_it_does(change: dict[str, Any]) -> None:
    assert shell() == shell()
    assert hash(shell()) == hash(shell())
    assert shell() != shell(**change)
    assert shell(**change) == shell(**change)


@pytest.mark.parametrize(
    "change", [{"root": "/tmp"}, {"base_path": "b"}, {"max_size": 5}], ids=lambda change: next(iter(change))
)
def test_a_reader_of_files_differs_where_anything_of_it_does(change: dict[str, Any]) -> None:
    assert file_read() == file_read()
    assert hash(file_read()) == hash(file_read())
    assert file_read() != file_read(**change)
    assert file_read() != shell()
