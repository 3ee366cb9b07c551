"""What only a server's owner sees: its settings with their origins, and the open sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.rest.answers import SessionCounts
from toolstead.adapters.rest.console_answers import (
    EffectiveSetting,
    OverriddenValue,
    SessionList,
    SettingList,
    SettingProblem,
)
from toolstead.adapters.rest.openapi import describe_answer, route
from toolstead.types.session import SessionInfo

ExplainSettings = Callable[[], Awaitable[SettingList]]
"""The settings in effect, secrets masked."""

ListSessions = Callable[[], Awaitable[SessionList]]
"""The open sessions; does not open the database."""

_SETTINGS = SettingList(
    settings=[
        EffectiveSetting(
            key="tools.timeout",
            value=30.0,
            default=60.0,
            origin="user",
            place="/home/ada/.config/toolstead/config.toml:3",
            overrode=(OverriddenValue(origin="default", value=60.0),),
            in_effect=True,
            masked=False,
        )
    ],
    problems=[SettingProblem(message="it is 45.0 there now, and counts when the server starts again")],
)
_SESSIONS = SessionList(
    sessions=[
        SessionInfo(
            key="thread_1",
            thread_id="thread_1",
            agent="main",
            model="",
            runtime="claude",
            state="idle",
            started_at=1790000001.5,
            idle_seconds=12.25,
            owns_process=True,
        )
    ],
    counts=SessionCounts(idle=1, live=1, hits=3, misses=1, rebuilt=0, evicted=0),
)


class OwnerRoutes:
    """Settings and sessions, over HTTP."""

    def __init__(self, explain_settings: ExplainSettings, list_sessions: ListSessions) -> None:
        self._explain_settings, self._list_sessions = explain_settings, list_sessions

    @route(
        "GET",
        "/api/settings",
        "explainSettings",
        "Explain the settings",
        "Every setting in effect with the layer and the place it comes from, and what it overrode, as "
        "`toolstead config explain` shows it. Secrets are masked. `problems` has what the settings say now and the "
        "server does not do.",
        responses=describe_answer(SettingList, "The settings.", example=_SETTINGS.to_json()),
        private=True,
    )
    async def explain_settings(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/settings`."""
        return HttpResponse.of_json((await self._explain_settings()).to_json())

    @route(
        "GET",
        "/api/sessions",
        "listSessions",
        "List the open sessions",
        "The open connections to runtimes, each with whom it is for, and the counts of health.",
        responses=describe_answer(SessionList, "The sessions.", example=_SESSIONS.to_json()),
        private=True,
    )
    async def list_sessions(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/sessions`."""
        return HttpResponse.of_json((await self._list_sessions()).to_json())
