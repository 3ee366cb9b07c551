"""The floor: the least a program can do that still parses, validates, calls and answers."""
