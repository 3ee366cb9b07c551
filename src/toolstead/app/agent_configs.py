"""How an agent runs: what the call says, else its file, else the settings; and the explanation of that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.adapters.claude.launch import CLAUDE_TOOLS
from toolstead.agents.instructions import describe_helpers
from toolstead.app.agents import DELEGATING, HIDDEN, LIMITS, SteadAgents, merge_limits
from toolstead.errors import MissingModelError, RuntimeFailureError, UnknownAgentError
from toolstead.invoker.runtime import SessionSpec, TurnLimits, built_in_instructions
from toolstead.orchestrator.request import RunConfig
from toolstead.types.agent import Agent, EffectiveValue
from toolstead.types.run import TreeLimits

if TYPE_CHECKING:
    from toolstead.app.layers import LoadedSettings
    from toolstead.app.runtimes import Runtimes
    from toolstead.app.settings import Settings
    from toolstead.invoker.runtime import Runtime
    from toolstead.tools.registry import Registry


class StoredAgentConfigs:
    """Configures agents from their files and the settings.

    Attributes:
        cwd: The folder that agents work in.
    """

    def __init__(
        self,
        agents: SteadAgents,
        registry: Registry,
        runtimes: Runtimes,
        *,
        settings: Callable[[], Settings],
        cwd: Path,
    ) -> None:
        self.cwd = cwd
        self.runtimes = runtimes
        self._agents, self._registry, self._settings = agents, registry, settings

    def resolve_agent(self, agent: str, *, model: str = "", runtime: str = "", is_child: bool = False) -> RunConfig:
        """How an agent runs now.

        Raises:
            UnknownAgentError: There is no such agent.
            RuntimeFailureError: There is no such runtime or model, or it is unavailable.
        """
        settings = self._settings()
        found = self._find_agent(agent or settings.runtime.agent, is_child=is_child)
        wanted = model or found.model or settings.runtime.model
        has_own_model = bool(found.model and not model) or found.name in HIDDEN  # whose model a plugin's settings name
        if has_own_model and not runtime and not found.runtime:
            chosen = self.choose_runtime("", wanted)
        else:
            chosen = self.runtimes(runtime or found.runtime, wanted)
        limits = merge_limits(found.limits, settings.limits)
        return RunConfig(
            agent=found.name,
            runtime=chosen,
            model=chosen.resolve_model(wanted),
            timeout=limits.run_timeout,
            tree=TreeLimits(
                max_depth=limits.max_depth,
                max_fanout=limits.max_fanout,
                max_descendants=limits.max_descendants,
            ),
            turn=TurnLimits(tokens=limits.token_budget, cost=limits.cost_budget),
        )

    async def check_agent(self, agent: str, *, model: str = "", runtime: str = "") -> None:
        """Refuse an agent that no model could answer for, with the shortest way to one; it may wait for the keyring.

        Raises:
            UnknownAgentError: There is no such agent.
            RuntimeFailureError: No model can be asked; the text has the command that helps.
        """
        try:
            config = self.resolve_agent(agent, model=model, runtime=runtime)
        except MissingModelError:
            raise RuntimeFailureError(await self.runtimes.explain_first_steps(runtime)) from None
        await self.runtimes.check_ready(config.runtime.name, config.model)

    def choose_runtime(self, preferred: str, model: str) -> Runtime:
        """The preferred runtime if it runs this model, else the one that does; an empty name prefers the settings' one.

        Raises:
            RuntimeFailureError: None does.
        """
        runtime = self.runtimes(preferred, model)
        try:
            runtime.resolve_model(model)
        except RuntimeFailureError:
            return self.runtimes.find_for_model(model)
        return runtime

    def build_spec(
        self, config: RunConfig, *, cwd: Path, may_spawn: bool, has_task: bool = False, profile: str | None = None
    ) -> SessionSpec:
        """What a session of this agent is built with, now."""
        agent = self._find_agent(config.agent, is_child=True)
        may_spawn = may_spawn and self._registry.find_rule(agent.name).may_spawn
        view = self._registry.find_view(agent.name, profile=profile, may_spawn=may_spawn, has_task=has_task)
        own_allowed, own_blocked = self._limit_own_tools(agent, profile)
        own = {name for name, tool in view.tools.items() if tool.info.provenance.agent_name == agent.name}
        offered = [one for one in agent.custom_tools if one.name in own]  # the registry may hold a name by now
        helpers = self._agents.list_helpers(agent) if DELEGATING in view.tools else []
        instructions = agent.instructions
        if section := describe_helpers(helpers, offered):
            instructions = f"{instructions.strip() or built_in_instructions(cwd)}\n\n{section}"
        return SessionSpec(
            agent=agent.name,
            model=config.model,
            cwd=cwd,
            tools=view.names,
            instructions=instructions,
            permissions=_named_own_tools(agent, config.runtime.name),
            own_allowed=own_allowed,
            own_blocked=own_blocked,
            may_spawn=may_spawn,
            has_task=has_task,
            profile=profile,
            max_turns=agent.max_turns,
            result_schema=_encode_schema(agent) if self._agents.is_prompt_child(agent.name) else "",
        )

    def _limit_own_tools(
        self, agent: Agent, profile: str | None
    ) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
        """Which of the runtime's own tools may be used: the lists that must each name one, and those that must not.

        A profile's lists hold for them too, or its caller could do with Claude Code's shell what no tool allows.
        """
        allowed, blocked = self._agents.list_own_allowed(agent), agent.disallowed_tools
        if profile is None:
            return allowed, blocked
        rules = self._settings().profiles.get(profile)
        if rules is None:
            return (*allowed, ()), blocked
        return (*allowed, rules.allowed), (*blocked, *rules.blocked)

    def _find_agent(self, name: str, *, is_child: bool) -> Agent:
        found = self._agents.find_agent(name)
        if found is None or ("/" in name and not is_child and name not in HIDDEN):
            raise UnknownAgentError(name, list(self._agents.catalogue.agents))
        return found


def explain_agent(agent: Agent, loaded: LoadedSettings, runtime: str | None, reason: str) -> list[EffectiveValue]:
    """Every value that an agent runs with, and where it comes from.

    Args:
        agent: The agent.
        loaded: The settings.
        runtime: The runtime that is chosen where neither the call nor the agent names one; None when none is available.
        reason: Why this one.
    """
    settings = {one.key: one for one in loaded.explain_values()}

    def explain(key: str, own: Any, setting: str | None, *, line: str = "") -> EffectiveValue:
        below = settings.get(setting) if setting is not None else None
        if own is None:
            return EffectiveValue(
                key=key,
                value=None if below is None else below.value,
                origin="default" if below is None else below.origin,
            )
        at = agent.lines.get(line or key)
        origin = f"{agent.origin}:{at}" if at is not None else agent.origin
        overrode = "" if below is None else f"{msgspec.json.encode(below.value).decode()} ({setting}, {below.origin})"
        return EffectiveValue(key=key, value=own, origin=origin, overrode=overrode)

    turns = f"runtime.{agent.runtime or runtime}.max_turns"
    found = "none is available" if runtime is None else "chosen"
    why = f"{found}: {reason}" if reason else settings["runtime.default"].origin
    chosen = EffectiveValue(key="runtime", value=runtime, origin=why)
    return [
        explain("runtime", agent.runtime, "runtime.default") if agent.runtime else chosen,
        explain("model", agent.model or None, "runtime.model"),
        explain("max_turns", agent.max_turns, turns if turns in settings else None),
        *(explain(f"limits.{name}", getattr(agent.limits, name), f"limits.{name}", line="limits") for name in LIMITS),
        explain("tools", None if agent.tools is None else list(agent.tools), "tools.allowed"),
        explain("disallowed_tools", list(agent.disallowed_tools) or None, "tools.blocked"),
        explain("agents", None if agent.agents is None else list(agent.agents), "multi_agent.agents"),
    ]


def _encode_schema(agent: Agent) -> str:
    """What the answer of a prompt tool's child must fit; that of every other agent is for delegated tasks."""
    return msgspec.json.encode(agent.result_schema).decode() if agent.result_schema else ""


def _named_own_tools(agent: Agent, runtime: str) -> tuple[str, ...]:
    """Tools of Claude Code that a file of Claude Code names; elsewhere the settings alone permit them."""
    if runtime != "claude" or agent.scope != "claude":
        return ()
    return tuple(name for name in agent.tools or () if name in CLAUDE_TOOLS)
