"""Whether a stead's project is trusted, as people see and decide it over HTTP: the same as `toolstead trust`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolstead.adapters.rest.console_answers import TrustFile, TrustRefusal, TrustReview
from toolstead.app.trust.project_review import ProjectReview, approve_review, review_project
from toolstead.errors import TrustError
from toolstead.schema.visible import escape_unseen

if TYPE_CHECKING:
    from toolstead.app.wiring import Wiring

logger = logging.getLogger("toolstead.trust")

_NOT_USED = "this server was started without what its project brings (project_tools=False), so nothing can be approved"


class SteadTrust:
    """The trust of one project."""

    def __init__(self, parts: Wiring) -> None:
        """Read nothing yet."""
        self._parts, self._trust = parts, parts.trust
        self._shown = escape_unseen(str(parts.places.project))
        self._deciding = asyncio.Lock()

    async def review_project(self) -> TrustReview:
        """What the project brings now, and whether it is approved."""
        if self._trust.is_ignored:
            return TrustReview(project=self._shown, state="nothing", shown=(_NOT_USED,))
        try:
            return self._describe(await asyncio.to_thread(review_project, self._trust))
        except TrustError as error:
            return self._describe_unreadable(error)

    async def approve_project(self, digest: str) -> TrustReview | TrustRefusal:
        """Approve exactly what was shown under a digest, and use it at once.

        Raises:
            TrustError: The approval cannot be kept.
        """
        async with self._deciding:
            outcome = await asyncio.to_thread(self._approve_now, digest)
            if isinstance(outcome, TrustReview):
                await self._parts.apply_trust()
            return outcome

    async def revoke_approval(self) -> TrustReview:
        """Revoke what is approved, and use none of it any more; nothing changes where nothing is.

        Raises:
            TrustError: It cannot be revoked.
        """
        async with self._deciding:
            approvals, project = self._trust.approvals, self._parts.places.project
            if not self._trust.is_ignored and await asyncio.to_thread(approvals.revoke_approval, project):
                logger.info("%s: not trusted any more", self._shown)
                await self._parts.apply_trust()
        return await self.review_project()

    def _approve_now(self, digest: str) -> TrustReview | TrustRefusal:
        if self._trust.is_ignored:
            review = TrustReview(project=self._shown, state="nothing")
            return TrustRefusal(message=_NOT_USED, review=review, is_changed=False)
        try:
            found = review_project(self._trust)
        except TrustError as error:
            return TrustRefusal(message=str(error), review=self._describe_unreadable(error), is_changed=False)
        review = self._describe(found)
        if review.digest != digest:
            message = (
                "what this project brings is not what was shown under this digest; read what it brings now,"
                " and send its digest"
            )
            return TrustRefusal(message=message, review=review, is_changed=True)
        if found.state == "nothing":
            message = f"{self._shown} brings no files of its own: there is nothing to approve"
            return TrustRefusal(message=message, review=review, is_changed=False)
        if found.refused:
            message = f"{'; '.join(found.refused[:3])}: mend this, then read and approve what the project brings then"
            return TrustRefusal(message=message, review=review, is_changed=False)
        if found.state != "trusted" or not found.is_intact:
            approve_review(found)
            logger.info("%s: %s files approved over HTTP", self._shown, len(review.files))
        return TrustReview(project=self._shown, state="trusted", files=review.files, digest=review.digest)

    def _describe(self, found: ProjectReview) -> TrustReview:
        files = found.snapshot.files
        return TrustReview(
            project=self._shown,
            state=found.state,
            files=tuple(TrustFile(path=escape_unseen(path), size=len(file.data)) for path, file in files.items()),
            shown=found.shown,
            refused=found.refused,
            digest=found.snapshot.digest if files or found.approval is not None else "",
        )

    def _describe_unreadable(self, error: TrustError) -> TrustReview:
        return TrustReview(project=self._shown, state="refused", refused=(str(error),))
