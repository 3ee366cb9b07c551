"""Settings, folders, switches and the wiring: the only package that reads the environment.

Below: everything. Above: `testing` and `console`.
"""
