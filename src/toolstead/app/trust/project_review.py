"""One look at what a project brings: what a person is shown, and the approval or the refusal of exactly that.

`toolstead trust` and the routes of trust are thin layers above this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolstead.app.trust.approvals import Difference, TrustApproval, compare_snapshot
from toolstead.app.trust.review import what_changed, what_is_refused, what_would_run
from toolstead.errors import TrustError

if TYPE_CHECKING:
    from toolstead.adapters.rest.console_answers import TrustState
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.app.trust.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReview:
    """What a project brings at one moment, beside what is approved of it.

    Attributes:
        project: The project.
        snapshot: The bytes.
        approval: What is approved.
        changes: How the two differ.
        shown: What a person reads before approving: what would run, or the difference.
        refused: Why it cannot be approved.
    """

    project: ProjectTrust
    snapshot: Snapshot
    approval: TrustApproval | None
    changes: Difference
    shown: tuple[str, ...]
    refused: tuple[str, ...]

    @property
    def state(self) -> TrustState:
        """Where the project stands."""
        if self.refused:
            return "refused"
        if self.approval is None:
            return "waiting" if self.snapshot.files else "nothing"
        return "changed" if self.changes else "trusted"

    @property
    def is_intact(self) -> bool:
        """Whether what is approved is kept as it was."""
        approval = self.approval
        return approval is None or self.project.approvals.is_intact(self.project.project, approval)


def review_project(project: ProjectTrust, snapshot: Snapshot | None = None) -> ProjectReview:
    """Look at a project; nothing is changed.

    Args:
        project: The project.
        snapshot: What it brings, where it was read already.

    Raises:
        TrustError: It cannot be read whole, or its approval cannot be understood.
    """
    snapshot = snapshot or project.take_snapshot()
    approval = project.approvals.read(project.project)
    changes = compare_snapshot(approval, snapshot)
    if approval is None:
        shown = tuple(what_would_run(snapshot))
    else:
        kept, damaged = _kept_files(project, (*changes.removed, *changes.changed))
        shown = (*damaged, *what_changed(kept, snapshot, changes)) if changes else ()
    return ProjectReview(
        project=project,
        snapshot=snapshot,
        approval=approval,
        changes=changes,
        shown=shown,
        refused=tuple(what_is_refused(snapshot)),
    )


def approve_review(review: ProjectReview) -> None:
    """Keep exactly what was looked at as what the user approved. Raises TrustError."""
    review.project.approvals.approve_snapshot(review.project.project, review.snapshot)


def decline_review(review: ProjectReview) -> None:
    """Remember that exactly this was declined, so that commands do not ask again. Raises TrustError."""
    review.project.approvals.decline_snapshot(review.project.project, review.snapshot.digest)


def _kept_files(project: ProjectTrust, paths: tuple[str, ...]) -> tuple[dict[str, bytes], list[str]]:
    """The approved bytes of some files; a damaged copy counts as lost, and is a line for the person who reads."""
    kept: dict[str, bytes] = {}
    damaged: list[str] = []
    for path in paths:
        try:
            kept[path] = project.approvals.approved_content(project.project, path) or b""
        except TrustError as error:
            damaged.append(str(error))
    return kept, damaged
