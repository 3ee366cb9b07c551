"""Deadlines, cancellation of foreign code that may ignore it, and owned background tasks.

There are two ways. `suspended_coroutine` runs a coroutine in its caller's own task: tools, hooks, the steps of a
plugin's life. `owned_tasks` runs one in its own task: turns of a runtime, background work, calls over MCP, what is
left when the process ends. Both cancel first, wait for a grace period, and abandon what ignores its cancellation.
"""
