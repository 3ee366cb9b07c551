"""The REST door: tools and conversations over HTTP, with the guard that stands before every route, `/mcp` included.

A request passes `server` (sockets, signals) → `protocol` (bytes, bounded) → `app` (the top frame) →
`guard` (Host, Origin, token, size) → `routing` → `tool_routes` or `pages` → the dispatcher, or →
`thread_routes`, `run_routes`, `event_routes` → the orchestrator. Streams of events are `sse`. Plain
ASGI, without a framework: a call through one costs more than the call itself. Beside it:
`adapters.mcp`, which is mounted as one ASGI application.
"""
