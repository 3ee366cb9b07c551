"""The MCP door, through the official SDK's low-level server: both eras, stdio and HTTP."""
