"""REST: tools, plugins, approvals and conversations over HTTP, with their documentation.

A request comes from `adapters.http` (server, guard, routing) to `tool_routes`, `plugin_routes`, `approval_routes`
or `pages`, and from there to the dispatcher; or to `thread_routes`, `run_routes`, `event_routes`, and from there to the
orchestrator. Streams of events are `sse`. `app` puts the routes together and mounts `adapters.mcp` beside them.
"""
