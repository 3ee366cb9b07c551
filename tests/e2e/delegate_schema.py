"""The input schema of `delegate_agent`, word for word as its document has it."""

from __future__ import annotations

from typing import Any

_ID = {"type": "string", "pattern": "^[a-z0-9_\\-]+$"}
_CONTEXT = {
    "type": "object",
    "properties": {
        "working_directory": {"type": "string"},
        "hints": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": True,
}

DELEGATE_AGENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "agent_id": _ID,
        "prompt": {"type": "string"},
        "context": _CONTEXT,
        "batch": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["agent_id", "prompt"],
                "properties": {"agent_id": _ID, "prompt": {"type": "string"}, "context": _CONTEXT},
                "additionalProperties": False,
            },
        },
    },
    "anyOf": [
        {"required": ["agent_id", "prompt"]},
        {"required": ["batch"], "properties": {"batch": {"minItems": 1}}},
    ],
    "additionalProperties": False,
}
