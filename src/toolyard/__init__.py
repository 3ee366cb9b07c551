"""Toolyard gives AI agents their tools: register once, and every agent can call it.

The names below are the public API; each is imported when it is first used, so that `import
toolyard` costs nothing and pulls no SDK. `toolyard.types`, `toolyard.plugins` and
`toolyard.testing` are public too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolyard.app.yard import Toolyard as Toolyard
    from toolyard.errors import RefusedError as RefusedError
    from toolyard.errors import Rejected as Rejected
    from toolyard.errors import ToolError as ToolError
    from toolyard.errors import ToolyardError as ToolyardError
    from toolyard.errors import UnknownToolError as UnknownToolError
    from toolyard.plugins.contract import Hooks as Hooks
    from toolyard.plugins.contract import Plugin as Plugin
    from toolyard.plugins.contract import PluginContext as PluginContext
    from toolyard.plugins.contract import Tool as Tool
    from toolyard.plugins.decorator import tool as tool
    from toolyard.plugins.tool_meta import ToolMeta as ToolMeta
    from toolyard.tools.sources.validation import Validation as Validation
    from toolyard.tools.sources.validation import validate_tool_file as validate_tool_file
    from toolyard.types.call import Allow as Allow
    from toolyard.types.call import Ask as Ask
    from toolyard.types.call import Deny as Deny
    from toolyard.types.call import Rewrite as Rewrite
    from toolyard.types.content import Audio as Audio
    from toolyard.types.content import Image as Image
    from toolyard.types.content import Text as Text
    from toolyard.types.result import ToolResult as ToolResult
    from toolyard.types.task import Verdict as Verdict
    from toolyard.types.tool import Annotations as Annotations

__version__ = "0.1.0"

_HOMES = {
    "Allow": "toolyard.types.call",
    "Annotations": "toolyard.types.tool",
    "Ask": "toolyard.types.call",
    "Audio": "toolyard.types.content",
    "Deny": "toolyard.types.call",
    "Hooks": "toolyard.plugins.contract",
    "Image": "toolyard.types.content",
    "Plugin": "toolyard.plugins.contract",
    "PluginContext": "toolyard.plugins.contract",
    "RefusedError": "toolyard.errors",
    "Rejected": "toolyard.errors",
    "Rewrite": "toolyard.types.call",
    "Text": "toolyard.types.content",
    "Tool": "toolyard.plugins.contract",
    "ToolError": "toolyard.errors",
    "ToolMeta": "toolyard.plugins.tool_meta",
    "ToolResult": "toolyard.types.result",
    "Toolyard": "toolyard.app.yard",
    "ToolyardError": "toolyard.errors",
    "UnknownToolError": "toolyard.errors",
    "Validation": "toolyard.tools.sources.validation",
    "Verdict": "toolyard.types.task",
    "tool": "toolyard.plugins.decorator",
    "validate_tool_file": "toolyard.tools.sources.validation",
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
    "RefusedError",
    "Rejected",
    "Rewrite",
    "Text",
    "Tool",
    "ToolError",
    "ToolMeta",
    "ToolResult",
    "Toolyard",
    "ToolyardError",
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
        raise AttributeError(f"module 'toolyard' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
