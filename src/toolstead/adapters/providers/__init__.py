"""Model providers: tool definitions for their APIs, and the connections for model requests."""
