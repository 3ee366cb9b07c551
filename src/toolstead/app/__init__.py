"""Settings, folders, switches and the wiring: the only package that reads the environment."""
