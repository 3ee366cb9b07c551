"""Delegated work: admission, attempts, review, budgets, delivery; each task ends in exactly one outcome.

Above it, the orchestrator runs agents; below it, `invoker` and `types`. The store is the truth (`task_store`), an
engine only executes "work on task X" at least once (`engine`), and runs are started through a port (`task_runs`).
"""
