"""Toolstead through its public Python API, with default settings."""
