"""The owner of a server in a test: a client with its private token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.surfaces.rest_server import Reply
from tests.surfaces.rest_stead import SteadClient
from toolstead.app.server_file import ServerFile


def owner_headers(client: SteadClient) -> dict[str, str]:
    """The private token of a server, as its owner's programs find it."""
    server = ServerFile(client.stead.places.data).find_server(client.project)
    assert server is not None
    return {"Authorization": f"Bearer {server.token}"}


async def ask_as_owner(
    client: SteadClient, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> Reply:
    """One request with the private token."""
    return await client.ask(method, path, body, {**owner_headers(client), **(headers or {})})
