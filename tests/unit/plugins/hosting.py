"""A host to put plugins into, which writes down what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.plugins.contract import Hooks, Plugin, PluginContext, Tool
from toolstead.plugins.discovery import Discovered
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import HookRunner
from toolstead.plugins.host import PluginHost, PluginView, Wanted


class RecordedHost:
    """A real host with a real runner; `happened` has what plugins and host did, in order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.statuses: list[tuple[str, str, str | None]] = []
        self.runner = HookRunner()
        self.contexts: list[PluginContext] = []
        self.host = PluginHost(
            make_context=self._context, runner=self.runner, on_status=self._status, on_tools=self._tools
        )

    def _context(self, name: str, first_party: bool) -> PluginContext:
        self.contexts.append(PluginContext(name=name))
        return self.contexts[-1]

    def _status(self, health: Health) -> None:
        self.statuses.append((health.plugin, health.state, health.error))

    async def _tools(self) -> None:
        gates = ",".join(gate.name for gate in self.runner.list_gates())
        self.happened.append(f"tools {','.join(one.tool.name for one in self.host.list_tools())} gates {gates}")

    def wanted(
        self, name: str, *, enabled: bool = True, settings: Mapping[str, Any] | None = None, **of: Any
    ) -> Wanted:
        """A plugin whose steps are written down, unless `of` gives others."""
        return found(self.plugin(name, **of), enabled=enabled, settings=settings)

    def plugin(self, name: str, **of: Any) -> Plugin:
        def step(word: str) -> Any:
            async def take(ctx: PluginContext) -> Any:
                self.happened.append(f"{word} {ctx.name}")
                return Hooks() if word == "register" else None

            return take

        steps = {word: step(word) for word in ("register", "start", "stop")}
        return Plugin(**{"name": name, **steps, **of})

    def view(self, name: str) -> PluginView:
        return next(view for view in self.host.list_plugins() if view.name == name)

    def states(self) -> dict[str, str]:
        return {view.name: view.state for view in self.host.list_plugins()}


def found(plugin: Any, *, enabled: bool = True, settings: Mapping[str, Any] | None = None, **of: Any) -> Wanted:
    """A plugin that was found, under its own name unless `of` says another."""
    name = of.pop("name", plugin.name if isinstance(plugin, Plugin) else "odd")
    of = {"origin": f"{name}:plugin", "version_key": "1", "load": lambda: plugin, **of}
    return Wanted(discovered=Discovered(name=name, **of), enabled=enabled, settings=settings or {})


async def echo(ctx: PluginContext, input: dict[str, Any], meta: Any) -> str:
    return ctx.name


def a_tool(name: str = "echo", **of: Any) -> Tool:
    return Tool(**{"name": name, "description": "Says who it is.", "handler": echo, **of})


def registering(hooks: Any) -> Any:
    async def register(_: PluginContext) -> Any:
        return hooks

    return register


def gated() -> Any:
    async def allow(_: Any) -> None:
        return None

    return registering(Hooks(on_before_tool=allow))
