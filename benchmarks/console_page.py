"""A page of the console in Chromium, and what it measures of itself: frames, long tasks, heap, and how soon text shows.

Above it is `console`; what it measures is written into the page before anything of the console runs there.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Response

_MEASURE = """
(() => {
  const frames = [], tasks = [], shown = [];
  let frame = 0, last = performance.now();
  let arrived = [];
  const each = (now) => {
    frame += 1;
    frames.push(now - last);
    last = now;
    requestAnimationFrame(each);
  };
  requestAnimationFrame(each);
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) tasks.push(one.duration);
  }).observe({ type: "longtask" });
  const read = ReadableStreamDefaultReader.prototype.read;
  ReadableStreamDefaultReader.prototype.read = async function () {
    const got = await read.call(this);
    const thread = window.benchThread;
    if (thread && typeof got.value === "string") {
      for (const line of got.value.split("\\n")) {
        const number = line.includes(thread) ? /"text": ?"m(\\d+)/.exec(line) : null;
        if (number) arrived.push([Number(number[1]), frame, performance.now()]);
      }
    }
    return got;
  };
  new MutationObserver(() => {
    if (arrived.length === 0) return;
    const text = [...document.querySelectorAll(".message.assistant")].at(-1)?.textContent ?? "";
    const numbers = text.slice(-400).match(/m(\\d+)(?=\\D*$)/);
    if (!numbers) return;
    const now = performance.now();
    arrived = arrived.filter(([number, at, when]) => {
      if (number > Number(numbers[1])) return true;
      shown.push([frame - at, now - when]);
      return false;
    });
  }).observe(document, { subtree: true, childList: true, characterData: true });
  window.bench = {
    begin() { frames.length = tasks.length = shown.length = arrived.length = 0; last = performance.now(); },
    take() { return { frames: [...frames], tasks: [...tasks], shown: [...shown] }; },
  };
})();
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """What a while on a page was like; times in milliseconds.

    Attributes:
        frames: From one frame to the next.
        tasks: Those of the page's main thread that took 50 ms or more.
        shown: After how many frames, and milliseconds, a piece of text that had arrived was on the page.
    """

    frames: list[float]
    tasks: list[float]
    shown: list[tuple[int, float]]

    def describe(self) -> str:
        """One cell of a table."""
        return (
            f"{rank(self.frames, 50):.0f} / {rank(self.frames, 99):.0f} / {max(self.frames, default=0):.0f} ms"
            f" of {len(self.frames)}; {sum(frame > 50 for frame in self.frames)} over 50 ms"
            f"; tasks over 50 ms: {len(self.tasks)}, the longest {max(self.tasks, default=0):.0f} ms"
        )


def rank(values: list[float], percent: int) -> float:
    """The value below which so many percent are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] if ordered else 0.0


class MeasuredPage:
    """A page that measures itself."""

    def __init__(self, context: BrowserContext) -> None:
        context.add_init_script(_MEASURE)
        self.page: Page = context.new_page()
        self._session = context.new_cdp_session(self.page)
        self._session.send("HeapProfiler.enable")
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._received: list[Response] = []
        self.page.on("response", self._note_response)

    def _note_response(self, response: Response) -> None:
        self._received.append(response)

    def begin(self) -> None:
        self.page.evaluate("bench.begin()")

    def take(self) -> Frames:
        return Frames(**self.page.evaluate("bench.take()"))

    def heap(self) -> float:
        """Megabytes in use, after what is garbage was collected."""
        for _ in range(2):
            self._session.send("HeapProfiler.collectGarbage")
        return self._session.send("Runtime.getHeapUsage")["usedSize"] / 1e6

    def busy_seconds(self) -> float:
        """How long the page's main thread has had a CPU."""
        metrics: list[dict[str, Any]] = self._session.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def first_load(self) -> tuple[int, float]:
        """The files of the console that were asked for so far, and their size in kB as gzip sends them."""
        files = [one for one in self._received if "/api/" not in one.url and one.ok]
        return len(files), sum(len(gzip.compress(one.body(), mtime=0)) for one in files) / 1000

    def scroll(self, place: str, to_top: bool, step: int, most: int) -> int:
        """Scroll a box by so many pixels for each frame until it stays where it is; how often."""
        return self.page.evaluate(
            """async ([place, step, most]) => {
              const box = document.querySelector(place);
              const frame = () => new Promise((done) => requestAnimationFrame(done));
              let still = 0, steps = 0;
              while (still < 90 && steps < most) {
                const before = box.scrollTop, size = box.scrollHeight;
                box.scrollTop += step;
                await frame();
                steps += 1;
                still = box.scrollTop === before && box.scrollHeight === size ? still + 1 : 0;
              }
              return steps;
            }""",
            [place, -step if to_top else step, most],
        )
