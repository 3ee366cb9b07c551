"""Gates decide by what is there and not by what is said: each outcome with its word, and nothing grows or is left."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import is_alive, text_in
from tests.unit.delegation.reviewed_task import make_gates, make_task, run_python
from tests.waiting import PATIENCE
from toolstead.delegation import gate_files
from toolstead.delegation.feedback import MOST_FEEDBACK
from toolstead.delegation.gates import LONGEST_LABEL, MOST_OUTPUT, GateResult
from toolstead.schema.compiled import CompiledSchema
from toolstead.tools.handlers.pinned import Pinned
from toolstead.tools.validation import UNVALIDATED

CLAIM = "All tests pass. I ran them twice."
COUNTED: Mapping[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}}},
    "required": ["count"],
}
HANGING = """
import os, sys, time
from pathlib import Path
if os.fork() == 0:
    os.setsid()
    Path("child").write_text(str(os.getpid()))
    time.sleep(1000)
while not Path("child").exists():
    pass
Path("parent").write_text(str(os.getpid()))
print("waiting for godot", flush=True)
time.sleep(1000)
"""


async def ran(folder: Path, *gates: Mapping[str, Any], answer: str = CLAIM, **other: Any) -> list[GateResult]:
    async with asyncio.timeout(PATIENCE):
        return await make_gates(folder, gates, **other).run_gates(make_task(), answer)


async def test_a_command_that_exits_with_0_passes_and_its_output_is_evidence(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), flush=True); print(sorted(os.environ), file=sys.stderr)"
    [result] = await ran(tmp_path, run_python(code))
    assert (result.passed, result.feedback, result.defect) == (True, "", "")
    where, names = result.output.splitlines()
    assert where == str(tmp_path.resolve())
    assert "'PATH'" in names
    assert "'LC_ALL'" in names
    assert "SECRET" not in names, "a command sees no keys of the user's"
    assert result.to_json() == {"gate": result.gate, "passed": True, "output": result.output}


async def test_a_false_claim_does_not_help_while_a_command_fails(tmp_path: Path) -> None:
    code = "import sys; print('\\x1b[31mFAILED\\x1b[0m test_sum - assert 3 == 4'); sys.exit(1)"
    [result] = await ran(tmp_path, run_python(code), answer=CLAIM)
    assert result.passed is False
    assert result.feedback.startswith("The gate `")
    assert result.feedback.endswith("did not pass: exit status 1.\nFAILED test_sum - assert 3 == 4")
    assert result.output == "FAILED test_sum - assert 3 == 4\nexit status 1"


async def test_no_shell_is_ever_started(tmp_path: Path) -> None:
    [quoted, operator] = await ran(
        tmp_path,
        run_python("import sys; print(sys.argv[1:])", "; touch injected", "$(touch injected)", "*"),
        {"command": "true ; touch injected"},
    )
    assert quoted.output == "['; touch injected', '$(touch injected)', '*']"
    assert operator.passed is None
    assert "no shell is started" in operator.output
    assert list(tmp_path.iterdir()) == []


async def test_the_same_defect_is_recognised_and_another_one_is_not(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, secrets, tempfile; from pathlib import Path;"
        "print(f'{\"=\" * (2 + os.getpid() % 7)} {sys.argv[1]} in {time.perf_counter():.2f}s');"
        "print(f'<Thing at {id(object())*secrets.randbelow(9):#x}> {secrets.token_hex(8)} {tempfile.mktemp()}');"
        "print(time.strftime('%Y-%m-%dT%H:%M:%S'), os.getpid()); sys.exit(1)"
    )
    first, again, other = await ran(tmp_path, *(run_python(code, name) for name in ("test_a", "test_a", "test_b")))
    assert first.output != again.output
    assert first.defect == again.defect
    assert other.defect != first.defect
    assert "test_a" in first.defect


async def test_a_command_that_hangs_is_rejected_and_its_whole_group_is_gone(tmp_path: Path) -> None:
    [result] = await ran(tmp_path, run_python(HANGING, timeout=2))
    assert result.passed is False
    assert "did not end within 2 seconds" in result.feedback
    assert result.feedback.endswith("waiting for godot")
    assert "godot" not in result.defect, "how far it came is no part of the defect"
    for name in ("parent", "child"):
        assert not is_alive(int(await text_in(tmp_path / name))), name


async def test_a_cancelled_review_ends_the_command_that_runs(tmp_path: Path) -> None:
    review = asyncio.create_task(ran(tmp_path, run_python(HANGING, timeout=1000)))
    await text_in(tmp_path / "parent")
    review.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(review, PATIENCE)
    for name in ("parent", "child"):
        assert not is_alive(int(await text_in(tmp_path / name))), name


async def test_who_prints_without_end_takes_no_memory_and_is_ended(tmp_path: Path) -> None:
    endless = (
        "import os; from pathlib import Path; Path('pid').write_text(str(os.getpid())); os.write(1, b'first\\n')\n"
        "while True: os.write(1, b'y' * 65536)"
    )
    tracemalloc.start()
    try:
        [result] = await ran(tmp_path, run_python(endless, timeout=2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.passed is False
    assert peak < 16_000_000
    assert len(result.output) <= MOST_OUTPUT
    assert result.output.startswith("first\nyyyy")
    assert "bytes left out here" in result.output or "characters left out" in result.output
    assert len(result.feedback) <= MOST_FEEDBACK
    assert not is_alive(int(await text_in(tmp_path / "pid")))


async def test_feedback_is_bounded_and_has_the_end_of_much_output(tmp_path: Path) -> None:
    code = "import sys; [print(f'line {n}') for n in range(200000)]; print('the reason'); sys.exit(2)"
    [result] = await ran(tmp_path, run_python(code, "x" * 1000))
    assert len(result.feedback) <= MOST_FEEDBACK
    assert len(result.gate) == LONGEST_LABEL
    assert result.feedback.endswith("the reason")
    assert result.output.endswith("the reason\nexit status 2")


async def test_a_signal_is_named(tmp_path: Path) -> None:
    [result] = await ran(tmp_path, run_python("import os; os.kill(os.getpid(), 9)"))
    assert result.passed is False
    assert result.feedback.endswith("did not pass: it was ended by signal 9.")


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ({"command": "no-such-program-anywhere -q"}, "program not found: no-such-program-anywhere"),
        ({"command": "./plain.txt"}, "cannot be started: Permission denied"),
        ({"command": "./empty"}, "cannot be started: Exec format error"),
        ({"command": "'open"}, "quotes do not match"),
        ({"files": ["../out.txt"]}, "leads out"),
        ({"nonsense": 1}, "either {command:"),
    ],
)
async def test_a_gate_that_cannot_be_run_is_unknown_and_blames_nobody(
    gate: Mapping[str, Any], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain.txt").write_text("x")
    (tmp_path / "empty").touch(0o755)
    [result] = await ran(tmp_path, gate)
    assert (result.passed, result.defect) == (None, "")
    assert why in result.output
    assert why in result.feedback
    assert "task_1" in caplog.text


async def test_a_program_of_the_projects_own_folder_runs_as_it_was_approved(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "copy"
    for folder, status in ((project / ".toolstead", 0), (copy, 1)):
        folder.mkdir(parents=True)
        (folder / "check.py").write_text(f"raise SystemExit({status})")
    pinned = Pinned(live=project / ".toolstead", copy=copy)
    gates = [{"command": f"{sys.executable} {word}"} for word in (".toolstead/check.py", "-c 'open(\".toolstead/x\")'")]
    assert [result.passed for result in await ran(project, *gates)] == [True, False]
    changed, code = await ran(project, *gates, pinned=pinned)
    assert (changed.passed, code.passed) == (False, None), "a task that rewrites the check does not pass it"
    assert "not what was approved" in code.output


async def test_without_the_folder_every_gate_is_unknown(tmp_path: Path) -> None:
    results = await ran(tmp_path / "gone", run_python("pass"), {"files": ["a"]})
    assert [result.passed for result in results] == [None, None]
    assert all("does not exist" in result.output for result in results)


async def test_all_gates_run_whatever_becomes_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object) -> list[str]:
        raise ZeroDivisionError("private")

    monkeypatch.setattr("toolstead.delegation.gates.find_missing", crash)
    results = await ran(
        tmp_path, {"files": ["a"]}, run_python("raise SystemExit(3)"), run_python("pass"), schema=COUNTED, answer="{}"
    )
    assert [result.passed for result in results] == [None, False, True, False]
    assert "it crashed (ZeroDivisionError)" in results[0].output
    assert "private" not in results[0].output
    assert "private" in caplog.text


async def test_whatever_finding_the_gates_raises_is_unknown(tmp_path: Path) -> None:
    def crash(_: object) -> Path:
        raise LookupError("the agent is gone")

    [result] = await make_gates(tmp_path, folder_of=crash).run_gates(make_task(), "x")
    assert (result.gate, result.passed) == ("gates", None)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder of a task, with links to what is inside and outside it."""
    folder = tmp_path / "work"
    (folder / "dist" / "deep" / "er").mkdir(parents=True)
    (folder / "report.md").touch()
    (folder / "dist" / "a-1.whl").touch()
    (folder / "dist" / "deep" / "er" / "b.txt").touch()
    (folder / ".hidden").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").touch()
    (folder / "leak.md").symlink_to(outside / "secret.md")
    (folder / "leak").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "broken").symlink_to(folder / "nowhere")
    (folder / "near.md").symlink_to(folder / "report.md")
    return folder


@pytest.mark.parametrize(
    "pattern",
    [
        *("report.md", "./report.md", "dist/*.whl", "dist", "**/b.txt", "dist/**/b.txt", "**/*.whl", "near.md"),
        *("dist/d*/e?/[ab].txt", ".hid*", "loop/report.md", "loop/loop/dist/*.whl", "dist/**", "**/**/b.txt"),
    ],
)
async def test_files_and_globs_that_are_there_pass(pattern: str, work: Path) -> None:
    [result] = await ran(work, {"files": [pattern]})
    assert result.passed is True


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("missing.md", "it is not there"),
        ("report.md/x", "it is not there"),
        ("broken", "it is not there"),
        ("*.whl", "nothing matches it"),
        ("*hidden", "nothing matches it"),
        ("**/missing-*", "nothing matches it"),
        ("leak.md", "a link leads out"),
        ("leak/secret.md", "a link leads out"),
        ("leak/*", "a link leads out"),
        ("leak*/secret.md", "a link leads out"),
    ],
)
async def test_what_is_missing_or_lies_outside_does_not_pass(pattern: str, why: str, work: Path) -> None:
    [result] = await ran(work, {"files": ["report.md", pattern]})
    assert result.passed is False
    first, second = result.feedback.splitlines()
    assert first == f"The gate `files: report.md, {pattern}` did not pass: files are missing in the task's folder."
    assert second.startswith(f"{pattern}: {why}")


async def test_a_search_through_too_much_is_unknown(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_files, "MOST_ENTRIES", 5)
    [result] = await ran(work, {"files": ["**/no-such"]})
    assert result.passed is None
    assert "more than 5 files" in result.output


@pytest.fixture
def deep_folder(work: Path) -> Iterator[Path]:
    """A folder below more folders than Python can recurse into; what removes temporary files would recurse, too."""
    folders = [work.joinpath(*"d" * depth) for depth in range(1, sys.getrecursionlimit() + 100)]
    for folder in folders:
        folder.mkdir()
    yield folders[-1]
    for folder in reversed(folders):
        folder.rmdir()


async def test_a_folder_deeper_than_python_can_recurse_is_searched(work: Path, deep_folder: Path) -> None:
    there, missing = await ran(work, {"files": ["**/d"]}, {"files": ["**/no-such"]})
    assert (there.passed, missing.passed) == (True, False)
    (deep_folder / "last.txt").touch()
    [there] = await ran(work, {"files": ["**/last.txt"]})
    (deep_folder / "last.txt").unlink()
    assert there.passed is True


@pytest.mark.parametrize(
    ("answer", "passed", "said"),
    [
        ('{"count": 3}', True, ""),
        ('Here it is:\n```json\n{"count": 3, "names": ["a"]}\n```\nDone.', True, ""),
        ("There are three.", False, "(answer): it is no JSON"),
        ('{"count": "3", "names": ["a", 5]}', False, "/count: expected integer"),
        ('{"count": 1, "names": ["a", 5]}', False, "/names/1: expected string"),
        ("[]", False, "(answer): expected object"),
        ("{}", False, "count"),
    ],
)
async def test_an_answer_must_fit_its_schema_and_the_reasons_have_pointers(
    answer: str, passed: bool, said: str, tmp_path: Path
) -> None:
    [result] = await ran(tmp_path, answer=answer, schema=COUNTED)
    assert (result.gate, result.passed) == ("result_schema", passed)
    assert said in result.feedback
    assert "(arguments)" not in result.feedback
    assert bool(result.defect) is not passed


async def test_what_cannot_be_validated_is_unknown(tmp_path: Path) -> None:
    async def no_process(_schema: CompiledSchema, _value: Any) -> list[str]:
        return [f"{UNVALIDATED} (no answer within 15 seconds); try again, or give less"]

    [result] = await ran(tmp_path, answer="{}", schema=COUNTED, find_problems=no_process)
    assert (result.passed, result.output.partition(" (")[0]) == (None, "they could not be validated")
    [result] = await ran(tmp_path, answer="{}", schema={"type": "strin"})
    assert (result.passed, "no valid schema" in result.output) == (None, True)
