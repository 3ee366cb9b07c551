"""The agent loop over a model port: instructions and history in, answers and tool calls out.

No I/O and no knowledge of sub-agents; it imports `types` and `errors` alone.
"""
