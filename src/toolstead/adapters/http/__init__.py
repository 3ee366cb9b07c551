"""HTTP serving, for everything that listens: REST and MCP, the tool endpoint of Codex, the scripted model APIs.

A request passes `server` (sockets, signals, shutdown) → `protocol` (bytes, limits) → `application` (outermost)
→ `guard` (Host, Origin, token, size and type of the body) → a mounted ASGI application or `routing` → a handler,
such as the one in `static_files`. Errors are `problem` documents. Plain ASGI, without a framework: a call through one
costs more than the call itself.
"""
