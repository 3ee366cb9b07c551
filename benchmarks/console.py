"""`python -m benchmarks.console [--minutes N] [--quick] [--output FILE]`: the console under load, in Debian's Chromium.

A server of its own has a thread of 5,000 messages, a tree of 1,000 runs and 100,000 events more, and reports 1,000
events a second for as long as is asked. The console must be built (`make console`), and playwright installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import processes, subject
from benchmarks.console_page import Frames, MeasuredPage, rank

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATIENCE = 600.0
RATE = 1_000
FRAME_GOAL = 50.0


@dataclass(slots=True, kw_only=True)
class Load:
    """How much there is to show."""

    messages: int = 5_000
    runs: int = 1_000
    events: int = 100_000
    minutes: float = 10.0


@dataclass(slots=True, kw_only=True)
class Table:
    """What was measured, line by line."""

    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def add(self, what: str, measured: str) -> None:
        self.lines.append((what, measured))
        print(f"benchmarks: {what}: {measured}", file=sys.stderr, flush=True)

    def render(self, about: str) -> str:
        rows = "".join(f"| {what} | {measured} |\n" for what, measured in self.lines)
        return f"- {about}\n\n| what | measured |\n|---|---|\n{rows}"


@dataclass(slots=True, kw_only=True)
class Server:
    """The server with the load, and where things are in it."""

    child: processes.Child
    url: str
    login: str
    places: dict[str, Any]

    def stream(self, seconds: float) -> None:
        """Have it report events for a while; `wait` for the end."""
        self.child.write(json.dumps({"rate": RATE, "seconds": seconds}).encode() + b"\n")

    def wait(self) -> int:
        """How many events it has reported, when it is done."""
        return json.loads(self.child.read_line(PATIENCE + 1_200))["count"]


def main() -> int:
    asked = _read_arguments()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # through every `with`: what was started ends
    load = Load(messages=500, runs=100, events=2_000, minutes=0.5) if asked.quick else Load()
    load.minutes = asked.minutes or load.minutes
    about = f"{time.strftime('%Y-%m-%d')}, toolstead {subject.installed_version()} (files {subject.mark()})"
    about += f", {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before the start"
    table = Table()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder, sync_playwright() as playwright:
        place = Path(folder)
        command, environment = _prepare_server(place, load)
        with processes.running(command, cwd=place / "project", environment=environment) as child:
            server = _find_server(child, place)
            program = shutil.which("chromium") or sys.exit("benchmarks: no chromium on PATH")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            version = browser.version
            _measure_everything(server, browser, load, table)
            browser.close()
    text = table.render(f"{about}, Chromium {version}")
    print(text, end="")
    if asked.output:
        Path(asked.output).write_text(text, encoding="utf-8")
    return 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=0, help="how long 1,000 events a second are watched; 10 by default"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, and half a minute")
    parser.add_argument("--output", default="", help="write the table to this file too")
    return parser.parse_args()


def _prepare_server(place: Path, load: Load) -> tuple[list[str], dict[str, str]]:
    for name in ("project", "home"):
        (place / name).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.ours.console", "serve", f"port={port}", f"messages={load.messages}"]
    return [*command, f"runs={load.runs}", f"events={load.events}"], processes.environment(place / "home")


def _find_server(child: processes.Child, place: Path) -> Server:
    places = json.loads(child.read_line(PATIENCE))
    child.log_line("toolstead serves", PATIENCE)
    (entries,) = json.loads((place / "home/data/toolstead/server.json").read_text(encoding="utf-8")).values()
    url, token = entries[0]["url"], entries[0]["token"]
    return Server(child=child, url=url, login=f"{url}/?token={token}", places=places)


def _measure_everything(server: Server, browser: Browser, load: Load, table: Table) -> None:
    _measure_start(server, browser, table)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    measured = MeasuredPage(context)
    measured.page.set_default_timeout(PATIENCE * 1000)
    measured.page.goto(server.login)
    measured.page.locator("h1").first.wait_for()
    _measure_thread(server, measured, load, table)
    _measure_tree(server, measured, load, table)
    _measure_events(server, measured, load, table)
    _measure_streams(server, measured, load, table)
    context.close()


def _measure_start(server: Server, browser: Browser, table: Table) -> None:
    """With nothing in the browser's cache, five times."""
    took: list[float] = []
    for _ in range(5):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        measured = MeasuredPage(context)
        began = time.perf_counter()
        measured.page.goto(server.login)
        measured.page.locator("main .list-row").first.wait_for()
        took.append((time.perf_counter() - began) * 1000)
        files, size = measured.first_load()
        context.close()
    spread = f"{rank(took, 50):.0f} ms ({min(took):.0f} to {max(took):.0f})"
    table.add("time to the first screen with its content, cold cache, of 5", spread)
    table.add("size of the first load", f"{size:.0f} kB gzip in {files} files")


def _measure_thread(server: Server, measured: MeasuredPage, load: Load, table: Table) -> None:
    page, thread = measured.page, server.places["thread"]
    began = time.perf_counter()
    page.goto(f"{server.url}/chat/{thread}")
    page.get_by_text(f"Answer {load.messages}, the last one.").wait_for()
    table.add(
        f"a thread of {load.messages:,} messages: until its end is shown",
        f"{(time.perf_counter() - began) * 1000:.0f} ms",
    )
    measured.begin()
    steps = measured.scroll(".transcript", to_top=True, step=2_000, most=20_000)
    assert page.get_by_text("A long conversation", exact=True).last.is_visible(), "the beginning was not reached"
    table.add(f"… scrolled to its beginning in {steps} steps: frames p50 / p99 / worst", measured.take().describe())
    table.add("… heap with all of it", f"{measured.heap():.1f} MB")


def _measure_tree(server: Server, measured: MeasuredPage, load: Load, table: Table) -> None:
    page = measured.page
    began = time.perf_counter()
    page.goto(f"{server.url}/runs/{server.places['tree']}")
    page.get_by_role("tree").get_by_role("treeitem").first.wait_for()
    table.add(f"a tree of {load.runs:,} runs: until it is shown", f"{(time.perf_counter() - began) * 1000:.0f} ms")
    for tab, place in (("Tree", ".tree"), ("Timeline", ".tree")):
        page.get_by_role("tab", name=tab).click()
        measured.begin()
        steps = measured.scroll(place, to_top=False, step=200, most=5_000)
        table.add(f"… the {tab.lower()} scrolled to its end in {steps} steps: frames", measured.take().describe())
    page.get_by_role("tab", name="Tree").click()
    measured.begin()
    server.stream(20)
    server.wait()
    table.add(f"… the tree shown during {RATE:,} events a second: frames", measured.take().describe())


def _measure_events(server: Server, measured: MeasuredPage, load: Load, table: Table) -> None:
    page = measured.page
    began = time.perf_counter()
    page.goto(f"{server.url}/events")
    page.locator(".event-row").first.wait_for()
    table.add(
        f"{load.events:,} stored events: until the last ones are shown",
        f"{(time.perf_counter() - began) * 1000:.0f} ms",
    )
    measured.begin()
    for _ in range(20):
        page.locator(".event-rows").evaluate("(box) => { box.scrollTop = 0; }")
        before = page.get_by_role("status").first.inner_text()
        older = page.get_by_role("button", name="Older events")
        if older.count() == 0:
            break
        older.click()
        deadline = time.monotonic() + PATIENCE
        while page.get_by_role("status").first.inner_text() == before and time.monotonic() < deadline:
            page.wait_for_timeout(5)
    shown = page.get_by_role("status").first.inner_text()
    table.add(f"… 20 older pages read, {shown}: frames", measured.take().describe())
    measured.begin()
    server.stream(20)
    server.wait()
    table.add(f"… the list shown during {RATE:,} events a second: frames", measured.take().describe())


def _measure_streams(server: Server, measured: MeasuredPage, load: Load, table: Table) -> None:
    """A conversation is watched while its run and others report deltas."""
    page, thread = measured.page, server.places["streaming"][0]
    page.goto(f"{server.url}/chat/{thread}")
    page.locator(".transcript-row").first.wait_for()
    page.evaluate("(thread) => { window.benchThread = thread; }", thread)
    seconds = load.minutes * 60
    marks = {"after two minutes": 120.0} if seconds > 120 else {}
    table.add("heap before", f"{measured.heap():.1f} MB")
    measured.begin()
    busy, began = measured.busy_seconds(), time.monotonic()
    server.stream(seconds + 5)
    parts: list[Frames] = []
    for name, at in {**marks, "at the end": seconds}.items():
        while (left := at - (time.monotonic() - began)) > 0:
            page.wait_for_timeout(min(left, 5.0) * 1000)
        parts.append(measured.take())
        measured.begin()  # what was measured is no part of the heap
        table.add(f"heap {name} of {RATE:,} events a second", f"{measured.heap():.1f} MB")
    share = (measured.busy_seconds() - busy) / (time.monotonic() - began)
    count = server.wait()
    whole = Frames(
        frames=[one for part in parts for one in part.frames],
        tasks=[one for part in parts for one in part.tasks],
        shown=[one for part in parts for one in part.shown],
    )
    table.add(f"{count:,} events in {load.minutes:g} min, the thread watched: frames", whole.describe())
    frames, took = [float(one[0]) for one in whole.shown], [one[1] for one in whole.shown]
    spread = f"{rank(frames, 50):.0f} / {rank(frames, 99):.0f} / {max(frames, default=0):.0f} frames"
    spread += f", {rank(took, 50):.0f} / {rank(took, 99):.0f} / {max(took, default=0):.0f} ms, of {len(frames)}"
    table.add("a delta is on the screen after its arrival: p50 / p99 / worst", spread)
    table.add("the page's main thread has a CPU", f"{share:.0%} of the time")


if __name__ == "__main__":
    sys.exit(main())
