"""The `toolyard` command, before anything is known of it.

`toolyard mcp` is started by a client that waits for it, so its usual command lines are understood here, without
click and everything click imports. Whatever else is said, click reads. Above: the script. Below: `group`, `stdio`.
"""

from __future__ import annotations

import logging
import sys

from toolyard.console.cli.ending import leave
from toolyard.console.cli.stdio import plainly_asked, serve
from toolyard.errors import ToolyardError


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 the tool said no, 2 wrong usage, 130 interrupted, 143 terminated.

    Args:
        arguments: What was said; what the process was started with, if that is not given.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if arguments is not None:
        sys.exit(_status_of(arguments))
    try:
        status = _status_of(sys.argv[1:])
    except SystemExit as told:
        status = told.code if isinstance(told.code, int) else 0 if told.code is None else 1
    leave(status)


def _status_of(arguments: list[str]) -> int:
    invocation = plainly_asked(arguments)
    if invocation is None:
        from toolyard.console.cli.group import run

        return run(arguments)
    try:
        return serve(invocation)
    except (ToolyardError, KeyboardInterrupt, EOFError, OSError) as error:
        from toolyard.console.cli.group import ended_by

        return ended_by(error)
