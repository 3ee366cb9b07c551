"""The words everything else is written in: pure data, no I/O."""
