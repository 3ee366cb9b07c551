"""Connecting MCP clients: writing into the configuration of another program, and proving that it leads to tools.

`clients` knows each client; `plan` works out the change of its file, with `json_text` and `toml_table` as the two ways
to edit a text and `kept_file` to replace a file; `proof` starts or reaches what is written, as the client will.
"""
