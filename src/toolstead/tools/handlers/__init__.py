"""What runs when a tool from a JSON file is called: a command, an HTTP request, a file read.

Each is parsed when its file is loaded, so that a call only fills in values.
"""
