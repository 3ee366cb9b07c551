"""What was set for a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class PluginRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for a plugin, above the settings files; None where nothing was set."""

    enabled: bool | None = None
    settings: Mapping[str, Any] | None = None
