"""The app's view of the registry: what `stead.registry` offers.

The names are the public contract; the work is the registry's and the adapters'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from toolstead.errors import ToolError, UnknownToolError

if TYPE_CHECKING:
    from toolstead.adapters.mcp.server import ToolsteadServer
    from toolstead.plugins.contract import Tool
    from toolstead.tools.generation import ToolView
    from toolstead.tools.registry import Registry
    from toolstead.types.tool import Changes, Problem, Reloaded, ToolInfo

MCP_SERVER = "toolstead"


class CreateServer(Protocol):
    """Makes an MCP server."""

    def __call__(self, thread_id: str, *, agent: str | None) -> ToolsteadServer:
        """A fresh one, with an agent's view of the tools."""
        ...


class RegistryView:
    """Names → tools, as the app shows them. What is blocked or switched off is not here."""

    def __init__(self, registry: Registry, create_server: CreateServer, *, agent: str | None = None) -> None:
        self._registry = registry
        self._create_server = create_server
        self._agent = agent

    def for_agent(self, name: str) -> RegistryView:
        """The view of one agent: only what it may see and call."""
        return RegistryView(self._registry, self._create_server, agent=name)

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

    def unknown_tool(self, name: str) -> UnknownToolError:
        """The error for a name that cannot be called here: why, or which names look like it."""
        return self._view.unknown_tool(name)

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

    async def reload_plugins(self) -> Reloaded:
        """Read every source anew; calls in flight are not disturbed."""
        return (await self._registry.reload()).to_reloaded()

    def get_allowed_tool_names(self) -> list[str]:
        """The names under which an agent sees the tools: `mcp__toolstead__<name>`."""
        return [f"mcp__{MCP_SERVER}__{name}" for name in self._view.tools]

    def to_mcp_server_config(self, thread_id: str | None = None) -> dict[str, Any]:
        """A fresh in-process MCP server for an agent runtime; never share one between two sessions."""
        server = self._create_server(thread_id or "default", agent=self._agent)
        return {"type": "sdk", "name": MCP_SERVER, "instance": server}

    def to_tool_definitions(self, provider: str) -> list[dict[str, Any]]:
        """The `tools` of a request to `anthropic`, `openai` or `gemini`.

        Raises:
            ToolsteadError: The provider is none of these.
        """
        from toolstead.adapters.providers.definitions import tool_definitions

        return tool_definitions(self.list_tools(), provider)
