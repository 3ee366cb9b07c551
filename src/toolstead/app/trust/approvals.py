"""Approvals: for each project the approved bytes, kept in a private folder beside their pins.

`trust/<project>/approval.json` holds the pins. The bytes lie in a folder named by their digest, and
`current` leads to it, so that what runs from there has one path. Both are written whole, the bytes
first: a crash leaves the approval before, or the new one; the next reader finishes what a crash
left half done.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from toolstead.app.private_file import lock_file, write_private, write_synced
from toolstead.app.trust.snapshot import Pin, PinnedFile, Snapshot, digest_of, is_in_scope
from toolstead.errors import StateError, TrustError, UnreadableTrustError
from toolstead.schema.visible import escape_unseen

logger = logging.getLogger(__name__)

VERSION = 1


class TrustApproval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a user approved, or declined, of a project.

    Attributes:
        project: The project's root.
        copy: The folder of the approved bytes, named by their digest; empty when nothing is approved.
        declined: The digest of what the user declined, so that the user is not asked twice.
    """

    version: int
    project: str
    approved_at: float = 0.0
    copy: str = ""
    files: dict[str, Pin] = {}
    declined: str = ""


_NOTHING = TrustApproval(version=VERSION, project="")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """How what a project brings differs from what was approved of it."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        parts = (("changed", self.changed), ("added", self.added), ("removed", self.removed))
        return "; ".join(f"{_list_some(paths)} {what}" for what, paths in parts if paths)


class TrustStore:
    """The approvals in the data folder, one folder for each project."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "trust"

    def approval_folder(self, project: Path) -> Path:
        """The private folder of a project's approval."""
        return self.folder / hashlib.sha256(os.fsencode(project)).hexdigest()[:32]

    def read(self, project: Path) -> TrustApproval | None:
        """What was approved of a project; None when nothing was, or when it was revoked.

        Raises:
            TrustError: The pins cannot be understood.
            UnreadableTrustError: They cannot be read at the moment.
        """
        place = self.approval_folder(project)
        approval = self._read(place)
        if approval.copy and _leads_to(place) != approval.copy:
            with _hold_lock(place):  # the approving process died before the last step, or is about to take it
                approval = self._read(place)
                if approval.copy:
                    _point_current(place, approval.copy)
        return approval if approval.copy else None

    def is_intact(self, project: Path, approval: TrustApproval) -> bool:
        """Whether the kept copy of every approved file is what was approved."""
        copy = self.approval_folder(project) / approval.copy
        return all(_is_pinned(copy / path, pin) for path, pin in approval.files.items())

    def was_declined(self, project: Path, digest: str) -> bool:
        """Whether the user declined exactly this before."""
        return self._read(self.approval_folder(project)).declined == digest

    def approved_content(self, project: Path, path: str) -> bytes | None:
        """The approved bytes of one file; None when it is not among the approved ones.

        Raises:
            TrustError: The copy is gone, or not what was approved.
            UnreadableTrustError: It cannot be read at the moment.
        """
        approval = self.read(project)
        if approval is None or path not in approval.files:
            return None
        try:
            data = (self.approval_folder(project) / approval.copy / path).read_bytes()
        except OSError as error:
            kind = TrustError if isinstance(error, FileNotFoundError) else UnreadableTrustError
            raise kind(f"the kept copy of {escape_unseen(path)} cannot be read: {error.strerror}; {_AGAIN}") from None
        check_pin(approval, path, data)
        return data

    def approve_snapshot(self, project: Path, snapshot: Snapshot) -> TrustApproval:
        """Keep these bytes as what the user approved.

        Raises:
            TrustError: They cannot be kept.
        """
        place, pins = self.approval_folder(project), snapshot.pins
        approval = TrustApproval(
            version=VERSION,
            project=str(project),
            approved_at=time.time(),
            copy=digest_of(pins),
            files=pins,
        )
        encoded = _encode_approval(approval)
        with _hold_lock(place):
            before = self._read(place)
            _lay_out(place, approval, snapshot.files)
            write_private(place / "approval.json", encoded)
            _point_current(place, approval.copy)
            _delete_unused(place, keep={approval.copy, before.copy})
        return approval

    def decline_snapshot(self, project: Path, digest: str) -> None:
        """Store that the user declined exactly this; what was approved before stays.

        Raises:
            TrustError: It cannot be kept.
        """
        place = self.approval_folder(project)
        with _hold_lock(place):
            declined = msgspec.structs.replace(self._read(place), project=str(project), declined=digest)
            write_private(place / "approval.json", _encode_approval(declined))

    def revoke_approval(self, project: Path) -> bool:
        """Revoke an approval and delete its bytes; False when there is none. One that is not valid is deleted too.

        Raises:
            TrustError: It cannot be revoked.
        """
        place = self.approval_folder(project)
        if not (place / "approval.json").exists():
            return False
        with _hold_lock(place):
            try:
                approval = self._read(place)
            except TrustError:
                approval = _NOTHING
            else:
                if not approval.copy:
                    return False
            # The link to the bytes first: a process that notices the rest must not find them any more.
            with suppress(FileNotFoundError):
                (place / "current").unlink()
            revoked = TrustApproval(version=VERSION, project=str(project), declined=approval.copy)
            write_private(place / "approval.json", _encode_approval(revoked))
            _delete_unused(place, keep=set())
        return True

    def all_approvals(self) -> list[TrustApproval]:
        """Every approval there is, by project. One that cannot be understood is logged and left out."""
        found: list[TrustApproval] = []
        for place in sorted(self.folder.glob("*/approval.json")):
            try:
                found.append(self._read(place.parent))
            except TrustError as error:
                logger.warning("%s", error)
        return sorted((approval for approval in found if approval.copy), key=lambda approval: approval.project)

    def _read(self, place: Path) -> TrustApproval:
        path = place / "approval.json"
        try:
            approval = msgspec.json.decode(path.read_bytes(), type=TrustApproval)
        except FileNotFoundError:
            return _NOTHING
        except OSError as error:
            raise UnreadableTrustError(f"{path} cannot be read: {error.strerror or error}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TrustError(
                f"{path} cannot be understood ({error}); delete it and run `toolstead trust` again"
            ) from None
        if approval.version != VERSION:
            raise TrustError(
                f"{path} has version {approval.version}, and this Toolstead understands {VERSION};"
                f" delete it and {_AGAIN}"
            )
        if approval.copy and approval.copy != digest_of(approval.files):
            raise TrustError(f"{path} names other files than it has pins for; delete it and {_AGAIN}")
        return approval


_AGAIN = "run `toolstead trust` again"


def check_pin(approval: TrustApproval, path: str, data: bytes) -> None:
    """Make sure that bytes are those that were approved.

    Raises:
        TrustError: They are not.
    """
    pin = approval.files.get(path)
    if pin is None or hashlib.sha256(data).hexdigest() != pin.sha256:
        raise TrustError(
            f"the kept copy of {escape_unseen(path)} is not what was approved, so it is not used; {_AGAIN}"
        )


def compare_snapshot(approval: TrustApproval | None, snapshot: Snapshot) -> Difference:
    """What changed since the approval; a renamed file is one removed and one added."""
    approved, now = approval.files if approval is not None else {}, snapshot.pins
    return Difference(
        added=tuple(path for path in now if path not in approved),
        removed=tuple(path for path in approved if path not in now and is_in_scope(path)),
        changed=tuple(path for path, pin in now.items() if path in approved and approved[path] != pin),
    )


def _list_some(paths: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(escape_unseen(path) for path in paths[:most])
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"


@contextmanager
def _hold_lock(place: Path) -> Generator[None]:
    """Lock an approval for a change.

    Raises:
        TrustError: It cannot be changed.
    """
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(place / "approval.json"):
            yield
    except (OSError, StateError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TrustError(f"the approval in {place} cannot be changed: {reason}") from error


def _encode_approval(approval: TrustApproval) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(approval), indent=2) + b"\n"
    except UnicodeEncodeError:
        raise TrustError(
            f"{escape_unseen(approval.project)} has a name that is no UTF-8; give its folders other names"
        ) from None


def _lay_out(place: Path, approval: TrustApproval, files: Mapping[str, PinnedFile]) -> None:
    """Write the bytes into a folder of their digest, whole or not at all."""
    import shutil  # a start reads approvals, and writes none

    target = place / approval.copy
    if target.is_symlink():
        target.unlink()
    if target.exists():
        if _is_intact(target, approval.files):  # something may be running from it
            return
        shutil.rmtree(target)
    fresh = place / f"{approval.copy}.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(mode=0o700)
    for path, file in files.items():
        copy = fresh / path
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_synced(copy, file.data, 0o500 if file.executable else 0o400)
    fresh.rename(target)


def _is_intact(folder: Path, pins: Mapping[str, Pin]) -> bool:
    """Whether a folder holds exactly these files."""
    inside = (found for found in folder.rglob("*") if found.is_symlink() or not found.is_dir())
    there = {found.relative_to(folder).as_posix() for found in inside}
    return there == set(pins) and all(_is_pinned(folder / path, pin) for path, pin in pins.items())


def _is_pinned(path: Path, pin: Pin) -> bool:
    """Whether a file is what was approved."""
    try:
        return (
            not path.is_symlink()
            and os.access(path, os.X_OK) == pin.executable
            and hashlib.sha256(path.read_bytes()).hexdigest() == pin.sha256
        )
    except OSError:
        return False


def _leads_to(place: Path) -> str | None:
    try:
        return (place / "current").readlink().name
    except OSError:
        return None


def _point_current(place: Path, digest: str) -> None:
    """Let `current` lead to the copy, in one step."""
    fresh = place / "current.new"
    with suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(digest)
    fresh.replace(place / "current")


def _delete_unused(place: Path, keep: set[str]) -> None:
    """Delete copies that nothing leads to any more."""
    import shutil  # as above

    for old in place.iterdir():
        if old.is_dir() and not old.is_symlink() and old.name not in keep:
            shutil.rmtree(old, ignore_errors=True)
