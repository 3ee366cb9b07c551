"""`stead.registry`: what a program may ask of the tools; `tools/registry` is below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolstead.app import serving
from toolstead.errors import ToolError, UnknownToolError

if TYPE_CHECKING:
    from toolstead.app.wiring import Wiring
    from toolstead.plugins.contract import Prompt, Tool
    from toolstead.tools.generation import ToolView
    from toolstead.types.tool import Changes, Problem, Reloaded, ToolInfo

MCP_SERVER = "toolstead"


class RegistryView:
    """`stead.registry`: names → tools. What is blocked or switched off is not here.

    The names are the public contract; the work is the registry's and the adapters'.
    """

    def __init__(self, parts: Wiring, agent: str | None = None) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._agent = agent

    def for_agent(self, name: str) -> RegistryView:
        """The view of one agent: only what it may see and call. `await stead.agents()` reads the files before.

        Raises:
            ToolsteadError: The agents' files were not read yet: without them the view would be that of everybody.
            UnknownAgentError: There is no such agent.
        """
        self._parts.check_agent(name)
        return RegistryView(self._parts, name)

    @property
    def _view(self) -> ToolView:
        return self._registry.find_view(self._agent)

    @property
    def generation(self) -> int:
        """The number of the current generation."""
        return self._registry.current.number

    @property
    def quarantined(self) -> tuple[Problem, ...]:
        """The quarantined tools and files, with the reasons."""
        return self._registry.current.problems

    def list_tools(self) -> list[ToolInfo]:
        """Every tool, in a stable order."""
        return list(self._view.infos)

    def get_tool_info(self, name: str) -> ToolInfo | None:
        """What is known about a tool, or None."""
        tool = self._view.tools.get(name)
        return tool.info if tool is not None else None

    def has_tool(self, name: str) -> bool:
        """Whether a tool can be called here."""
        return name in self._view.tools

    def get_tool_count(self) -> int:
        """How many tools can be called here."""
        return len(self._view.tools)

    def holds(self, name: str) -> bool:
        """Whether a tool of this name exists here, be it blocked or switched off."""
        return name in self._registry.current.held

    def find_held(self, name: str) -> ToolInfo | None:
        """What is known about a tool, be it blocked or switched off; None where there is none."""
        tool = self._registry.current.held.get(name)
        return tool.info if tool is not None else None

    def list_disabled(self) -> list[ToolInfo]:
        """Every tool that is here and switched off, in a stable order."""
        current = self._registry.current
        return [tool.info for name, tool in current.held.items() if name in current.visibility.disabled]

    def reason_hidden(self, name: str) -> str | None:
        """Why a tool that is here cannot be called: switched off, or the settings hide it. None where nothing does."""
        return self._registry.current.hidden.get(name)

    def unknown_tool(self, name: str) -> UnknownToolError:
        """The error for a name that cannot be called here: why, or which names look like it."""
        current = self._registry.current
        if self._agent is not None:
            return self._view.unknown_tool(name)
        reason = self.reason_hidden(name)
        if reason is None and current.find_quarantined(name) is not None:
            reason = current.visibility.reason_hidden(name)
        if reason is None:
            stopped = None if current.find_quarantined(name) else self._parts.plugins.explain_stopped(name)
            return UnknownToolError(name, reason=stopped) if stopped is not None else self._view.unknown_tool(name)
        if name in current.visibility.disabled:
            return UnknownToolError(name, reason=f"{name} is switched off. Switch it on: toolstead tools enable {name}")
        return UnknownToolError(name, reason=f"{name} cannot be called here: {reason}")

    def preview_call(self, name: str, input: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool from a file would run for these arguments; nothing is executed.

        Raises:
            UnknownToolError: No such tool.
            ToolError: It is no tool from a file, or the arguments do not fit.
        """
        registered = self._view.find_tool(name)
        handler: Any = registered.tool.handler
        if not hasattr(handler, "preview_call"):
            raise ToolError(f"{name} is written in Python; only tools from files can be shown before they run")
        schema = registered.input
        filled = schema.defaults.fill_object(input) if schema.defaults is not None else dict(input)
        if problems := schema.describe_problems(filled):
            raise ToolError(f"Invalid arguments for {name}:\n" + "\n".join(problems))
        return handler.preview_call(filled)

    def get(self, name: str) -> Tool | None:
        """The tool itself, or None."""
        tool = self._view.tools.get(name)
        return tool.tool if tool is not None else None

    def get_all(self) -> list[Tool]:
        """The tools themselves, in the same order as `list_tools`."""
        return [tool.tool for tool in self._view.tools.values()]

    def register(self, *tools: Tool) -> Changes:
        """Add tools while the stead runs: all of them or none; connected clients are notified.

        Raises:
            DefinitionError: One is bad, or its name has a holder.
        """
        return self._registry.register(*tools)

    def unregister(self, *names: str) -> Changes:
        """Take away tools that were added with `register`.

        Raises:
            UnknownToolError: None of that name was added.
        """
        return self._registry.unregister(*names)

    def register_prompts(self, *prompts: Prompt) -> None:
        """Add prompts for MCP clients while the stead runs, under their own names: all of them or none.

        Raises:
            PluginError: One is bad, or its name has a holder.
        """
        self._parts.client_parts.register_prompts(prompts)

    def unregister_prompts(self, *names: str) -> None:
        """Take away prompts that were added with `register_prompts`.

        Raises:
            NotFoundError: None of that name was added.
        """
        self._parts.client_parts.unregister_prompts(names)

    async def reload_plugins(self) -> Reloaded:
        """Read every source anew; calls in flight are not disturbed."""
        return (await self._registry.reload()).to_reloaded()

    def get_allowed_tool_names(self) -> list[str]:
        """The names under which an agent sees the tools: `mcp__toolstead__<name>`."""
        return [f"mcp__{MCP_SERVER}__{name}" for name in self._view.tools]

    def to_mcp_server_config(self, thread_id: str | None = None) -> dict[str, Any]:
        """A fresh in-process MCP server for an agent runtime; never share one between two sessions."""
        return {
            "type": "sdk",
            "name": MCP_SERVER,
            "instance": serving.create_server(
                self._parts,
                thread_id or "default",
                agent=self._agent,
                client_thread=thread_id or serving.name_client_thread(),
            ),
        }

    def to_tool_definitions(self, provider: str) -> list[dict[str, Any]]:
        """The `tools` of a request to `anthropic`, `openai` or `gemini`.

        Raises:
            ToolsteadError: The provider is none of these.
        """
        from toolstead.adapters.providers.definitions import tool_definitions

        return tool_definitions(self.list_tools(), provider)
