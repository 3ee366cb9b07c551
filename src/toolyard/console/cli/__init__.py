"""The `toolyard` command, one file a command; each pays only for the imports it needs."""
