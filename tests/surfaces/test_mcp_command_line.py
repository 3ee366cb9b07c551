"""`toolstead mcp` is understood without click where that is plain, and never otherwise than click would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolstead.console.cli import group, main, mcp
from toolstead.console.cli.invocation import CommandContext
from toolstead.console.cli.stdio import plainly_asked
from toolstead.errors import SettingsError

WORDS = ("mcp", "--project", "--project=.", "--project=/nowhere", "--project=", "--set", "--set=a=b", "--set=", "-v")
WORDS += (
    "--verbose",
    "-vv",
    "-h",
    "--version",
    "--",
    "-",
    "",
    ".",
    "..",
    "--profile",
    "--profile=few",
    "--profile=",
    "--log-format",
    "--log-format=json",
    "text",
    "tool.py",
    "-.py",
    "/nowhere",
    "a.b=1",
    "--verbos",
    "tools",
    "-x",
)


@contextmanager
def _understood() -> Iterator[list[CommandContext]]:
    """What click understands: the server itself is not started."""
    heard: list[CommandContext] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcp, "serve", lambda invocation, *, fast_path: heard.append(invocation) or 0)
        yield heard


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS), max_size=4), st.lists(st.sampled_from(WORDS), max_size=4))
def test_what_is_understood_without_click_is_what_click_understands(before: list[str], after: list[str]) -> None:
    words = [*before, "mcp", *after]
    plain = plainly_asked(words)
    if plain is not None:
        with _understood() as heard:
            assert group.run(words) == 0
        assert heard == [plain]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["mcp"], CommandContext()),
        (["--project", ".", "mcp"], CommandContext(project=Path())),
        (["--project=.", "mcp", "--project", ".."], CommandContext(project=Path(".."))),
        (["--set", "a.b=1", "mcp", "--set=c.d=x=y"], CommandContext(overrides=("a.b=1", "c.d=x=y"))),
        (["-v", "mcp", "-v", "--verbose"], CommandContext(verbose=2)),
        (["mcp", "--profile", "a", "--profile=few"], CommandContext(profile="few")),
        (["-v", "-v", "mcp", "-v"], CommandContext(verbose=2)),
    ],
)
def test_the_usual_command_lines_are_understood_without_click(words: list[str], expected: CommandContext) -> None:
    assert plainly_asked(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-v"],
        ["mcp", "mcp"],
        ["tools", "mcp"],
        ["mcp", "--help"],
        ["mcp", "--"],
        ["mcp", "--set"],
        ["mcp", "--set", "-v"],
        ["mcp", "--set="],
        ["mcp", "--project", "--set"],
        ["mcp", "--project", "/nowhere/at/all"],
        ["mcp", "--proj=."],
        ["--profile", "few", "mcp"],
        ["mcp", "--profile"],
        ["mcp", "-v=1"],
    ],
)
def test_everything_else_is_left_to_click(words: list[str]) -> None:
    assert plainly_asked(words) is None


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        (EOFError(), 130, "\ninterrupted\n"),
        (SettingsError(key="a.b", origin="here", reason="it is odd"), 2, "it is odd\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_server_that_an_error_ends_ends_the_same_with_and_without_click(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: CommandContext, *, fast_path: bool = True) -> int:
        raise error

    monkeypatch.setattr(main, "serve", fail)
    monkeypatch.setattr(mcp, "serve", fail)
    ends: list[tuple[object, str]] = []
    for words in (["mcp"], ["mcp", "--"]):
        monkeypatch.setattr(sys, "stdout", sys.stdout)  # click wraps both when a pipe broke
        monkeypatch.setattr(sys, "stderr", sys.stderr)
        with pytest.raises(SystemExit) as end:
            main.main(words)
        ends.append((end.value.code, capsys.readouterr().err))
    assert ends[0] == ends[1]
    assert ends[0][0] == status
    assert ends[0][1].endswith(said)


def test_what_is_wrong_with_the_settings_is_said_as_by_every_command(tmp_path: Path) -> None:
    done = [
        subprocess.run(
            [sys.executable, "-m", "toolstead", *words],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        for words in (["mcp", "--set", "tools.timeout=never"], ["mcp", "--set", "tools.timeout=never", "--"])
    ]
    assert done[0].returncode == done[1].returncode == 2
    assert done[0].stderr == done[1].stderr
    assert done[0].stderr.startswith("toolstead: ")
