"""MCP, through the official SDK's low-level server: every protocol version, stdio and HTTP.

Below: `tools` (registry and dispatcher). Above: `app`, which wires it.
"""
