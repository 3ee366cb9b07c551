"""Invoking an agent: the runtime port, the pool of warm sessions, and the one function that makes their keys."""
