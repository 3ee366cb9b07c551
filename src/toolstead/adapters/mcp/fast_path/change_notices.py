"""Notices of changed lists on stdio: to a handshake client on its connection, to a modern one on its subscriptions.

    change ──▸ pending ──▸ written ──▸ taken by the client, and a pause ──▸ pending changes again

The first change of a burst is announced at once, and the rest of it with one more notice. A client that does not read
gets one notice for all that changed meanwhile, so that nothing piles up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Literal

import msgspec

from toolstead.adapters.mcp.fast_path.messages import ListenFilter, MessageId
from toolstead.concurrency.owned_tasks import cancel_tasks
from toolstead.types.client_parts import ListKind

PAUSE: Final = 0.05
"""Seconds between two notices."""
MOST_SUBSCRIPTIONS: Final = 1_024
"""Open subscriptions of one client, the same as in the SDK."""

Kind = Literal["tools"] | ListKind
"""The lists that change."""


class ChangeNotices:
    """Notifies one client.

    Attributes:
        tells_connection: Whether the client is notified on its connection: a handshake client that is initialized.
    """

    def __init__(self, write: Callable[[bytes], None], wait_until_taken: Callable[[], Awaitable[None]]) -> None:
        """Start with no subscription.

        Args:
            write: Writes a line.
            wait_until_taken: Waits while the client does not read; raises OSError when it has disconnected.
        """
        self.tells_connection = False
        self._write = write
        self._wait_until_taken = wait_until_taken
        self._subscriptions: dict[str, tuple[MessageId, ListenFilter]] = {}
        self._pending: set[Kind] = set()
        self._changed = asyncio.Event()
        self._notifying: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the client has as many subscriptions as it may."""
        return len(self._subscriptions) >= MOST_SUBSCRIPTIONS

    def has_subscription(self, id: MessageId) -> bool:
        """Whether a subscription of this id is open."""
        return str(id) in self._subscriptions

    def open_subscription(self, id: MessageId, wanted: ListenFilter) -> None:
        """Acknowledge a subscription; its notices follow."""
        wanted = wanted.only_honored()
        self._write(_render_notice(b"notifications/subscriptions/acknowledged", id, wanted))
        self._subscriptions[str(id)] = id, wanted

    def end_subscription(self, id: MessageId) -> bool:
        """End a subscription that the client cancelled; False if there is none of this id."""
        return self._subscriptions.pop(str(id), None) is not None

    def add_change(self, kind: Kind) -> None:
        """Note that a list changed."""
        if not (self.tells_connection or self._subscriptions):
            return
        self._pending.add(kind)
        self._changed.set()
        if self._notifying is None:
            self._notifying = asyncio.get_running_loop().create_task(self._notify(), name="toolstead-stdio-notices")

    async def close(self) -> None:
        """Notify no more."""
        self._subscriptions.clear()
        self.tells_connection = False
        if self._notifying is not None:
            await cancel_tasks((self._notifying,))

    async def _notify(self) -> None:
        with suppress(OSError):  # the client has disconnected, which ends the connection
            while True:
                await self._changed.wait()
                self._changed.clear()
                kinds, self._pending = self._pending, set[Kind]()
                for kind in sorted(kinds):
                    self._announce(kind)
                await self._wait_until_taken()
                await asyncio.sleep(PAUSE)

    def _announce(self, kind: Kind) -> None:
        method = f"notifications/{kind}/list_changed".encode()
        if self.tells_connection:
            self._write(b'{"jsonrpc":"2.0","method":"' + method + b'"}')
        for subscription, wanted in tuple(self._subscriptions.values()):
            if getattr(wanted, f"{kind}ListChanged"):
                self._write(_render_notice(method, subscription))


def _render_notice(method: bytes, id: MessageId, wanted: ListenFilter | None = None) -> bytes:
    """A notification on a subscription; an acknowledgement repeats what was subscribed to."""
    rest = b"" if wanted is None else b',"notifications":' + msgspec.json.encode(wanted)
    stamp = b'{"_meta":{"io.modelcontextprotocol/subscriptionId":' + msgspec.json.encode(id) + b"}"
    return b'{"jsonrpc":"2.0","method":"' + method + b'","params":' + stamp + rest + b"}}"
