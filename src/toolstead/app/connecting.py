"""Finding the stead that answers for a project: a server that was named, the one that runs, or one in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolstead.app.client import InProcessClient, SteadClient
from toolstead.app.server_file import ServerFile

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.stead import Toolstead


@asynccontextmanager
async def open_client(
    places: Places, create_stead: Callable[[], Toolstead], *, url: str | None, read_token: Callable[[], str]
) -> AsyncGenerator[SteadClient]:
    """The server that was named, else the project's own if one runs, else a stead in this process.

    Args:
        places: Where the project and the data are.
        create_stead: Makes the stead where no server answers.
        url: The server to ask, instead of the project's own.
        read_token: The token for a server that is not one of this user's; empty for none.

    Raises:
        ServeError: The one that was named has an address that cannot be asked.
    """
    servers = ServerFile(places.data)
    known = servers.find_server(places.project) if url is None else servers.find_url(url)
    address = url if known is None else known.url
    if address is not None:
        from toolstead.app.http_client import HttpClient

        # A server's token is never sent to another address: that one gets the token of the settings, or none.
        async with HttpClient(address, known.token if known is not None else read_token()) as client:
            if url is not None or await client.is_listening():
                yield client
                return
    async with create_stead() as stead:
        yield InProcessClient(stead, lost_server=address)
