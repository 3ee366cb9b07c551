"""Tools: their sources, the registry of their names, and the dispatcher that calls them.

Data flow: source → registry → dispatch.
"""
