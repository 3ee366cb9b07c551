"""The routes of trust: what the project brings, and a person's decision about it. Both need the private token."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, problem_response
from toolstead.adapters.rest.console_answers import TrustFile, TrustRefusal, TrustReview
from toolstead.adapters.rest.openapi import body_of, describe_answer, route
from toolstead.adapters.rest.problems import STORAGE, TRUST_CHANGED, TRUST_REFUSED, write_sentence
from toolstead.errors import TrustError


class TrustControl(Protocol):
    """The trust of a stead's project, as its interfaces show and decide it."""

    async def review_project(self) -> TrustReview:
        """What the project brings now, and whether it is approved."""
        ...

    async def approve_project(self, digest: str) -> TrustReview | TrustRefusal:
        """Approve exactly what was shown under a digest. Raises TrustError where that cannot be kept."""
        ...

    async def revoke_approval(self) -> TrustReview:
        """Revoke what is approved. Raises TrustError where that cannot be kept."""
        ...


class TrustDecision(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A person's decision.

    Attributes:
        decision: Approve what was shown, or revoke what is approved.
        digest: Of what was shown; needed to approve.
    """

    decision: Literal["approve", "revoke"]
    digest: str = ""


_REVIEW = TrustReview(
    project="/home/ada/work/garden",
    state="waiting",
    files=(TrustFile(path=".toolstead/tools/water.json", size=312),),
    shown=(".toolstead/tools/water.json", "  tool water runs: water-plants --bed {{bed}}"),
    digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
).to_json()


class TrustRoutes:
    """What the project brings, over HTTP."""

    def __init__(self, trust: TrustControl) -> None:
        self._trust = trust

    @route(
        "GET",
        "/api/trust",
        "reviewProject",
        "Review what the project brings",
        "What would run, or what changed since the last approval, and whether it is approved. The same as "
        "`toolstead trust` shows. Texts come from the project's author: characters that cannot be seen are escaped.",
        responses=describe_answer(TrustReview, "What the project brings.", example=_REVIEW),
        private=True,
    )
    async def review_project(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/trust`."""
        return HttpResponse.of_json((await self._trust.review_project()).to_json())

    @route(
        "POST",
        "/api/trust",
        "decideTrust",
        "Approve what the project brings, or revoke that",
        "`approve` keeps exactly the bytes that were shown under `digest`; when the project brings others by now, "
        "nothing is approved. `revoke` needs no digest. Both take effect at once, in every process of this user.",
        requestBody=body_of(TrustDecision, {"decision": "approve", "digest": _REVIEW["digest"]}, required=True),
        responses=describe_answer(
            TrustReview,
            "What the project brings now.",
            BAD_JSON,
            TRUST_CHANGED,
            BAD_BODY,
            TRUST_REFUSED,
            STORAGE,
            example={**_REVIEW, "state": "trusted", "shown": []},
        ),
        private=True,
    )
    async def decide_trust(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/trust`."""
        body = await decode_body(request, TrustDecision)
        if body.decision == "approve" and not body.digest:
            detail = "/digest: an approval needs the digest of what was shown; GET /api/trust shows it."
            return problem_response(BAD_BODY, detail, instance=request.path)
        try:
            if body.decision == "revoke":
                return HttpResponse.of_json((await self._trust.revoke_approval()).to_json())
            outcome = await self._trust.approve_project(body.digest)
        except TrustError as error:
            return problem_response(STORAGE, write_sentence(error), instance=request.path)
        if isinstance(outcome, TrustReview):
            return HttpResponse.of_json(outcome.to_json())
        return problem_response(
            TRUST_CHANGED if outcome.is_changed else TRUST_REFUSED,
            write_sentence(Exception(outcome.message)),
            instance=request.path,
            digest=outcome.review.digest,
            state=outcome.review.state,
            refused=outcome.review.refused,
        )
