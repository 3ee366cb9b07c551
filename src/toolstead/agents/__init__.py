"""Agents as files: markdown with YAML frontmatter becomes an `Agent`; a catalogue holds those of all folders.

Above are the invoker and the app, which decide which folders are read and what the files may name; below are `schema`
and `types`. `agent_file` reads one file, `catalogue` many, `references` checks what they say about each other.
"""
