"""The connections of the scripted model APIs, which a script can drop in the middle of an answer."""

from __future__ import annotations

from typing import Any, cast

from toolstead.adapters.http.protocol import BoundedProtocol


class DroppableProtocol(BoundedProtocol):
    """One connection, which an application can drop."""

    def on_message_begin(self) -> None:
        """Offer the means to drop it."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)["extensions"] = {"drop": self.transport.close}  # sends what was written
