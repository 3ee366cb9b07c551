"""Tools: where they come from, who holds which name, and the one way to call them.

River: source → registry → dispatch.
"""
