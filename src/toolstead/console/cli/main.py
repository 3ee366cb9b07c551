"""The entry point of the `toolstead` command.

`toolstead mcp` is started by a client that waits for it, so its usual command lines are understood here, without
click and everything click imports. click reads every other command line.
"""

from __future__ import annotations

import logging
import sys

from toolstead.console.cli.invocation import leave_process
from toolstead.console.cli.standard_streams import flush_output, prepare_streams
from toolstead.console.cli.stdio import plainly_asked, serve
from toolstead.errors import ToolsteadError


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 the tool failed, 2 wrong usage, 130 interrupted, 143 terminated.

    Args:
        arguments: The command line; that of the process unless given.
    """
    if arguments is None:
        prepare_streams()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if arguments is not None:
        sys.exit(_status_of(arguments))
    try:
        status = _status_of(sys.argv[1:])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    if why := flush_output():
        sys.stderr.write(f"toolstead: {why}\n")
        status = 1
    leave_process(status)


def _status_of(arguments: list[str]) -> int:
    invocation = plainly_asked(arguments)
    if invocation is None:
        from toolstead.console.cli.group import run

        return run(arguments)
    try:
        return serve(invocation)
    except (ToolsteadError, KeyboardInterrupt, EOFError, OSError) as error:
        from toolstead.console.cli.group import ended_by

        return ended_by(error)
