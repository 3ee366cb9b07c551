"""The `toolyard` command, before anything is known of it.

`toolyard mcp` is started by a client that waits for it, so its usual command lines are understood here, without
click and everything click imports. Whatever else is said, click reads. Above: the script. Below: `group`, `stdio`.
"""

from __future__ import annotations

import logging
import sys

from toolyard.console.cli.stdio import plainly_asked, serve
from toolyard.errors import ToolyardError


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 the tool said no, 2 wrong usage, 130 interrupted."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    invocation = plainly_asked(sys.argv[1:] if arguments is None else arguments)
    if invocation is None:
        from toolyard.console.cli.group import run

        sys.exit(run(arguments))
    try:
        status = serve(invocation)
    except (ToolyardError, KeyboardInterrupt, EOFError, OSError) as error:
        from toolyard.console.cli.group import ended_by

        status = ended_by(error)
    sys.exit(status)
