"""Codex as a runtime: threads of the `codex app-server` program, with our tools, and hardly any of its own."""
