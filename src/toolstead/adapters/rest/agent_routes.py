"""The agent routes: list the agents, and what the checks found in their files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.rest.answers import AgentList
from toolstead.adapters.rest.openapi import describe_answer, route
from toolstead.types.agent import Agent, Finding, PromptTool

ListAgents = Callable[[], Awaitable[tuple[list[Agent], list[Finding]]]]
"""The agents as they are now, by name, and what the checks found in their files."""

_EXAMPLE = AgentList(
    agents=[
        Agent(
            name="research",
            description="Finds out things.",
            model="sonnet",
            tools=("web_fetch",),
            scope="user",
            origin="~/.config/toolstead/agents/research.md",
            custom_tools=(
                PromptTool(
                    name="summarize",
                    description="Summarize a text.",
                    prompt="Summarize:\n\n{{text}}",
                    input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
                ),
            ),
        )
    ],
    findings=[
        Finding(
            severity="warning",
            source="~/.config/toolstead/agents/research.md",
            message="tools: no tool is called 'web_fetsh'; did you mean 'web_fetch'?",
            line=4,
            column=3,
        )
    ],
).to_json()


class AgentRoutes:
    """Agents over HTTP."""

    def __init__(self, list_agents: ListAgents) -> None:
        self._list_agents = list_agents

    @route(
        "GET",
        "/api/agents",
        "listAgents",
        "List the agents",
        "All agents by name: the built-in one, and those of files. A file with an error is left out, or its last good "
        "version stays, marked `stale`; `findings` says why.",
        responses=describe_answer(AgentList, "The agents.", example=_EXAMPLE),
    )
    async def list_agents(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/agents`."""
        agents, findings = await self._list_agents()
        return HttpResponse.of_json(AgentList(agents=agents, findings=findings).to_json())
