"""The metadata of the protected resource (RFC 9728): where clients learn which authorization server gives tokens."""

from __future__ import annotations

from typing import Annotated

import msgspec

from toolstead.adapters.http.access import MCP_PATH, METADATA_PATH, AccessRules
from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.problem import UNKNOWN_PROFILE, problem_response
from toolstead.adapters.rest.openapi import describe_answer, path_parameter, route


class ResourceMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a client needs to get an access token for this server (RFC 9728).

    Attributes:
        resource: What a token must be made for: the public URL of `/mcp`, or of a profile.
        authorization_servers: The issuer.
        scopes_supported: The scopes that give a profile.
        bearer_methods_supported: How a token is sent: in the header `Authorization`.
        resource_name: What the server is called.
    """

    resource: str
    authorization_servers: Annotated[list[str], msgspec.Meta(min_length=1)]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]
    resource_name: str


_EXAMPLE = {
    "resource": "https://tools.example.org/mcp",
    "authorization_servers": ["https://id.example.org"],
    "scopes_supported": ["tools:read"],
    "bearer_methods_supported": ["header"],
    "resource_name": "Toolstead",
}


class ResourceRoutes:
    """The metadata, at the three places where clients look."""

    def __init__(self, access: AccessRules) -> None:
        self._access = access

    @route(
        "GET",
        METADATA_PATH,
        "resourceMetadata",
        "Learn who gives access tokens",
        "Answered without a token, on servers that accept access tokens.",
        for_profiles=True,
        responses=describe_answer(ResourceMetadata, "The metadata.", example=_EXAMPLE),
    )
    async def show_metadata(self, request: HttpRequest) -> HttpResponse:
        """`GET /.well-known/oauth-protected-resource`."""
        return self._answer(None, request)

    @route(
        "GET",
        METADATA_PATH + MCP_PATH,
        "mcpResourceMetadata",
        "Learn who gives access tokens for /mcp",
        "The same; RFC 9728 puts the path of the resource behind the well-known one.",
        for_profiles=True,
        responses=describe_answer(ResourceMetadata, "The metadata.", example=_EXAMPLE),
    )
    async def show_mcp_metadata(self, request: HttpRequest) -> HttpResponse:
        """`GET /.well-known/oauth-protected-resource/mcp`."""
        return self._answer(None, request)

    @route(
        "GET",
        METADATA_PATH + MCP_PATH + "/{name}",
        "profileResourceMetadata",
        "Learn who gives access tokens for a profile",
        "The metadata of `/mcp/NAME`, for a profile that a scope gives.",
        for_profiles=True,
        parameters=[path_parameter("name", "The profile.", "readers")],
        responses=describe_answer(
            ResourceMetadata,
            "The metadata.",
            UNKNOWN_PROFILE,
            example={**_EXAMPLE, "resource": "https://tools.example.org/mcp/readers"},
        ),
    )
    async def show_profile_metadata(self, request: HttpRequest) -> HttpResponse:
        """`GET /.well-known/oauth-protected-resource/mcp/NAME`."""
        return self._answer(request.params["name"], request)

    def _answer(self, profile: str | None, request: HttpRequest) -> HttpResponse:
        metadata = self._access.describe_resource(profile)
        if metadata is None:
            detail = "There is no such profile, or no scope of an access token gives it."
            return problem_response(UNKNOWN_PROFILE, detail, instance=request.path)
        return HttpResponse.of_json(metadata)
