"""The plugin routes: list, change, reset. Changes need the private token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Sendable
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, problem_response
from toolstead.adapters.rest.answers import PluginList
from toolstead.adapters.rest.openapi import body_of, describe_answer, path_parameter, route
from toolstead.adapters.rest.problems import BAD_PLUGIN, STORAGE, UNKNOWN_PLUGIN, explain_failures
from toolstead.errors import NotFoundError
from toolstead.nearest_names import find_nearest, suggest
from toolstead.plugins.host import PluginView


class PluginControl(Protocol):
    """The plugins of a stead, as its interfaces show and change them."""

    def show_plugins(self) -> list[dict[str, Any]]:
        """Every plugin, with masked secrets."""
        ...

    async def change_plugin(
        self, name: str, *, enabled: bool | None = None, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Switch a plugin, or change some of its settings; null resets one. Return the changed plugin.

        Raises:
            NotFoundError: No such plugin.
            PluginError: The settings are invalid; nothing was changed.
            StorageError: The change cannot be stored.
            StateError: The other processes cannot be notified.
        """
        ...

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        """Reset the changes, so that the settings files apply again. Raises what `change` raises."""
        ...


class PluginChange(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What to change; at least one of these.

    Attributes:
        enabled: Switch it on or off.
        settings: Merged into the current settings; null resets one.
    """

    extra_schema: ClassVar[dict[str, Any]] = {"minProperties": 1}

    enabled: bool | msgspec.UnsetType = msgspec.UNSET
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


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


class PluginRoutes:
    """Plugins over HTTP."""

    def __init__(self, plugins: PluginControl) -> None:
        self._plugins = plugins

    @route(
        "GET",
        "/api/plugins",
        "listPlugins",
        "List the plugins",
        "All plugins: running, switched off, and failed with the reason. Secrets are masked.",
        responses=describe_answer(PluginList, "The plugins.", example={"plugins": [_EXAMPLE]}),
    )
    async def list_plugins(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/plugins`."""
        return HttpResponse.of_json({"plugins": self._plugins.show_plugins()})

    @route(
        "PATCH",
        "/api/plugins/{name}",
        "changePlugin",
        "Switch a plugin, or change its settings",
        "`settings` is merged into the current settings: absent members stay, null resets one to the settings files. "
        "Changes are stored, apply in every process of this user, and override the files until they are reset. "
        "Invalid settings change nothing. A plugin that is switched on and does not start is not an error response: "
        "`state` and `error` report it.",
        parameters=[_NAME],
        requestBody=body_of(PluginChange, {"enabled": True, "settings": {"volume": 11}}, required=True),
        responses=describe_answer(PluginView, "The changed plugin.", BAD_JSON, BAD_BODY, *_REFUSED, example=_EXAMPLE),
        private=True,
    )
    async def change_plugin(self, request: HttpRequest) -> HttpResponse:
        """`PATCH /api/plugins/{name}`."""
        body = await decode_body(request, PluginChange)
        enabled = None if body.enabled is msgspec.UNSET else body.enabled
        settings = None if body.settings is msgspec.UNSET else body.settings
        if enabled is None and settings is None:
            detail = "The body changes nothing; send `enabled` (true or false), `settings` (an object), or both."
            return problem_response(BAD_BODY, detail, instance=request.path)
        plugin = await self._plugins.change_plugin(request.params["name"], enabled=enabled, settings=settings)
        return HttpResponse.of_json(plugin)

    @route(
        "POST",
        "/api/plugins/{name}/reset",
        "resetPlugin",
        "Reset the changes to a plugin",
        "The settings files apply again, to its switch and its settings.",
        parameters=[_NAME],
        responses=describe_answer(PluginView, "The changed plugin.", *_REFUSED, example=_EXAMPLE),
        private=True,
    )
    async def reset_plugin(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/plugins/{name}/reset`."""
        plugin = await self._plugins.reset_plugin(request.params["name"])
        return HttpResponse.of_json(plugin)

    def wrap_handler(self, handler: Callable[[HttpRequest], Awaitable[HttpResponse]]) -> Handler:
        """Wrap a handler so that expected failures become problem documents."""

        async def answer_request(request: HttpRequest) -> Sendable | None:
            try:
                return await handler(request)
            except NotFoundError as error:
                known = [plugin["name"] for plugin in self._plugins.show_plugins()]
                hint = suggest(error.id, known, otherwise="GET /api/plugins lists them.")
                detail = f"There is no plugin {error.id[:100]!r}; {hint}"
                nearest = find_nearest(error.id, known)
                return problem_response(UNKNOWN_PLUGIN, detail, instance=request.path, nearest=nearest)

        return explain_failures(answer_request, unknown=None)
