"""JSON Schema: compile once, validate on every call, explain failures, fill defaults.

Below: `types`, `errors`. Above: `plugins` (schemas from signatures), `tools` (every call).
"""
