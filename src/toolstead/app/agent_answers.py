"""The agents of a stead, as people see them over HTTP: listed, shown whole, and what each may see of the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolstead.errors import UnknownProfileError

if TYPE_CHECKING:
    from toolstead.app.wiring import Wiring
    from toolstead.types.agent import Agent, Finding


class AgentAnswers:
    """What `adapters/rest/agent_routes.py` answers with; reads the agents' files with the first question."""

    def __init__(self, parts: Wiring) -> None:
        self._parts = parts

    async def list_agents(self) -> tuple[list[Agent], list[Finding]]:
        """The agents by name, and what the checks found in their files."""
        agents = await self._parts.open_agents()
        return list(agents.catalogue.agents.values()), agents.find_findings()

    async def describe_agent(self, name: str) -> dict[str, Any]:
        """An agent with its instructions, its prompts, what it runs with, and what the checks found in its file.

        Raises:
            UnknownAgentError: There is no such agent.
        """
        from toolstead.app.agent_configs import explain_agent

        agents = await self._parts.open_agents()
        agent = agents.read_agent(name)
        state = self._parts.describe_state(agent.model)
        effective = explain_agent(agent, self._parts.loaded, state["runtime"], state["runtimeReason"])
        return {
            **agent.to_json(),
            "instructions": agent.instructions,
            "prompts": {one.name: one.prompt for one in agent.custom_tools},
            "delegates": [one.name for one in agents.list_helpers(agent)],
            "effective": [value.to_json() for value in effective],
            "findings": [one.to_json() for one in agents.find_findings() if one.source == agent.origin],
        }

    async def explain_tools(self, name: str, profile: str | None) -> list[dict[str, Any]]:
        """Whether an agent sees each tool when it is the root of a tree, and why it does not.

        Args:
            name: The agent.
            profile: A profile of its caller, which narrows what it sees.

        Raises:
            UnknownAgentError: There is no such agent.
            UnknownProfileError: There is no such profile.
        """
        if profile is not None and self._parts.registry.find_profile(profile) is None:
            raise UnknownProfileError(profile, list(self._parts.loaded.settings.profiles))
        agents = await self._parts.open_agents()
        reasons = agents.explain_tools(agents.read_agent(name), profile=profile)
        return [
            {"name": one.name, "visible": one.is_offered}
            | ({} if one.is_offered else {"reason": f"{one.reason[:1].upper()}{one.reason[1:].rstrip('.')}."})
            for one in reasons
        ]
