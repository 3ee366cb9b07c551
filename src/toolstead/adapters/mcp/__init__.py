"""The MCP door, through the official SDK's low-level server: both eras, stdio and HTTP.

Below: `tools` (registry and dispatcher). Above: `app`, which wires it.
"""
