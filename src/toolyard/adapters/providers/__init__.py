"""Model providers: what their APIs want to be told of a tool."""
