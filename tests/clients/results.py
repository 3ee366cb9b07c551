"""What became of each check: one JSON file for each client and transport, and the table made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from tests import machine
from tests.clients.environments import CACHE
from tests.clients.table import CHECKS, CLIENTS, Client

FOLDER = CACHE / "results"
PAGE = machine.ROOT / "docs" / "clients.md"
_BEGIN, _END = "<!-- table: python -m tests.clients --page -->", "<!-- end of table -->"
FIRST_LINE = f"| client | over | {' | '.join(CHECKS)} |"
_TRANSPORTS = {"stdio": "stdio", "http": "HTTP"}
Verdict = Literal["W", "P", "F", "-"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a check went.

    Attributes:
        verdict: Works, works in part, fails, or was not tried.
        note: What was seen.
    """

    verdict: Verdict
    note: str = ""


_UNTRIED = Outcome(verdict="-")


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a client did over one transport.

    Attributes:
        client: The client's name in the table.
        transport: `stdio` or `http`.
        commit: The commit of this project, with `+` when something was changed in it.
        seconds: How long it took.
        outcomes: Each check's, by name.
    """

    client: str
    transport: str
    commit: str
    seconds: float
    outcomes: dict[str, Outcome]


def keep_result(result: Result) -> None:
    """Keep a result for the table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(result))
    _path_of(result.client, result.transport).write_bytes(data)


def read_results() -> list[Result]:
    """The kept results, in the order of the table of clients."""
    paths = [_path_of(name, transport) for name, client in CLIENTS.items() for transport in client.transports]
    return [msgspec.json.decode(path.read_bytes(), type=Result) for path in paths if path.exists()]


def is_kept(name: str, transport: str) -> bool:
    """Whether a client has a result."""
    return _path_of(name, transport).exists()


def find_unexplained(results: Iterable[Result]) -> list[str]:
    """What does not work although the table of clients knows of no reason, and what works although it names one."""
    found: list[str] = []
    for result in results:
        client = CLIENTS[result.client]
        for check, outcome in result.outcomes.items():
            place = f"{result.client} {result.transport} {check}"
            reason = _find_reason(client, check, result.transport)
            if outcome.verdict in "PF" and reason is None:
                found.append(f"{place}: {outcome.verdict} {outcome.note}")
            elif outcome.verdict == "W" and reason is not None:
                found.append(f"{place}: works, although: {reason}")
    return found


def render_table(results: Iterable[Result]) -> str:
    """The results as Markdown: a table, then for each client the reasons for what is no W.

    A client that does the same over both transports has one line.
    """
    rows = [FIRST_LINE, f"|---|---|{'---|' * len(CHECKS)}"]
    reasons: list[str] = []
    for name, client in CLIENTS.items():
        by_cells: dict[str, list[str]] = {}
        said: dict[str, list[str]] = {}
        for result in (result for result in results if result.client == name):
            verdicts = [result.outcomes.get(check, _UNTRIED).verdict for check in CHECKS]
            cells = " | ".join("·" if verdict == "-" else verdict for verdict in verdicts)
            by_cells.setdefault(cells, []).append(_TRANSPORTS[result.transport])
            for check, reason in _explain(client, result):
                if check not in said.setdefault(reason, []):
                    said[reason].append(check)
        rows += [f"| {client.title} | {', '.join(over)} | {cells} |" for cells, over in by_cells.items()]
        if said:
            told = "; ".join(f"{', '.join(checks)}: {reason}" for reason, checks in said.items())
            reasons.append(f"- **{client.title}**: {told}")
    return "\n".join([*rows, "", *reasons])


def write_page(table: str) -> None:
    """Put a table into the page for users, in place of the one that is there."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n{table}\n{_END}{after}", encoding="utf-8")


def _explain(client: Client, result: Result) -> Iterator[tuple[str, str]]:
    """Each check that did not go well, with the reason."""
    for check in CHECKS:
        outcome = result.outcomes.get(check, _UNTRIED)
        if outcome.verdict in "PF":
            yield check, _find_reason(client, check, result.transport) or f"not explained: {outcome.note[:200]}"


def _find_reason(client: Client, check: str, transport: str) -> str | None:
    """Why a check is known not to succeed, and on whose side."""
    for side, reasons in (("its own limit", client.limits), ("our side", client.ours)):
        for key in (f"{check} {transport}", check):
            if key in reasons:
                return f"{side}: {reasons[key]}"
    return None


def _path_of(client: str, transport: str) -> Path:
    return FOLDER / f"{client}-{transport}.json"


def to_outcomes(lines: str) -> dict[str, Outcome]:
    """What a driver reported, line by line; other lines are what its client printed."""
    found: dict[str, Outcome] = {}
    for line in lines.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("check") in {*CHECKS, "shape"}:
            found[said["check"]] = Outcome(verdict=said["verdict"], note=said["note"])
    return found
