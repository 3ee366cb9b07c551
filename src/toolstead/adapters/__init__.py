"""The doors to the outside: foreign SDKs are imported here, and nowhere below.

`rest` (HTTP), `mcp` (stdio and HTTP) and `providers` (definitions for model APIs). Each door turns
its wire into calls of the dispatcher and results into its wire; none of them validates, times or
logs a call itself. Below: everything from `orchestrator` down. Above: `app` wires them.
"""
