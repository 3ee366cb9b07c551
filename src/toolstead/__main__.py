"""`python -m toolstead` is the `toolstead` command."""

from toolstead.console.cli.main import main

main()
