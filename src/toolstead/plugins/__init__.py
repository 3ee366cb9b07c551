"""Plugins: the contract they are written against, finding and loading them, and running their hooks.

`contract`, `ports` and `tool_meta` are what an author sees; `decorator` makes tools of functions. `discovery` finds
plugins, `host` takes them through their steps, `hook_runner` calls their hooks.
"""
