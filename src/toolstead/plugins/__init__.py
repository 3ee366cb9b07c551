"""The contract that tools are written against.

Below: `schema`, `types`, `errors`. Above: `tools`, which runs what is written here.
"""
