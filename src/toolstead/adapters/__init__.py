"""Everything that touches a foreign SDK or protocol; such SDKs are imported here, and nowhere below.

`rest` and `mcp` (stdio and HTTP) turn requests into calls of the dispatcher and results into answers; neither
validates, times or logs a call itself. `claude`, `codex` and `scripted` implement the runtime port, `providers` the
kernel's model port over the models' APIs, `storage` the store port on SQLite and Postgres.
"""
