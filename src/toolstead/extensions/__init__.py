"""First-party plugins, one a module, each with its value `plugin`: `time`, `context`, `plan`.

They are written as anybody's plugin is, against the contract alone, and know nothing of each other.
"""
