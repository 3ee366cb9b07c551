"""The plugin routes: list, switch and set, forget what was set. Changes are for people alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Sendable
from toolstead.adapters.http.body import body_decoder
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, problem_response
from toolstead.adapters.http.routing import Endpoint
from toolstead.adapters.rest.answers import PluginList
from toolstead.adapters.rest.openapi import body_of, describe_answer, describe_operation, path_parameter
from toolstead.adapters.rest.problem_kinds import BAD_PLUGIN, STORAGE, UNKNOWN_PLUGIN
from toolstead.adapters.rest.refusals import explain_failures
from toolstead.adapters.rest.result_json import encode_anything
from toolstead.errors import NotFoundError, find_nearest, suggest
from toolstead.plugins.view import PluginView


class PluginControl(Protocol):
    """The plugins of a stead, as its doors see and switch them."""

    def show_plugins(self) -> list[dict[str, Any]]:
        """Every plugin as the routes show it, its secrets masked."""
        ...

    async def change_plugin(
        self, name: str, *, enabled: bool | None = None, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Switch a plugin, or set some of its settings; null takes one back. Answers with the plugin as it is then.

        Raises:
            NotFoundError: No such plugin.
            PluginError: The settings do not fit, and all stays as it was.
            StorageError: It cannot be kept.
            StateError: It cannot be told to the other processes.
        """
        ...

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """Forget what was changed, so that the settings files count again. Raises what `change` raises."""
        ...


class PluginChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to change; at least one of these.

    Attributes:
        enabled: Switch it on or off.
        settings: Laid over what is set; null takes one back.
    """

    extra_schema: ClassVar[dict[str, Any]] = {"minProperties": 1}

    enabled: bool | msgspec.UnsetType = msgspec.UNSET
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class PluginRoutes:
    """Plugins over HTTP."""

    def __init__(self, plugins: PluginControl) -> None:
        self._plugins = plugins
        self._read = body_decoder(PluginChange)

    def list_endpoints(self) -> list[Endpoint]:
        """The routes, in the order the documentation shows them."""
        change, reset = self._explain_failures(self.change_plugin), self._explain_failures(self.reset_plugin)
        one = "/api/plugins/{name}"
        return [
            Endpoint(method="GET", path="/api/plugins", handler=self.list_plugins, operation=_LIST),
            Endpoint(method="PATCH", path=one, handler=change, operation=_CHANGE, private=True),
            Endpoint(method="POST", path=f"{one}/reset", handler=reset, operation=_RESET, private=True),
        ]

    async def list_plugins(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/plugins`."""
        return HttpResponse(200, encode_anything({"plugins": self._plugins.show_plugins()}))

    async def change_plugin(self, request: HttpRequest) -> HttpResponse:
        """`PATCH /api/plugins/{name}`."""
        body = self._read(await request.read_body(), request.path)
        enabled = None if body.enabled is msgspec.UNSET else body.enabled
        settings = None if body.settings is msgspec.UNSET else body.settings
        if enabled is None and settings is None:
            detail = (
                "The body says nothing to change; it has `enabled` (true or false), `settings` (an object), or both."
            )
            return problem_response(BAD_BODY, detail, instance=request.path)
        plugin = await self._plugins.change_plugin(request.params["name"], enabled=enabled, settings=settings)
        return HttpResponse(200, encode_anything(plugin))

    async def reset_plugin(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/plugins/{name}/reset`."""
        plugin = await self._plugins.reset_plugin(request.params["name"])
        return HttpResponse(200, encode_anything(plugin))

    def _explain_failures(self, handler: Callable[[HttpRequest], Awaitable[HttpResponse]]) -> Handler:
        """A handler whose foreseen failures are problem documents."""

        async def answer_request(request: HttpRequest) -> Sendable | None:
            try:
                return await handler(request)
            except NotFoundError as error:
                return self._unknown_plugin(request, error.id)

        return explain_failures(answer_request, unknown=None)

    def _unknown_plugin(self, request: HttpRequest, name: str) -> HttpResponse:
        known = [plugin["name"] for plugin in self._plugins.show_plugins()]
        hint = suggest(name, known, otherwise="GET /api/plugins lists them.")
        detail = f"There is no plugin {name[:100]!r}; {hint}"
        return problem_response(UNKNOWN_PLUGIN, detail, instance=request.path, nearest=find_nearest(name, known))


_EXAMPLE: dict[str, Any] = {
    "name": "shouty",
    "version": "1.0.0",
    "enabled": True,
    "state": "running",
    "origin": "shouty:plugin",
    "tools": ["shouty__shout"],
    "hooks": ["on_message"],
    "settings": {"volume": 11},
}
_NAME = path_parameter("name", "The plugin's name.", "shouty")
_REFUSED = (UNKNOWN_PLUGIN, BAD_PLUGIN, STORAGE)

_LIST = describe_operation(
    "listPlugins",
    "List the plugins",
    "Those that run, those that are switched off, and those that failed, with the reason. Secrets are masked.",
    responses=describe_answer(PluginList, "The plugins.", example={"plugins": [_EXAMPLE]}),
)
_CHANGE = describe_operation(
    "changePlugin",
    "Switch a plugin, or set its settings",
    "`settings` is laid over what is set: members that are not named stay, null takes one back to what the settings "
    "files say. What is set here is stored, counts in every process of this user, and wins over the files until it is "
    "reset. Settings that do not fit change nothing. A plugin that is switched on and does not start is an answer too: "
    "`state` and `error` say so.",
    parameters=[_NAME],
    requestBody=body_of(PluginChange, {"enabled": True, "settings": {"volume": 11}}, required=True),
    responses=describe_answer(PluginView, "The plugin as it is now.", BAD_JSON, BAD_BODY, *_REFUSED, example=_EXAMPLE),
)
_RESET = describe_operation(
    "resetPlugin",
    "Forget what was set for a plugin",
    "The settings files count again, for its switch and for its settings.",
    parameters=[_NAME],
    responses=describe_answer(PluginView, "The plugin as it is now.", *_REFUSED, example=_EXAMPLE),
)
