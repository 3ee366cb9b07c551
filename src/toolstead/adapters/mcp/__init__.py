"""MCP, through the official SDK's low-level server: every protocol version, stdio and HTTP."""
