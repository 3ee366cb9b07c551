"""The data types that all other packages share: no I/O."""
