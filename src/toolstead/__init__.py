"""Toolstead gives AI agents their tools: register once, and every agent can call it.

The names below are the public API; each is imported when it is first used, so that `import
toolstead` costs nothing and pulls no SDK. `toolstead.types`, `toolstead.plugins` and
`toolstead.testing` are public too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolstead.app.stead import Toolstead
    from toolstead.errors import RefusedError, Rejected, ToolError, ToolsteadError, UnknownToolError
    from toolstead.plugins.contract import Hooks, Plugin, PluginContext, Prompt, Tool
    from toolstead.plugins.decorator import tool
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.tools.sources.json_file import Validation, validate_tool_file
    from toolstead.types.call import Allow, Ask, Deny, Rewrite
    from toolstead.types.content import Audio, Image, Text
    from toolstead.types.result import ToolResult
    from toolstead.types.tool import Annotations
    from toolstead.types.verdict import Verdict

__version__ = "0.1.0"

_HOMES = {
    "Allow": "toolstead.types.call",
    "Annotations": "toolstead.types.tool",
    "Ask": "toolstead.types.call",
    "Audio": "toolstead.types.content",
    "Deny": "toolstead.types.call",
    "Hooks": "toolstead.plugins.contract",
    "Image": "toolstead.types.content",
    "Plugin": "toolstead.plugins.contract",
    "PluginContext": "toolstead.plugins.contract",
    "Prompt": "toolstead.plugins.contract",
    "RefusedError": "toolstead.errors",
    "Rejected": "toolstead.errors",
    "Rewrite": "toolstead.types.call",
    "Text": "toolstead.types.content",
    "Tool": "toolstead.plugins.contract",
    "ToolError": "toolstead.errors",
    "ToolMeta": "toolstead.plugins.tool_meta",
    "ToolResult": "toolstead.types.result",
    "Toolstead": "toolstead.app.stead",
    "ToolsteadError": "toolstead.errors",
    "UnknownToolError": "toolstead.errors",
    "Validation": "toolstead.tools.sources.json_file",
    "Verdict": "toolstead.types.verdict",
    "tool": "toolstead.plugins.decorator",
    "validate_tool_file": "toolstead.tools.sources.json_file",
}

__all__ = [
    "Allow",
    "Annotations",
    "Ask",
    "Audio",
    "Deny",
    "Hooks",
    "Image",
    "Plugin",
    "PluginContext",
    "Prompt",
    "RefusedError",
    "Rejected",
    "Rewrite",
    "Text",
    "Tool",
    "ToolError",
    "ToolMeta",
    "ToolResult",
    "Toolstead",
    "ToolsteadError",
    "UnknownToolError",
    "Validation",
    "Verdict",
    "__version__",
    "tool",
    "validate_tool_file",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'toolstead' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
