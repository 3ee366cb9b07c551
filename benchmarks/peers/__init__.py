"""The same work through other libraries, each run in an environment of its own (`requirements/`)."""
