"""Approvals: kept whole, read by hash, taken back; whatever is half done, broken or tampered with approves nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolstead.app import private_file
from toolstead.app.trust import approvals as module
from toolstead.app.trust.approvals import TrustStore, compare_snapshot
from toolstead.app.trust.snapshot import PinnedFile, Snapshot
from toolstead.errors import TrustError

pytestmark = pytest.mark.promise("R8")

PROJECT = Path("/somewhere/project")
PROGRAM = ".toolstead/bin/run"
OLD = Snapshot(files={PROGRAM: PinnedFile(data=b"old", executable=True), ".toolstead/x": PinnedFile(data=b"same")})
NEW = Snapshot(files={PROGRAM: PinnedFile(data=b"new", executable=True), ".toolstead/x": PinnedFile(data=b"same")})


@pytest.fixture
def approvals(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path)


@pytest.fixture
def place(approvals: TrustStore) -> Path:
    return approvals.approval_folder(PROJECT)


def running(approvals: TrustStore) -> bytes | None:
    """What a program of the project would run as."""
    file = approvals.approval_folder(PROJECT) / "current" / PROGRAM
    return file.read_bytes() if file.exists() else None


def approved(approvals: TrustStore) -> bytes | None:
    """What the loaders get, and what runs; they must be the same."""
    data = approvals.approved_content(PROJECT, PROGRAM)
    assert running(approvals) == data
    return data


# keeping and taking back


def test_what_is_approved_is_kept_privately_byte_for_byte_with_its_mode(approvals: TrustStore, place: Path) -> None:
    assert (approvals.read(PROJECT), approved(approvals)) == (None, None)
    kept = approvals.approve_snapshot(PROJECT, OLD)
    assert approvals.read(PROJECT) == kept
    assert approved(approvals) == b"old"
    assert approvals.approved_content(PROJECT, ".toolstead/other") is None
    modes = {path: (approvals.approval_folder(PROJECT) / "current" / path).stat().st_mode & 0o777 for path in OLD.files}
    assert modes == {PROGRAM: 0o500, ".toolstead/x": 0o400}
    private = [approvals.folder, place, place / OLD.digest, place / "approval.json"]
    assert [path.stat().st_mode & 0o077 for path in private] == [0, 0, 0, 0]


def test_another_approval_takes_the_place_of_the_first_and_only_the_last_two_copies_stay(
    approvals: TrustStore, place: Path
) -> None:
    for snapshot in (Snapshot(files={}), OLD, NEW):
        approvals.approve_snapshot(PROJECT, snapshot)
    assert approved(approvals) == b"new"
    assert {path.name for path in place.iterdir() if path.is_dir() and not path.is_symlink()} == {
        OLD.digest,
        NEW.digest,
    }


def test_what_is_taken_back_is_gone_and_nobody_is_asked_about_it_again(approvals: TrustStore, place: Path) -> None:
    assert approvals.revoke_approval(PROJECT) is False
    assert not place.exists()
    approvals.approve_snapshot(PROJECT, OLD)
    assert approvals.revoke_approval(PROJECT) is True
    assert (approvals.read(PROJECT), approved(approvals)) == (None, None)
    assert approvals.revoke_approval(PROJECT) is False
    assert {path.name for path in place.iterdir()} == {"approval.json", "approval.json.lock"}
    assert approvals.was_declined(PROJECT, OLD.digest)
    assert not approvals.was_declined(PROJECT, NEW.digest)
    assert approvals.all_approvals() == []


def test_a_no_is_remembered_for_exactly_these_bytes_and_takes_nothing_away(approvals: TrustStore) -> None:
    assert not approvals.was_declined(PROJECT, NEW.digest)
    approvals.approve_snapshot(PROJECT, OLD)
    approvals.decline_snapshot(PROJECT, NEW.digest)
    assert approvals.was_declined(PROJECT, NEW.digest)
    assert not approvals.was_declined(PROJECT, OLD.digest)
    assert approved(approvals) == b"old"
    approvals.approve_snapshot(PROJECT, NEW)
    assert not approvals.was_declined(PROJECT, NEW.digest)


def test_a_no_to_a_project_that_was_never_approved_approves_nothing(approvals: TrustStore) -> None:
    approvals.decline_snapshot(PROJECT, OLD.digest)
    assert (approvals.read(PROJECT), approvals.all_approvals(), approved(approvals)) == (None, [], None)


def test_additions_removals_renames_bytes_and_modes_are_differences(approvals: TrustStore) -> None:
    kept = approvals.approve_snapshot(PROJECT, OLD)
    plain = PinnedFile(data=b"same")
    program = OLD.files[PROGRAM]
    assert not compare_snapshot(kept, OLD)
    assert str(compare_snapshot(kept, NEW)) == f"{PROGRAM} changed"
    assert str(compare_snapshot(kept, Snapshot(files={PROGRAM: program}))) == ".toolstead/x removed"
    renamed = Snapshot(files={PROGRAM: program, ".toolstead/y": plain})
    assert str(compare_snapshot(kept, renamed)) == ".toolstead/y added; .toolstead/x removed"
    no_program = Snapshot(files={**OLD.files, PROGRAM: PinnedFile(data=b"old")})
    assert compare_snapshot(kept, no_program).changed == (PROGRAM,)
    many = Snapshot(files={**OLD.files, **{f"\x1b[{number}m": plain for number in range(5)}})
    assert str(compare_snapshot(kept, many)) == r"\u{1b}[0m, \u{1b}[1m, \u{1b}[2m and 2 more added"


# crashes


def test_a_crash_at_any_step_leaves_the_old_approval_or_the_new_one(
    approvals: TrustStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that changes the disk is the last one, in turn."""
    approvals.approve_snapshot(PROJECT, OLD)
    steps = [(module, "_lay_out"), (module, "write_private"), (module, "_point_current"), (module, "_delete_unused")]
    steps += [(module.os, "open"), (module.os, "fsync"), (Path, "rename"), (Path, "replace"), (Path, "symlink_to")]
    for number, (owner, name) in enumerate(steps):
        for after in (False, True):
            with monkeypatch.context() as patch:
                real = getattr(owner, name)

                def die(*given: Any, real: Any = real, after: bool = after, **options: Any) -> None:
                    if after:
                        real(*given, **options)
                    raise KeyboardInterrupt

                patch.setattr(owner, name, die)
                with pytest.raises(KeyboardInterrupt):
                    approvals.approve_snapshot(PROJECT, NEW)
            assert approved(approvals) in {b"old", b"new"}, steps[number]
            approvals.approve_snapshot(PROJECT, NEW)
            assert approved(approvals) == b"new"
            approvals.approve_snapshot(PROJECT, OLD)
            assert approved(approvals) == b"old"
            shutil.rmtree(place / NEW.digest)


def test_half_written_bytes_of_a_crash_are_written_anew(approvals: TrustStore, place: Path) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    for folder in (place / f"{NEW.digest}.new", place / NEW.digest):
        (folder / PROGRAM).parent.mkdir(parents=True)
        (folder / PROGRAM).write_bytes(b"half")
    assert approved(approvals) == b"old"
    approvals.approve_snapshot(PROJECT, NEW)
    assert approved(approvals) == b"new"
    assert not list(place.glob("*.new"))


def test_pins_without_the_last_step_are_finished_by_whoever_reads_next(approvals: TrustStore, place: Path) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    approvals.approve_snapshot(PROJECT, NEW)
    (place / "current").unlink()
    (place / "current").symlink_to(OLD.digest)
    (place / "current.new").symlink_to("nowhere")
    assert running(approvals) == b"old"
    assert approved(approvals) == b"new"


def test_bytes_without_pins_are_no_approval(approvals: TrustStore, place: Path) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    (place / "approval.json").unlink()
    assert approvals.read(PROJECT) is None
    assert approvals.approved_content(PROJECT, PROGRAM) is None


def test_a_crash_while_taking_back_leaves_the_approval_whole_or_gone(
    approvals: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("write_private", "_delete_unused"):
        for after in (False, True):
            approvals.approve_snapshot(PROJECT, OLD)
            with monkeypatch.context() as patch:
                real = getattr(module, name)

                def die(*given: Any, real: Any = real, after: bool = after, **options: Any) -> None:
                    if after:
                        real(*given, **options)
                    raise KeyboardInterrupt

                patch.setattr(module, name, die)
                with pytest.raises(KeyboardInterrupt):
                    approvals.revoke_approval(PROJECT)
            assert approved(approvals) == (b"old" if (name, after) == ("write_private", False) else None)


def test_the_way_to_the_bytes_goes_before_the_word_that_they_are_not_trusted(
    approvals: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    seen: list[bytes | None] = []
    write = private_file.write_private
    monkeypatch.setattr(module, "write_private", lambda *given: (seen.append(running(approvals)), write(*given)))
    approvals.revoke_approval(PROJECT)
    assert seen == [None]


# tampering


@pytest.mark.parametrize("path", list(OLD.files))
def test_a_kept_copy_that_is_not_what_was_approved_is_refused_by_its_hash(
    approvals: TrustStore, place: Path, path: str
) -> None:
    kept = approvals.approve_snapshot(PROJECT, OLD)
    assert approvals.is_intact(PROJECT, kept)
    copy = place / OLD.digest / path
    copy.chmod(0o600)
    copy.write_bytes(b"evil")
    assert not approvals.is_intact(PROJECT, kept)
    with pytest.raises(TrustError, match=f"the kept copy of {path} is not what was approved"):
        approvals.approved_content(PROJECT, path)
    copy.unlink()
    with pytest.raises(TrustError, match=f"the kept copy of {path} cannot be read"):
        approvals.approved_content(PROJECT, path)


TAMPERED: dict[str, Callable[[Path], object]] = {
    "bytes": lambda copy: (copy.chmod(0o700), copy.write_bytes(b"evil")),
    "mode": lambda copy: copy.chmod(0o600),
    "gone": lambda copy: copy.unlink(),
    "link": lambda copy: (copy.rename(copy.parents[3] / "away"), copy.symlink_to(copy.parents[3] / "away")),
    "more": lambda copy: copy.with_name("more").write_bytes(b"evil"),
    "folder": lambda copy: (copy.parents[1] / "more").symlink_to("/"),
    "whole": lambda copy: (
        copy.parents[2].rename(copy.parents[3] / "away"),
        copy.parents[2].symlink_to(copy.parents[3] / "away"),
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_approving_again_lays_out_anew_whatever_was_tampered_with(
    approvals: TrustStore, place: Path, what: str
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    TAMPERED[what](place / OLD.digest / PROGRAM)
    approvals.approve_snapshot(PROJECT, OLD)
    assert approved(approvals) == b"old"
    copy = place / OLD.digest
    assert not copy.is_symlink()
    there = [path for path in copy.rglob("*") if path.is_symlink() or path.is_file()]
    assert {path.relative_to(copy).as_posix() for path in there} == set(OLD.files)
    assert all(not path.is_symlink() for path in there)
    assert os.access(copy / PROGRAM, os.X_OK)


def test_approving_the_same_again_leaves_the_copy_that_something_may_run_from(
    approvals: TrustStore, place: Path
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    before = (place / OLD.digest / PROGRAM).stat().st_ino
    approvals.approve_snapshot(PROJECT, OLD)
    assert (place / OLD.digest / PROGRAM).stat().st_ino == before


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "no JSON": lambda _: "{",
    "not UTF-8": lambda _: b'"\xff"',
    "empty": lambda _: "",
    "deep": lambda _: "[" * 100_000,
    "a list": lambda _: [],
    "no version": lambda pins: {key: value for key, value in pins.items() if key != "version"},
    "another version": lambda pins: {**pins, "version": 2},
    "no project": lambda pins: {key: value for key, value in pins.items() if key != "project"},
    "copy elsewhere": lambda pins: {**pins, "copy": "../../../../etc"},
    "a pin more": lambda pins: {**pins, "files": {**pins["files"], "evil": {"sha256": "0" * 64}}},
    "another hash": lambda pins: {**pins, "files": {**pins["files"], PROGRAM: {"sha256": "0" * 64}}},
    "no program": lambda pins: {
        **pins,
        "files": {**pins["files"], PROGRAM: {"sha256": pins["files"][PROGRAM]["sha256"]}},
    },
    "files of text": lambda pins: {**pins, "files": "all"},
}


@pytest.mark.parametrize("how", BROKEN)
def test_pins_that_cannot_be_understood_approve_nothing_and_say_what_to_do(
    approvals: TrustStore, place: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    file = place / "approval.json"
    broken = BROKEN[how](json.loads(file.read_text()))
    file.write_bytes(
        broken
        if isinstance(broken, bytes)
        else str(broken).encode()
        if isinstance(broken, str)
        else json.dumps(broken).encode()
    )
    for ask in (approvals.read, lambda project: approvals.approved_content(project, PROGRAM)):
        with pytest.raises(TrustError, match=r"approval\.json .*; delete it and run `toolstead trust` again"):
            ask(PROJECT)
    assert approvals.all_approvals() == []
    assert "approval.json" in caplog.text
    assert (place / "current").readlink() == Path(OLD.digest)
    assert approvals.revoke_approval(PROJECT) is True
    assert (approvals.read(PROJECT), approved(approvals)) == (None, None)


def test_pins_that_cannot_be_read_or_written_say_why(
    approvals: TrustStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    (place / "approval.json").unlink()
    (place / "approval.json").mkdir()
    with pytest.raises(TrustError, match=r"approval\.json cannot be read: Is a directory"):
        approvals.read(PROJECT)
    (place / "approval.json").rmdir()
    shutil.rmtree(place)
    place.write_text("in the way")
    for change in (lambda: approvals.approve_snapshot(PROJECT, OLD), lambda: approvals.decline_snapshot(PROJECT, "x")):
        with pytest.raises(TrustError, match="cannot be changed: "):
            change()
    monkeypatch.setattr(private_file, "LOCK_SECONDS", 0)
    place.unlink()
    with private_file.lock_file(place / "approval.json"), pytest.raises(TrustError, match="held by another process"):
        approvals.approve_snapshot(PROJECT, OLD)


def test_a_project_whose_path_is_no_text_cannot_be_approved_and_is_told_so(approvals: TrustStore) -> None:
    project = Path("/somewhere/\udcff")
    with pytest.raises(TrustError, match=r"/somewhere/\\u\{dcff\} has a name that is no UTF-8"):
        approvals.approve_snapshot(project, OLD)
    assert approvals.read(project) is None


# several at once

AT_ONCE = """
import sys
from pathlib import Path
from toolstead.app.trust.approvals import TrustStore
from toolstead.app.trust.snapshot import PinnedFile, Snapshot

approvals, mine = TrustStore(Path(sys.argv[1])), sys.argv[2].encode()
for number in range(15):
    files = {".toolstead/bin/run": PinnedFile(data=mine + str(number).encode(), executable=True)}
    approvals.approve_snapshot(Path("/somewhere/project"), Snapshot(files=files))
"""


def test_several_processes_that_approve_and_read_at_once_never_see_half_of_anything(
    approvals: TrustStore, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", AT_ONCE, str(tmp_path)]
    others = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    seen = 0
    while any(other.poll() is None for other in others):
        approval = approvals.read(PROJECT)
        seen += approval is not None
    assert [other.wait() for other in others] == [0, 0]
    assert seen
    kept = approvals.read(PROJECT)
    assert kept is not None
    assert approvals.is_intact(PROJECT, kept)
    assert approved(approvals) in {b"a14", b"b14"}


def test_taking_back_while_another_approves_leaves_one_of_the_two(approvals: TrustStore) -> None:
    for _ in range(20):
        approvals.approve_snapshot(PROJECT, OLD)
        other = threading.Thread(target=approvals.approve_snapshot, args=(PROJECT, NEW))
        other.start()
        approvals.revoke_approval(PROJECT)
        other.join()
        kept = approvals.read(PROJECT)
        assert approved(approvals) == (None if kept is None else b"new")


def test_a_reader_that_was_overtaken_does_not_lead_back_to_the_old_bytes(
    approvals: TrustStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    leads = module._leads_to

    def overtaken(where: Path) -> str | None:
        monkeypatch.undo()
        TrustStore(approvals.folder.parent).approve_snapshot(PROJECT, NEW)
        return leads(where)

    monkeypatch.setattr(module, "_leads_to", overtaken)
    assert approvals.read(PROJECT) is not None
    assert running(approvals) == b"new"


def test_a_reader_does_not_take_the_last_step_while_another_holds_the_approval(
    approvals: TrustStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals.approve_snapshot(PROJECT, OLD)
    (place / "current").unlink()
    monkeypatch.setattr(private_file, "LOCK_SECONDS", 0)
    with private_file.lock_file(place / "approval.json"), pytest.raises(TrustError, match="held by another process"):
        approvals.read(PROJECT)
    assert running(approvals) is None
    assert approved(approvals) == b"old"
