"""The agent routes: list the agents, show one whole, and say of each tool whether it sees it."""

from __future__ import annotations

from typing import Any, Protocol

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.problem import BAD_QUERY, problem_response
from toolstead.adapters.rest.answers import AgentDetails, AgentList, AgentTool, AgentToolList
from toolstead.adapters.rest.openapi import describe_answer, path_parameter, query_parameter, route
from toolstead.adapters.rest.problems import NO_AGENT, write_sentence
from toolstead.adapters.rest.query import read_query, single_value, wrong_parameter
from toolstead.errors import UnknownAgentError, UnknownProfileError
from toolstead.types.agent import Agent, EffectiveValue, Finding, PromptTool


class AgentControl(Protocol):
    """The agents, for the routes; `app/agent_answers.py` is one."""

    async def list_agents(self) -> tuple[list[Agent], list[Finding]]:
        """The agents as they are now, by name, and what the checks found in their files."""
        ...

    async def describe_agent(self, name: str) -> dict[str, Any]:
        """The members of an `AgentDetails`. Raises UnknownAgentError."""
        ...

    async def explain_tools(self, name: str, profile: str | None) -> list[dict[str, Any]]:
        """The members of an `AgentTool` for every tool. Raises UnknownAgentError and UnknownProfileError."""
        ...


_AGENT = Agent(
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
_FINDING = Finding(
    severity="warning",
    source="~/.config/toolstead/agents/research.md",
    message="tools: no tool is called 'web_fetsh'; did you mean 'web_fetch'?",
    line=4,
    column=3,
)
_LIST = AgentList(agents=[_AGENT], findings=[_FINDING]).to_json()
_DETAILS = AgentDetails(
    agent=_AGENT,
    instructions="Find out what you are asked.",
    prompts={"summarize": "Summarize:\n\n{{text}}"},
    delegates=[],
    effective=[EffectiveValue(key="model", value="sonnet", origin="~/.config/toolstead/agents/research.md:3")],
    findings=[_FINDING],
).to_json()
_TOOLS = AgentToolList(
    tools=[
        AgentTool(name="web_fetch", visible=True),
        AgentTool(name="git-status", visible=False, reason="Not named by `tools` of the agent research."),
    ]
).to_json()
_NAME = path_parameter("name", "The agent's name.", "research")


class AgentRoutes:
    """Agents over HTTP."""

    def __init__(self, agents: AgentControl) -> None:
        self._agents = agents

    @route(
        "GET",
        "/api/agents",
        "listAgents",
        "List the agents",
        "All agents by name: the built-in one, and those of files. A file with an error is left out, or its last good "
        "version stays, marked `stale`; `findings` says why.",
        responses=describe_answer(AgentList, "The agents.", example=_LIST),
    )
    async def list_agents(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/agents`."""
        agents, findings = await self._agents.list_agents()
        return HttpResponse.of_json(AgentList(agents=agents, findings=findings).to_json())

    @route(
        "GET",
        "/api/agents/{name}",
        "showAgent",
        "Show an agent",
        "The agent whole: as its file defines it, with its instructions, the templates of its custom tools, whom it "
        "may delegate to, every value that it runs with and where that comes from, and what the checks found.",
        parameters=[_NAME],
        responses=describe_answer(AgentDetails, "The agent.", NO_AGENT, example=_DETAILS),
    )
    async def show_agent(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/agents/{name}`."""
        try:
            return HttpResponse.of_json(await self._agents.describe_agent(request.params["name"]))
        except UnknownAgentError as error:
            return _refuse_unknown(request, error)

    @route(
        "GET",
        "/api/agents/{name}/tools",
        "explainAgentTools",
        "Say which tools an agent sees",
        "Every tool that there is, with whether a run of the agent sees it, and why it does not: what blocks it, or "
        "does not name it. The run is one that nobody delegated; with `profile` one whose caller has that profile.",
        parameters=[_NAME, query_parameter("profile", "The profile of the caller; none by default.", None)],
        responses=describe_answer(AgentToolList, "The tools.", NO_AGENT, BAD_QUERY, example=_TOOLS),
    )
    async def explain_tools(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/agents/{name}/tools`."""
        profile = single_value(request, read_query(request, "profile"), "profile")
        try:
            tools = await self._agents.explain_tools(request.params["name"], profile)
        except UnknownAgentError as error:
            return _refuse_unknown(request, error)
        except UnknownProfileError as error:
            raise wrong_parameter(request, f"profile: {write_sentence(error)}") from None
        return HttpResponse.of_json({"tools": tools})


def _refuse_unknown(request: HttpRequest, error: UnknownAgentError) -> HttpResponse:
    return problem_response(NO_AGENT, write_sentence(error), instance=request.path)
