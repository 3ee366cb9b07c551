"""The REST application: every route, with `/mcp` mounted beside them behind the same guard.

`create_app` builds it; `adapters.http.server` serves it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from toolstead.adapters.http.access import MCP_PATH, AccessRules
from toolstead.adapters.http.application import HttpApplication
from toolstead.adapters.http.asgi import ASGIApp, Scope
from toolstead.adapters.http.guard import PrivateAccess
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.routing import Routes
from toolstead.adapters.http.stopping import Stopping
from toolstead.adapters.rest.agent_routes import AgentControl, AgentRoutes
from toolstead.adapters.rest.approval_page import ApprovalPage
from toolstead.adapters.rest.approval_routes import ApprovalRoutes
from toolstead.adapters.rest.console_routes import ConsoleRoutes, ConsoleSite
from toolstead.adapters.rest.event_routes import EventRoutes
from toolstead.adapters.rest.log_routes import LogRoutes
from toolstead.adapters.rest.openapi import list_endpoints
from toolstead.adapters.rest.operator_routes import (
    METRICS_PATH,
    CollectMetrics,
    FindFault,
    OperatorRoutes,
    collect_nothing,
    find_no_fault,
)
from toolstead.adapters.rest.owner_routes import ExplainSettings, ListSessions, OwnerRoutes
from toolstead.adapters.rest.pages import Pages, State, no_state
from toolstead.adapters.rest.plugin_routes import PluginControl, PluginRoutes
from toolstead.adapters.rest.problems import UNKNOWN_APPROVAL, UNKNOWN_TASK, Opened, explain_failures, with_orchestrator
from toolstead.adapters.rest.resource_routes import ResourceRoutes
from toolstead.adapters.rest.run_routes import HANDLE, RESULTS_PATH, ReadResult, RunRoutes
from toolstead.adapters.rest.task_routes import TaskControl, TaskRoutes
from toolstead.adapters.rest.thread_routes import ThreadRoutes
from toolstead.adapters.rest.tool_file_routes import ToolFileControl, ToolFileRoutes
from toolstead.adapters.rest.tool_routes import FindExamples, ToolRoutes
from toolstead.adapters.rest.trust_routes import TrustControl, TrustRoutes
from toolstead.adapters.rest.vfs_routes import OpenFiles, VfsRoutes, with_files
from toolstead.orchestrator.approvals import Approvals
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.types.result import RESULTS


def create_app(
    *,
    registry: Registry,
    dispatcher: Dispatcher,
    options: ServerOptions,
    version: str,
    mcp: ASGIApp | None = None,
    conversations: Opened | None = None,
    project: Path | None = None,
    results: ReadResult | None = None,
    state: State = no_state,
    plugins: PluginControl | None = None,
    agents: AgentControl | None = None,
    approvals: Approvals | None = None,
    files: OpenFiles | None = None,
    tasks: TaskControl | None = None,
    owner: tuple[ExplainSettings, ListSessions] | None = None,
    trust: TrustControl | None = None,
    tool_files: ToolFileControl | None = None,
    access: AccessRules | None = None,
    stopping: Stopping | None = None,
    find_examples: FindExamples = lambda _: (),
    find_fault: FindFault = find_no_fault,
    collect_metrics: CollectMetrics = collect_nothing,
    console: ConsoleSite | None = None,
) -> HttpApplication:
    """Build the application.

    Args:
        registry: Lists and reloads tools.
        dispatcher: Calls them.
        options: Who may call, and how much may be sent.
        version: Toolstead's version, for health and the documentation.
        mcp: Answers `/mcp`, behind the same guard.
        conversations: Opens threads and runs; without it there are no such routes.
        project: The folder in which runs work; the current one by default.
        results: Reads the result of a handle; from the database by default.
        state: The runtime and the sessions, for health.
        plugins: Shows and switches plugins; without it there are no such routes.
        agents: Shows the agents; without it there are no such routes.
        approvals: The pending approvals; without it there are no such routes.
        files: Opens the shared files; without it there are no such routes.
        tasks: The delegated tasks; without it there are no such routes.
        owner: Explains the settings and lists the sessions; without it there are no such routes.
        trust: The trust of the project; without it there are no such routes.
        tool_files: The user's tool files; without it there are no such routes.
        access: Decides what a token opens; as the options say, unless given.
        stopping: The requests in flight; its own unless given.
        find_examples: The example arguments of a tool from a file.
        find_fault: What keeps the server from working, for `/readyz`.
        collect_metrics: The numbers of `/metrics`.
        console: The page at `/`; without it there is no such page.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """
    stopping, private, access = stopping or Stopping(), PrivateAccess(options), access or AccessRules(options)
    tool_routes = ToolRoutes(registry, dispatcher, conversations, find_examples)
    endpoints = list_endpoints(tool_routes, partial(explain_failures, unknown=None))
    if conversations is not None:
        converse = partial(with_orchestrator, conversations)
        endpoints += list_endpoints(ThreadRoutes(), converse)
        endpoints += list_endpoints(RunRoutes(project or Path.cwd(), results), converse)
        endpoints += list_endpoints(LogRoutes(), converse)
        endpoints += list_endpoints(EventRoutes(stopping), converse)
    if tasks is not None:
        endpoints += list_endpoints(TaskRoutes(tasks), partial(explain_failures, unknown=UNKNOWN_TASK))
    if files is not None:
        endpoints += list_endpoints(VfsRoutes(), partial(with_files, files))
    if plugins is not None:
        plugin_routes = PluginRoutes(plugins)
        endpoints += list_endpoints(plugin_routes, plugin_routes.wrap_handler)
    if agents is not None:
        endpoints += list_endpoints(AgentRoutes(agents))
    if approvals is not None:
        for routes in (ApprovalRoutes(approvals), ApprovalPage(approvals, private)):
            endpoints += list_endpoints(routes, partial(explain_failures, unknown=UNKNOWN_APPROVAL))
    if owner is not None:
        endpoints += list_endpoints(OwnerRoutes(*owner))
    if trust is not None:
        endpoints += list_endpoints(TrustRoutes(trust))
    if tool_files is not None:
        endpoints += list_endpoints(ToolFileRoutes(tool_files))
    if access.oauth is not None:
        endpoints += list_endpoints(ResourceRoutes(access))
    endpoints += list_endpoints(OperatorRoutes(find_fault, collect_metrics))
    site = None if console is None else ConsoleRoutes(console, private)
    endpoints += [] if site is None else list_endpoints(site)
    mcp_paths = (MCP_PATH, *(f"{MCP_PATH}/{name}" for name in options.profiles))
    with_token, with_mcp = options.needs_token, mcp is not None
    endpoints += list_endpoints(Pages(registry, version, state, endpoints, with_token=with_token, with_mcp=with_mcp))
    # A handle may also be written as its address; that is no path of its own, so the documentation does not list it.
    aliases = [
        replace(one, path=RESULTS_PATH + RESULTS + HANDLE) for one in endpoints if one.path == RESULTS_PATH + HANDLE
    ]
    return HttpApplication(
        Routes([*endpoints, *aliases], private=private, find_page=None if site is None else site.find_page),
        options=options,
        stopping=stopping,
        mounts={} if mcp is None else dict.fromkeys(mcp_paths, mcp),
        access=access,
        is_stream=_is_mcp_stream,
        programs=(MCP_PATH, "/api/", METRICS_PATH),
    )


def _is_mcp_stream(scope: Scope) -> bool:
    """Whether an MCP request is a stream; newer protocol versions mark it in a header."""
    return scope["method"] == "GET" or (b"mcp-method", b"subscriptions/listen") in scope["headers"]
