"""Codex as a runtime: threads of the `codex app-server` program, with our tools and few built-in ones."""
