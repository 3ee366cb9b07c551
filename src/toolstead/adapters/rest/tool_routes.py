"""The tool routes: list, show, call, reload. With their OpenAPI operations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from toolstead.adapters.http.access import find_access
from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, problem_response
from toolstead.adapters.rest.answers import CallResult, ToolCounts, ToolList
from toolstead.adapters.rest.openapi import body_of, describe_answer, path_parameter, route
from toolstead.adapters.rest.problems import STORAGE, UNKNOWN_THREAD, UNKNOWN_TOOL, Opened
from toolstead.adapters.rest.profile_threads import check_thread
from toolstead.errors import UnknownToolError
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import ToolView
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.sent import SentStruct
from toolstead.types.tool import Problem, Reloaded, ToolInfo

FindExamples = Callable[[str], Iterable[Mapping[str, Any]]]
"""The arguments that a tool's file gives as examples, by the tool's name."""

ThreadId = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
"""Appears in log lines, so it has no control characters."""


class CallBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A call.

    Attributes:
        input: The arguments, as the tool's schema defines them. Absent or null means `{}`.
        thread_id: The conversation the call belongs to; `default` if absent. With the token of a profile, one of runs
            of that profile.
    """

    input: dict[str, Any] | None = None
    thread_id: ThreadId | None = None


class ToolDetails(SentStruct, frozen=True, kw_only=True):
    """A tool that can be called, with what its file says besides.

    Attributes:
        info: The tool.
        examples: Arguments that its file gives as examples.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"info"})
    optional: ClassVar[frozenset[str]] = frozenset({"examples"})

    info: ToolInfo
    examples: tuple[Mapping[str, Any], ...] = ()


class NoBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a route that needs none: nothing, or an empty object."""


_EXAMPLE = {
    "name": "git-status",
    "description": "Show the state of the working tree.",
    "source": "builtin",
    "origin": "toolstead.tools.builtin.git_status",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
}
_COUNTS = {"total": 1, "builtin": 1, "plugin": 0, "agent": 0, "mcp": 0}
_ANONYMOUS = Caller(transport="rest")
_NAME = path_parameter("name", "The tool's name, as `GET /api/tools` lists it.", "git-status")


class ToolRoutes:
    """Tools over HTTP."""

    def __init__(
        self,
        registry: Registry,
        dispatcher: Dispatcher,
        conversations: Opened | None,
        find_examples: FindExamples = lambda _: (),
    ) -> None:
        self._registry = registry
        self._find_examples = find_examples
        self._dispatcher = dispatcher
        self._conversations = conversations
        self._listed: dict[str | None, tuple[ToolView, bytes]] = {}

    @route(
        "GET",
        "/api/tools",
        "listTools",
        "List the tools",
        "Every tool that can be called now, in a stable order, with the counts by source. `generation` counts up with "
        "each change of the registry; `quarantined` lists what failed to load, and why. With the token of a profile: "
        "that profile's tools.",
        for_profiles=True,
        responses=describe_answer(
            ToolList,
            "The tools.",
            example={"tools": [_EXAMPLE], "counts": _COUNTS, "generation": 1, "quarantined": []},
        ),
    )
    async def list_tools(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/tools`, encoded once for each generation."""
        profile = _find_profile(request)
        view = self._registry.find_view(None, profile=profile)
        listed = self._listed.get(profile)
        if listed is None or listed[0] is not view:
            # What is quarantined names files of the user and of the project: that is no business of a profile.
            problems = self._registry.current.problems if profile is None else ()
            listed = self._listed[profile] = (view, msgspec.json.encode(_list_tools(view, problems).to_json()))
        return HttpResponse(200, listed[1])

    @route(
        "GET",
        "/api/tools/{name}",
        "showTool",
        "Show one tool",
        "The same entry as in the list, with the `examples` of its file. A tool that is blocked or switched off is not "
        "listed.",
        for_profiles=True,
        parameters=[_NAME],
        responses=describe_answer(ToolDetails, "The tool.", UNKNOWN_TOOL, example=_EXAMPLE),
    )
    async def show_tool(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/tools/{name}`."""
        try:
            view = self._registry.find_view(None, profile=_find_profile(request))
            tool = view.find_tool(request.params["name"])
        except UnknownToolError as error:
            return _unknown_tool(error, request)
        details = ToolDetails(info=tool.info, examples=tuple(self._find_examples(tool.info.name)))
        return HttpResponse.of_json(details.to_json())

    @route(
        "POST",
        "/api/tools/{name}/call",
        "callTool",
        "Call a tool",
        "Validates the arguments against the tool's schema, and applies its deadline and size limit. A tool that "
        "fails, and invalid arguments, are results too: status 200, `isError: true`, and a text that says what to "
        "correct. Closing the connection cancels the call.",
        for_profiles=True,
        parameters=[_NAME],
        requestBody=body_of(CallBody, {"input": {"path": "."}, "threadId": "t1"}),
        responses=describe_answer(
            CallResult,
            "The tool's result.",
            BAD_JSON,
            UNKNOWN_TOOL,
            UNKNOWN_THREAD,
            BAD_BODY,
            STORAGE,
            example={"content": [{"type": "text", "text": "On branch main"}], "isError": False, "durationMs": 11.27},
        ),
    )
    async def call_tool(self, request: HttpRequest) -> HttpResponse | None:
        """`POST /api/tools/{name}/call`."""
        body = await decode_body(request, CallBody)
        profile, thread_id = _find_profile(request), body.thread_id
        if profile is not None and thread_id not in (None, _ANONYMOUS.thread_id) and self._conversations is not None:
            # Whoever knows the id of a thread could read its shared files.
            await check_thread(await self._conversations(), thread_id, request)
        caller = _create_caller(thread_id, profile)
        started = time.perf_counter()
        with DisconnectWatch(request.receive):
            try:
                result = await self._dispatcher.call(request.params["name"], body.input, caller)
            except UnknownToolError as error:
                return _unknown_tool(error, request)
            # A `CallResult`, put together here: that takes a third less than its own `to_json`.
            duration = round((time.perf_counter() - started) * 1000, 3)
            return HttpResponse.of_json({**result.to_json(), "durationMs": duration})
        return None  # the client has disconnected

    @route(
        "POST",
        "/api/tools/reload",
        "reloadTools",
        "Reload the tool sources",
        "Builds the next generation and swaps it in; calls in flight end on the one they began with. `errors` lists "
        "what could not be loaded; everything else is available.",
        responses=describe_answer(
            Reloaded,
            "What changed.",
            BAD_JSON,
            BAD_BODY,
            example={
                "success": True,
                "toolCount": 5,
                "errors": [],
                "added": ["list-todos"],
                "removed": [],
                "changed": [],
            },
        ),
    )
    async def reload_tools(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/tools/reload`."""
        await decode_body(request, NoBody)
        return HttpResponse.of_json((await self._registry.reload()).to_reloaded().to_json())


def _find_profile(request: HttpRequest) -> str | None:
    access = find_access(request.scope)
    return None if access is None else access.profile


def _create_caller(thread_id: str | None, profile: str | None) -> Caller:
    if thread_id is None:
        return _ANONYMOUS if profile is None else Caller(profile=profile, transport="rest")
    return Caller(thread_id=thread_id, profile=profile, transport="rest")


def _list_tools(view: ToolView, problems: tuple[Problem, ...]) -> ToolList:
    tools = [tool.info for tool in view.tools.values()]
    counts = ToolCounts(total=len(tools), **Counter[str](tool.provenance.source for tool in tools))
    return ToolList(tools=tools, counts=counts, generation=view.number, quarantined=problems)


def _unknown_tool(error: UnknownToolError, request: HttpRequest) -> HttpResponse:
    text = str(error)
    if not text.startswith(error.name):  # else it begins with a name, which keeps its letters
        text = f"{text[:1].upper()}{text[1:]}"
    detail = f"{text}{'' if error.nearest else '; GET /api/tools lists what can be called.'}"
    return problem_response(UNKNOWN_TOOL, detail, instance=request.path, nearest=error.nearest)
