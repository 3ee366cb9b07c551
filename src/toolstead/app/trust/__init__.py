"""Trust: what a project brings counts only after the user approved it, byte for byte.

`snapshot` reads a project's own files without following a link, `approvals` keeps the approved
bytes in a private folder, `review` shows what would run and what changed, `approved` hands the
approved bytes to the loaders, and notices approvals and changes while a process runs.
"""
