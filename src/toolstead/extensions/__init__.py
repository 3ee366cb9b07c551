"""First-party plugins, one a module, each with its value `plugin`: `time`, `context`, `plan`, `vfs`.

Like any plugin they use the contract alone, and know nothing of each other.
"""
