"""Routes for those who operate a server: whether it lives, whether it is ready, and its numbers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

from toolstead.adapters.http.access import LIVE_PATH, READY_PATH
from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.problem import RETRY_AFTER, problem_response
from toolstead.adapters.rest.exposition import TEXT_TYPE, Metric, render_metrics
from toolstead.adapters.rest.openapi import describe_answer, route
from toolstead.adapters.rest.problems import NOT_READY
from toolstead.types.sent import SentStruct

METRICS_PATH: Final = "/metrics"
FindFault = Callable[[], Awaitable["str | None"]]
"""Says within a bound what keeps the server from working, in a few words for anybody; None where nothing does."""
CollectMetrics = Callable[[], Sequence[Metric]]
_NO_STORE: Final = (b"cache-control", b"no-store")


class ProbeAnswer(SentStruct, frozen=True, kw_only=True):
    """What a probe asks.

    Attributes:
        status: `live` or `ready`.
    """

    status: Literal["live", "ready"]


class OperatorRoutes:
    """`/livez`, `/readyz` and `/metrics`."""

    def __init__(self, find_fault: FindFault, collect_metrics: CollectMetrics) -> None:
        self._find_fault, self._collect_metrics = find_fault, collect_metrics

    @route(
        "GET",
        LIVE_PATH,
        "live",
        "Probe whether the server lives",
        "Answered without a token, under any address of the machine; looks at nothing else.",
        for_profiles=True,
        security=[],
        responses=describe_answer(ProbeAnswer, "It does.", example={"status": "live"}),
    )
    async def show_life(self, _: HttpRequest) -> HttpResponse:
        """`GET /livez`."""
        return _answer_probe("live")

    @route(
        "GET",
        READY_PATH,
        "ready",
        "Probe whether the server can work",
        "Answered without a token, under any address of the machine; asks the database, within two seconds.",
        for_profiles=True,
        security=[],
        responses=describe_answer(ProbeAnswer, "It can.", NOT_READY, example={"status": "ready"}),
    )
    async def show_readiness(self, request: HttpRequest) -> HttpResponse:
        """`GET /readyz`."""
        fault = await self._find_fault()
        if fault is None:
            return _answer_probe("ready")
        detail = f"{fault}; the server's log says more."
        return problem_response(NOT_READY, detail, instance=request.path, headers=(RETRY_AFTER, _NO_STORE))

    @route(
        "GET",
        METRICS_PATH,
        "metrics",
        "Read the server's numbers",
        "For Prometheus, in its text format: calls, runs, sessions, what waits, reloads and the process.",
        responses={
            "200": {"description": "The numbers.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        },
    )
    async def show_metrics(self, _: HttpRequest) -> HttpResponse:
        """`GET /metrics`."""
        return HttpResponse(200, render_metrics(self._collect_metrics()), (TEXT_TYPE, _NO_STORE))


def _answer_probe(status: str) -> HttpResponse:
    answer = HttpResponse.of_json({"status": status})
    answer.headers = (*answer.headers, _NO_STORE)
    return answer


async def find_no_fault() -> None:
    """A server without a database: it can work as soon as its port is open."""


def collect_nothing() -> Sequence[Any]:
    """A server that counts nothing."""
    return ()
