"""`python -m toolyard` is the `toolyard` command."""

from toolyard.console.cli.main import main

main()
