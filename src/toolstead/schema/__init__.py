"""JSON Schema: compile once, validate on every call, explain failures, fill defaults."""
