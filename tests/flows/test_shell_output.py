"""What commands of tool files answer: any size, any bytes, any ending, and the rules of a shell without a shell."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.flows.tool_files import opened, shell, write
from tests.programs.running import TOOLSTEAD, running
from tests.waiting import PATIENCE
from toolstead import ToolResult, Toolstead
from toolstead.orchestrator.feed import EventReader
from toolstead.types.content import Text

pytestmark = pytest.mark.promise("R2")

NOTE = re.compile(r"\n\[toolstead: ([\d,]+) of ([\d,]+) bytes left out here\]\n")
DEFAULT_LIMIT = 262_144


async def answer(folder: Path, command: str, input: dict[str, Any] | None = None, **handler: Any) -> ToolResult:
    """What a tool with this command answers."""
    (folder / "tools").mkdir(exist_ok=True)
    write(folder / "tools/it.json", shell("it", command, *(input or {}), **handler))
    async with opened(folder, watch=False) as stead, asyncio.timeout(PATIENCE * 3):
        assert stead.tool_files()[0].problems == ()
        return await stead.call("it", input)


# Endings


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("sh -c 'echo out; echo err >&2; exit 3'", "out\nerr\nexit status 3"),
        ("sh -c 'exit 255'", "exit status 255"),
        ("sh -c 'kill -9 $$'", "ended by signal 9"),
        ("sh -c 'echo a; kill -TERM $$'", "a\nended by signal 15"),
        ("false", "exit status 1"),
        ("no-such-program", "no-such-program: program not found; install it, or give its path\nexit status 127"),
        ("./plain", "./plain: cannot be run: Permission denied\nexit status 126"),
        ("cat /no/such/file", "cat: /no/such/file: No such file or directory\nexit status 1"),
    ],
)
async def test_a_bad_ending_is_an_error_with_both_outputs_and_the_reason(
    command: str, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "tools").mkdir()
    write(tmp_path / "tools/it.json", shell("it", command))
    async with opened(tmp_path, watch=False) as stead:
        with stead.events(types=["tool_result"]) as events:
            result = await stead.call("it")
            event = await _next(events)
    assert result.is_error
    assert result.text == text
    assert event["isError"] is True
    assert event["content"] == text
    assert text.splitlines()[-1] in caplog.text


async def _next(events: EventReader) -> Any:
    async with asyncio.timeout(PATIENCE):
        return (await anext(events)).data


async def test_stderr_of_a_good_ending_goes_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        result = await answer(tmp_path, "sh -c 'echo good; echo careful >&2'")
    assert (result.is_error, result.text) == (False, "good\n")
    assert "stderr: careful" in caplog.text


async def test_a_search_that_finds_nothing_is_an_answer_and_one_that_fails_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("TODO\n")
    nothing = await answer(tmp_path, "grep -n FIXME notes.txt", okStatus=[0, 1])
    assert (nothing.is_error, nothing.text) == (False, "")
    missing = await answer(tmp_path, "grep -rn TODO no-such-folder", okStatus=[0, 1])
    assert missing.is_error
    assert missing.text.splitlines()[-1] == "exit status 2"
    assert (await answer(tmp_path, "grep -n FIXME notes.txt")).text == "exit status 1"
    assert (await answer(tmp_path, "grep -n TODO notes.txt", okStatus=[1])).is_error


async def test_a_folder_that_is_missing_is_told_before_anything_starts(tmp_path: Path) -> None:
    result = await answer(tmp_path, "pwd", cwd="no/such")
    assert result.text == f"the folder '{tmp_path}/no/such' that this tool runs in does not exist"
    (tmp_path / "there").mkdir()
    assert (await answer(tmp_path, "pwd", cwd="there")).text == f"{(tmp_path / 'there').resolve()}\n"


async def test_more_arguments_than_the_system_takes_are_an_error_that_says_so(tmp_path: Path) -> None:
    value = "x" * 10_000
    result = await answer(tmp_path, "echo " + "{{x}}" * 30, {"x": value})
    assert result.text == "echo cannot be started: Argument list too long"


# The rules of a shell

SCRIPTS = """
true
false
true; false
false; true
true && true
true && false
false && true
false && false
true || false
false || true
false || false
true && false || true
false && true || true
false || true && false
true || false && true
true || true && false
false || false || true
true && true && false
true; false && true
false; true || false
true && false; true
false || true; false
sh -c 'exit 3' || sh -c 'exit 4'
sh -c 'exit 3' && sh -c 'exit 4' || sh -c 'exit 5'
sh -c 'exit 3'; sh -c 'exit 0'
true | false
false | true
true | false || true
false | true && false
true | sh -c 'exit 9' ; sh -c 'exit 7'
echo a && echo b || echo c
echo a || echo b && echo c
false && echo a || echo b; echo c && false || echo d
echo a | cat | cat && echo b
echo x; false; echo y
no-such-program-x || echo instead
no-such-program-x && echo never; echo always
sh -c 'kill -9 $$' || echo killed
printf 'one two\\n' | tr ' ' '\\n' | sort -r
true ;
""".strip().splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
async def test_operators_do_what_they_do_in_sh(script: str, tmp_path: Path) -> None:
    theirs = await asyncio.to_thread(
        subprocess.run, ["/bin/sh", "-c", script], capture_output=True, text=True, check=False
    )
    ours = await answer(tmp_path, script)
    status = int(ours.text.rpartition("exit status ")[2]) if ours.is_error else 0
    assert status == theirs.returncode
    shown = re.sub(r"(^|\n)(no-such-program-x: .*\n)?exit status \d+$", "", ours.text) if ours.is_error else ours.text
    assert shown.rstrip("\n") == theirs.stdout.rstrip("\n")


# Sizes and bytes


FIVE_GIGABYTES = 5_000_000_000


def _peak(pid: int, *, forget: bool = False) -> int:
    """The most memory a process had since it was last forgotten, in bytes; what it has now where nobody counts that."""
    known = Path(f"/proc/{pid}/status")
    if not known.exists():
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
        return int(shown.stdout) * 1_024
    if forget:
        known.with_name("clear_refs").write_text("5", "ascii")
    return int(known.read_text("ascii").partition("VmHWM:")[2].split()[0]) * 1_024


async def test_five_gigabytes_cost_the_server_bounded_memory_and_are_counted_to_the_byte(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    write(tmp_path / "tools/it.json", shell("flood", "head -c {{bytes}} /dev/zero", "bytes", timeout=PATIENCE * 3_000))
    environ = {"TOOLSTEAD_TOOLS_DIR": str(tmp_path / "tools")}
    command = [*TOOLSTEAD, "serve", "--port", "0"]
    async with running(command, errors=tmp_path / "stderr.txt", cwd=tmp_path, env=environ) as server:
        address = (await server.stderr_with("/docs")).partition("/api/tools")[0].rpartition(" ")[2]
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE * 3) as client:
            before = 0
            for size in (10_000_000, FIVE_GIGABYTES):  # what is made once is there
                before = _peak(server.pid, forget=True)
                answer = (await client.post("/api/tools/flood/call", json={"input": {"bytes": str(size)}})).json()
        assert _peak(server.pid) - before < 64 << 20
    text = answer["content"][0]["text"]
    head, left_out, total, tail = NOTE.split(text)
    assert int(total.replace(",", "")) == FIVE_GIGABYTES
    assert int(left_out.replace(",", "")) == FIVE_GIGABYTES - len(head) - len(tail)
    assert len(text) <= DEFAULT_LIMIT
    assert len(head) + len(tail) > DEFAULT_LIMIT - 1_000


async def test_the_head_and_the_tail_of_a_long_answer_are_kept(tmp_path: Path) -> None:
    result = await answer(tmp_path, "seq 1 1000000")
    whole = "".join(f"{number}\n" for number in range(1, 1_000_001))
    head, left_out, total, tail = NOTE.split(result.text)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert int(total.replace(",", "")) == len(whole)
    assert int(left_out.replace(",", "")) == len(whole) - len(head) - len(tail)
    assert len(head) > 2 * len(tail) > 0


@pytest.mark.parametrize("limit", [1_024, 5_000])
async def test_the_tools_own_limit_counts(limit: int, tmp_path: Path) -> None:
    result = await answer(tmp_path, "seq 1 100000", maxOutput=limit)
    assert len(result.text) <= limit
    assert NOTE.search(result.text)


async def test_bytes_that_are_no_text_are_shown_as_such_and_counted(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4_096
    (tmp_path / "data").write_bytes(data)
    result = await answer(tmp_path, "cat data")
    _, left_out, total, _ = NOTE.split(result.text)
    assert int(total.replace(",", "")) == len(data)
    assert 0 < int(left_out.replace(",", "")) < len(data)
    assert len(result.text.encode()) <= DEFAULT_LIMIT
    (tmp_path / "data").write_bytes(b"\xff\x00a\xc3\xa9\n")
    assert (await answer(tmp_path, "cat data")).text == "\ufffd\0a\u00e9\n"


async def test_a_character_that_arrives_in_two_pieces_is_whole(tmp_path: Path) -> None:
    result = await answer(tmp_path, r"sh -c 'printf \\303; sleep 0.1; printf \\251; sleep 0.1; printf \\303\\251'")
    assert result.text == "éé"


async def test_an_answer_without_a_line_break_is_that(tmp_path: Path) -> None:
    assert (await answer(tmp_path, "printf 'no end'")).text == "no end"
    assert (await answer(tmp_path, "true")).text == ""


async def test_a_flood_of_errors_is_bounded_and_the_ending_is_still_told(tmp_path: Path) -> None:
    result = await answer(tmp_path, "sh -c 'seq 1 2000000 >&2; seq 1 200000; exit 4'")
    assert result.is_error
    assert isinstance(result.content[0], Text)
    assert result.content[0].text.endswith("\n2000000\nexit status 4")
    assert len(result.text.encode()) < DEFAULT_LIMIT + 1_000
    assert result.text.startswith("1\n2\n3\n")


async def test_what_a_good_command_writes_to_stderr_does_not_flood_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await answer(tmp_path, "sh -c 'seq 1 200000 >&2'")
    (told,) = [record.getMessage() for record in caplog.records if "stderr: 1\n2\n" in record.getMessage()]
    assert told.endswith("\n200000")
    assert len(told) < 66_000


async def test_the_tools_own_limit_counts_for_its_errors_too(tmp_path: Path) -> None:
    result = await answer(tmp_path, "sh -c 'seq 1 200000 >&2; exit 4'", maxOutput=1_024)
    assert result.text.endswith("\n200000\nexit status 4")
    assert len(result.text) <= 1_024
    assert [total for _, total in NOTE.findall(result.text)] == ["1,288,895"]  # cut once, and not again on its way


async def test_text_that_is_not_read_neither_hangs_nor_hurts(tmp_path: Path) -> None:
    text = "x" * 4_000_000
    assert (await answer(tmp_path, "true", {"text": text}, stdin="{{text}}")).text == ""
    assert (await answer(tmp_path, "head -c 5", {"text": text}, stdin="{{text}}")).text == "xxxxx"
    assert (await answer(tmp_path, "false", {"text": text}, stdin="{{text}}")).text == "exit status 1"
    assert (await answer(tmp_path, "wc -c", {"text": text}, stdin="{{text}}")).text.strip() == "4000000"
    assert (await answer(tmp_path, "cat", {"text": ""}, stdin="{{text}}")).text == ""
    refused = await answer(tmp_path, "cat", {"text": "x" * 4_194_305}, stdin="{{text}}")
    assert refused.text == "'text' is 4,194,305 characters long; at most 4,194,304 are allowed here"


async def test_only_the_first_command_of_a_script_reads_the_text(tmp_path: Path) -> None:
    assert (await answer(tmp_path, "cat && cat", {"text": "once"}, stdin="<{{text}}>")).text == "<once>"
    assert (await answer(tmp_path, "true; cat", {"text": "once"}, stdin="{{text}}")).text == ""


async def test_yes_into_head_ends(tmp_path: Path) -> None:
    assert (await answer(tmp_path, "yes {{word}} | head -2", {"word": "y;"})).text == "y;\ny;\n"


async def test_metacharacters_in_values_are_logged_by_the_parameters_name_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await answer(tmp_path, "echo {{quiet}} {{loud}}", {"quiet": "plain", "loud": "$(private)"})
    assert "'loud' holds characters a shell would act on; no shell is started" in caplog.text
    assert "'quiet' holds" not in caplog.text
    assert "private" not in caplog.text


async def test_the_steads_own_environment_is_asked_at_the_time_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    write(tmp_path / "tools/it.json", shell("it", "printenv TZ"))
    async with Toolstead(tmp_path, tools_dir=tmp_path / "tools", watch=False) as stead:
        for zone in ("UTC", "CET"):
            monkeypatch.setitem(os.environ, "TZ", zone)
            assert (await stead.call("it")).text == f"{zone}\n"
