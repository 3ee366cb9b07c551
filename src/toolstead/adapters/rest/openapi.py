"""The OpenAPI 3.1 document, generated from the route table.

Operations name the Structs of their request and response bodies, whose schemas become the components.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from toolstead.adapters.http.asgi import Handler
from toolstead.adapters.http.problem import BAD_TYPE, PRIVATE, TOO_LARGE, ProblemKind
from toolstead.adapters.http.routing import Endpoint
from toolstead.adapters.rest.answers import ProblemDocument
from toolstead.types.event import Event
from toolstead.types.sent import StructType

Document = dict[str, Any]
_Handling = TypeVar("_Handling", bound=Callable[..., Any])

PRIVATE_SCHEME = "privateToken"

_ABOUT = (
    "Tools and conversations over HTTP. Bodies are JSON in UTF-8, spelled in camelCase; a tool's own input and output "
    "are spelled as its author spells them. Errors are RFC 9457 problem documents whose `type` points into this page."
)

_MESSAGE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}},
}


def describe_operation(
    name: str,
    summary: str,
    description: str,
    *,
    responses: Mapping[str, Any],
    parameters: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Document:
    """One route's description; every route can also be refused by the guard."""
    shown: Document = {"operationId": name, "summary": summary, "description": description}
    if parameters:
        shown["parameters"] = list(parameters)
    shown.update(more)
    shown["responses"] = {**responses, "default": {"$ref": "#/components/responses/Refused"}}
    return shown


def route(
    method: str,
    path: str,
    name: str,
    summary: str,
    description: str,
    *,
    private: bool = False,
    for_profiles: bool = False,
    **operation: Any,
) -> Callable[[_Handling], _Handling]:
    """Mark a method as the handler of a route, with its OpenAPI operation; `describe_operation` takes the rest."""
    described = describe_operation(name, summary, description, **operation)
    described = _describe_private(described) if private else described

    def mark(handling: _Handling) -> _Handling:
        handling.__dict__["endpoint"] = {
            "method": method,
            "path": path,
            "operation": described,
            "private": private,
            "for_profiles": for_profiles,
        }
        return handling

    return mark


def list_endpoints(routes: object, wrap: Callable[[Any], Handler] = lambda handling: handling) -> list[Endpoint]:
    """The routes of an object in the order of their methods, which is the documentation's order.

    Args:
        routes: Some of its methods are marked with `route`.
        wrap: Makes a handler of such a method.
    """
    return [
        Endpoint(handler=wrap(getattr(routes, name)), **member.__dict__["endpoint"])
        for name, member in vars(type(routes)).items()
        if "endpoint" in getattr(member, "__dict__", ())
    ]


def _describe_private(described: Mapping[str, Any]) -> Document:
    """The description of a private route: the same, with the token it needs and the answer without it."""
    responses: Document = {**answers_with(PRIVATE), **described["responses"]}
    good = [status for status in responses if status.startswith("2")]
    order = [*good, *sorted(status for status in responses if status not in good)]
    return {
        **described,
        "security": [{PRIVATE_SCHEME: []}],
        "responses": {status: responses[status] for status in order},
    }


def path_parameter(name: str, description: str, example: str) -> Document:
    """A placeholder of the path."""
    schema = {"type": "string"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
        "example": example,
    }


def query_parameter(name: str, description: str, example: str | None) -> Document:
    """An optional query parameter; one with an example appears in the example request."""
    shown: Document = {"name": name, "in": "query", "description": description, "schema": {"type": "string"}}
    return shown if example is None else {**shown, "example": example}


def body_of(struct: StructType, example: Any, *, required: bool = False) -> Document:
    """A JSON body, which may be left out unless it is required."""
    return {"required": required, "content": {"application/json": {"schema": struct, "example": example}}}


def describe_answer(
    struct: StructType, description: str, *problems: ProblemKind, example: Any, status: int = 200
) -> Document:
    """The success response, and the problems specific to this route."""
    good = {"description": description, "content": {"application/json": {"schema": struct, "example": example}}}
    return {str(status): good, **answers_with(*problems)}


def answers_with(*problems: ProblemKind) -> Document:
    """Answers that are problem documents, by status."""
    by_status: dict[str, list[ProblemKind]] = {}
    for kind in problems:
        by_status.setdefault(str(kind.status), []).append(kind)
    return {
        status: {
            "description": " ".join(f"{kind.title}: [{kind.slug}](/docs#{kind.slug})." for kind in kinds),
            "content": {"application/problem+json": {"schema": ProblemDocument}},
        }
        for status, kinds in by_status.items()
    }


def mcp_paths() -> Document:
    """`/mcp`: MCP, not REST; the MCP specification defines its shapes."""
    by_protocol = {"description": "As the Streamable HTTP transport of the Model Context Protocol defines it."}

    message = {"description": "A JSON-RPC 2.0 message.", "type": "object"}
    problem = {"application/problem+json": {"schema": ProblemDocument}}
    refused = {
        "description": "Refused by the protocol, with a JSON-RPC error or without a body; or before it got there, "
        "with a problem document.",
        "content": {"application/json": {"schema": message}, **problem},
    }

    def describe_path(name: str, summary: str, description: str) -> Document:
        responses = {"200": by_protocol, "202": by_protocol, "4XX": refused, "5XX": refused}
        return describe_operation(name, summary, description, responses=responses)

    post = describe_path("mcpMessage", "Send an MCP message", "The same tools for MCP clients, over Streamable HTTP.")
    post["requestBody"] = {"required": True, "content": {"application/json": {"schema": message, "example": _MESSAGE}}}
    return {
        "post": post,
        "get": describe_path(
            "mcpStream", "Listen to an MCP session", "The stream of a session that began with `initialize`."
        ),
        "delete": describe_path("mcpEnd", "End an MCP session", "Ends a session that began with `initialize`."),
    }


def build_document(endpoints: Sequence[Endpoint], *, version: str, with_token: bool, with_mcp: bool) -> Document:
    """The document for these routes.

    Args:
        endpoints: Every route.
        version: Toolstead's version.
        with_token: Whether this server needs a token.
        with_mcp: Whether `/mcp` is mounted.
    """
    paths: dict[str, Document] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = dict(endpoint.operation)
    if with_mcp:
        paths["/mcp"] = mcp_paths()
    document: Document = {
        "openapi": "3.1.0",
        "info": {"title": "Toolstead", "version": version, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "responses": {
                "Refused": {
                    "description": "Refused before it reached the route, by Host, Origin, token, "
                    f"size ({TOO_LARGE.status}) or type of the body ({BAD_TYPE.status}); or the server is stopping.",
                    "content": {"application/problem+json": {"schema": ProblemDocument}},
                }
            },
        },
    }
    # Imported here, because only the document needs schemas.
    from toolstead.adapters.rest.schemas import build_schemas, refer_to

    structs: set[StructType] = {Event}

    def link_schema(struct: StructType) -> Document:
        structs.add(struct)
        return refer_to(struct)

    document = msgspec.to_builtins(document, enc_hook=link_schema)
    document["components"]["schemas"] = build_schemas(structs)
    schemes: Document = {}
    if with_token:
        schemes["token"] = {"type": "http", "scheme": "bearer", "description": "The server's token."}
        document["security"] = [{"token": []}, {PRIVATE_SCHEME: []}]
    if with_token or any(endpoint.private for endpoint in endpoints):
        about = "Created by the server at every start, for the user's own programs; opens every route."
        schemes[PRIVATE_SCHEME] = {"type": "http", "scheme": "bearer", "description": about}
        document["components"]["securitySchemes"] = schemes
    return document
