"""How fast Toolstead is, beside its peers and beside the floor: `python -m benchmarks`.

`rows/` says what is measured, `floor/`, `ours/` and `peers/` are the programs that are measured, `harness` runs them
in rounds and `table` writes the answer down. Nothing here is imported by Toolstead.
"""
