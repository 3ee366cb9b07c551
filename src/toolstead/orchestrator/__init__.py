"""Threads, messages and runs: which is answered when, what is stored of it, and the event log."""
