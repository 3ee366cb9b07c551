"""`python -m tests.clients [NAME…]`: meet real MCP clients, and say what each of them gets of this server.

Each client is installed in an environment of its own under `.cache/clients`, and meets the server in an empty home,
over stdio and over HTTP, on loopback. What it did is kept; a run goes on where the last one stopped, and ends with
the table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time

from tests import machine
from tests.clients.environments import CACHE, InstallError
from tests.clients.meeting import meet
from tests.clients.results import (
    Outcome,
    Result,
    find_unexplained,
    is_kept,
    keep_result,
    read_results,
    render_table,
    write_page,
)
from tests.clients.shapes import check_limits
from tests.clients.table import CLIENTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CLIENTS)}; all unless named")
    parser.add_argument("--again", action="store_true", help="also what has a result already; names imply it")
    parser.add_argument("--table", action="store_true", help="meet nobody: print the table of what is kept")
    parser.add_argument("--page", action="store_true", help="also put the table into docs/clients.md")
    parser.add_argument("--limits", action="store_true", help="check what `toolstead tools check` says of clients")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in CLIENTS]:
        parser.error(f"no client {unknown[0]!r}; there are {', '.join(CLIENTS)}")
    for name in [name for name in os.environ if name.startswith(("TOOLSTEAD_", "XDG_"))]:
        del os.environ[name]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background, and then in all children
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through every `with`
    if asked.limits:
        return _check_limits()
    if not asked.table:
        for name in asked.names or CLIENTS:
            for transport in CLIENTS[name].transports:
                if asked.names or asked.again or not is_kept(name, transport):
                    _meet_client(name, transport)
    results = read_results()
    table = render_table(results)
    print(table)
    (CACHE / "table.md").write_text(table + "\n", encoding="utf-8")
    if asked.page:
        write_page(table)
    unexplained = find_unexplained(results)
    for line in unexplained:
        print(f"unexplained: {line}", file=sys.stderr)
    return 1 if unexplained else 0


def _check_limits() -> int:
    """Check each example of the table of limits with the clients that it names."""
    wrong = 0
    for line in check_limits():
        print(line, flush=True)
        wrong += line.startswith("wrong")
    return 1 if wrong else 0


def _meet_client(name: str, transport: str) -> None:
    """Meet one client, and keep what it did."""
    began = time.monotonic()
    try:
        outcomes = asyncio.run(meet(name, transport))
    except InstallError as error:
        outcomes = {"list": Outcome(verdict="F", note=f"cannot be installed: {error}")}
    except Exception as error:  # noqa: BLE001 - one client must not keep the others from being met
        outcomes = {"list": Outcome(verdict="F", note=f"the laboratory failed: {type(error).__name__}: {error}")}
    seconds = round(time.monotonic() - began, 1)
    said = " ".join(f"{check}={outcome.verdict}" for check, outcome in outcomes.items())
    print(f"{name} {transport} ({seconds} s): {said}", file=sys.stderr, flush=True)
    keep_result(Result(client=name, transport=transport, commit=_commit(), seconds=seconds, outcomes=outcomes))


def _commit() -> str:
    command = ["git", "-C", str(machine.ROOT)]
    head = subprocess.run([*command, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*command, "status", "--porcelain", "src"], capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())
