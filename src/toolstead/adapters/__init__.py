"""Connections to the outside: foreign SDKs are imported here, and nowhere below.

`http` serves for all of them. `rest` and `mcp` (stdio and HTTP) turn requests into calls of the dispatcher and
results into their protocol; none of them validates, times or logs a call itself, and they do not know each other.
`claude`, `codex` and `scripted` are runtimes, `providers` model APIs, `storage` databases.
"""
