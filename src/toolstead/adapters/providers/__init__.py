"""Model providers: what their APIs are told of tools, and the connections through which a model is asked."""
