"""How the person at an MCP client is asked about an approval. Needs no SDK: the fast path asks it too.

| way    | what the client shows                | who decides                                             |
|--------|--------------------------------------|---------------------------------------------------------|
| `page` | a link to a page of this server      | whoever has the private token there, never the client   |
| `form` | the call, with allow and deny        | whatever answers at the client, which may be no person  |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

ApprovalPolicy = Literal["page", "form", "none"]
ApprovalWay = Literal["page", "form"]

PAGE_PATH: Final = "/approvals/"
"""Where the pages are, before the approval's id."""


class ApprovalWays(msgspec.Struct, frozen=True):
    """The ways that a server offers.

    Attributes:
        policy: The setting `server.client_approvals`.
        has_page: Whether this server has pages, which its clients can open.
        public_url: What links to its pages begin with; empty for the address that each request names.
    """

    policy: ApprovalPolicy
    has_page: bool
    public_url: str = ""

    def find_way(self, elicitation: Mapping[str, Any] | None) -> ApprovalWay | None:
        """The way for a client.

        Args:
            elicitation: What the client declares as `elicitation`; None for nothing. An empty object means forms.
        """
        if elicitation is None or self.policy == "none":
            return None
        if self.has_page and elicitation.get("url") is not None:
            return "page"
        return "form" if self.policy == "form" and takes_forms(elicitation) else None


def takes_forms(elicitation: Mapping[str, Any]) -> bool:
    """Whether a client that declares this shows forms."""
    return elicitation.get("form") is not None or elicitation.get("url") is None
