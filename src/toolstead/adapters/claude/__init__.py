"""Claude Code as a runtime: one program a session, driven through `claude-agent-sdk` (the extra `claude`)."""
