"""The key of a session, and the fingerprint of what it was built with: one function each.

Prewarming, invoking and evicting meet in one session only when all of them ask here.
"""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import blake2b

from toolstead.invoker.runtime import SessionSpec

DEFAULT = "default"


def session_key(thread_id: str | None = None, session_id: str | None = None) -> str:
    """The thread's id, else the session's id, else `default`."""
    return thread_id or session_id or DEFAULT


@lru_cache(maxsize=512)
def fingerprint(spec: SessionSpec) -> str:
    """A short text that is the same for two specifications when one session can serve both.

    The order of tools and permissions means nothing, so it makes no difference.
    """
    parts = [
        spec.agent,
        spec.model,
        str(spec.cwd),
        sorted(set(spec.tools)),
        spec.instructions,
        sorted(set(spec.permissions)),
    ]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
