"""The `toolstead` command, one file a command; each pays only for the imports it needs."""
