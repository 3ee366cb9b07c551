"""Threads, messages and runs: who is answered when, what is stored of it, and the event log."""
