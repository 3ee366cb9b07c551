"""What every area of the attack stands on: a count of what held, reproductions of what did not, and a real server.

An area tries things on a `toolstead serve` or `toolstead mcp` of its own and says of each whether it held. What did
not hold is written as a file, with the seed and the reason, so that it can be tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.machine import ROOT
from tests.programs.running import TOOLSTEAD, Program, running
from tests.surfaces.rest_server import Connection, Reply, request
from tests.waiting import until

T = TypeVar("T")

KEPT = ROOT / ".cache" / "attack"
"""Corpora that were fetched, and the inputs of what did not hold."""
SLOWEST = 1.0
"""Seconds that one input may cost."""
MOST_MEMORY = 200 << 20
"""Bytes by which a server may have grown when an area is done with it."""
PLUGIN = '''
from pathlib import Path
from typing import Any, TypeVar

from toolstead import Plugin, Tool, ToolResult, tool


@tool
async def echo(text: str) -> str:
    """Say it."""
    return text


@tool
async def mark(name: str) -> str:
    """Leave a file."""
    Path(name).touch()
    return name


async def say_back(ctx: Any, input: dict[str, Any], meta: Any) -> ToolResult:
    return ToolResult.of_json(input.get("value"))


plugin = Plugin(
    name="play", version="1.0.0", tools=[echo, mark, Tool(name="say_back", description="Any JSON.", handler=say_back)]
)
'''
"""A plugin of quick tools; `play__mark` shows that something was called that should not be."""


class TooSlowError(BaseException):
    """Something used more processor time than it may; no `except Exception` takes it."""


@dataclass(slots=True)
class Attack:
    """One run of one area."""

    area: str
    seed: int
    count: int
    """How many inputs; an area that has no list of its own stops there."""
    seconds: float
    """When to begin nothing new."""
    folder: Path
    """Empty, for whatever the area needs; deleted afterwards."""
    is_sample: bool = False
    """Whether a busy machine runs this among other tests: then only what is slower by far counts as slow."""
    is_confined: bool = False
    """Whether this process can reach loopback alone."""
    chance: Random = field(init=False)
    tried: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[tuple[tuple[str, str], Path]] = field(default_factory=Counter[tuple[tuple[str, str], Path]])
    """What did not hold and why, with the file of its first input: how often."""
    notes: list[str] = field(default_factory=list[str])
    _ends: float = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(f"{self.area} {self.seed}")
        self._ends = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        return self.is_past(1)

    def is_past(self, part: float) -> bool:
        """Whether this part of the time is over."""
        return time.monotonic() > self._ends - self.seconds * (1 - part)

    def hold(self, what: str, count: int = 1) -> None:
        """Count something that was tried, and held."""
        self.tried[what] += count

    def fail(self, what: str, why: str, reproduction: bytes | str = b"") -> None:
        """Count something that was tried and did not hold, and keep the first input of each reason."""
        self.tried[what] += 1
        why = why[:400]
        file = next((file for known, file in self.faults if known == (what, why)), None)
        if file is None:
            folder = KEPT / "faults"
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")
            file = folder / f"{self.area}-{self.seed}-{name}-{len(self.faults) + 1}"
            data = reproduction.encode("utf-8", "surrogatepass") if isinstance(reproduction, str) else reproduction
            file.write_bytes(data)
        self.faults[(what, why), file] += 1

    def check(self, what: str, held: bool, why: str, reproduction: bytes | str = b"") -> bool:
        """Count what was tried by whether it held."""
        if held:
            self.hold(what)
        else:
            self.fail(what, why, reproduction)
        return held

    def note(self, text: str) -> None:
        """Say something that is neither."""
        self.notes.append(text)

    @property
    def failed(self) -> Counter[str]:
        """How often each thing did not hold."""
        counted: Counter[str] = Counter()
        for ((what, _), _), times in self.faults.items():
            counted[what] += times
        return counted

    def table(self) -> str:
        """What was tried, what held, and each reason for which something did not."""
        lines: list[str] = []
        for what, count in self.tried.items():
            lines.append(f"  {self.area:<10}{what:<52.52}{count:>8,} tried {count - self.failed[what]:>8,} held")
            for ((failed, why), file), times in self.faults.items():
                if failed == what:
                    lines.append(f"    FAULT ({times} times) {why}\n      input: {file.relative_to(ROOT)}")
        return "\n".join([*lines, *(f"  {self.area:<10}note: {note}" for note in self.notes)])


@dataclass(slots=True)
class Target:
    """A running server, and the way to it."""

    program: Program
    port: int
    home: Path
    project: Path
    tools: Path

    async def connect(self) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=16 << 20)
        return Connection(reader, writer, f"127.0.0.1:{self.port}")

    async def ask(self, method: str, path: str, body: Any = None, *, patience: float = 30) -> Reply:
        """One request on a connection of its own."""
        async with asyncio.timeout(patience):
            connection = await self.connect()
            try:
                await connection.send(request(method, path, body, host=connection.host))
                return await connection.reply()
            finally:
                connection.writer.close()

    async def call(self, name: str, input: Any, *, patience: float = 30) -> Reply:
        return await self.ask("POST", f"/api/tools/{name}/call", {"input": input}, patience=patience)

    async def is_healthy(self, patience: float = 10) -> bool:
        try:
            return (await self.ask("GET", "/api/health", patience=patience)).status == 200
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False

    @property
    def memory(self) -> int:
        """Bytes it has in memory; 0 where the system does not say."""
        try:
            pages = Path(f"/proc/{self.program.pid}/statm").read_text(encoding="ascii").split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def processor_seconds(self) -> float:
        """Seconds of a processor that it has used; other programs do not change them."""
        try:
            fields = Path(f"/proc/{self.program.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check_log(self, attack: Attack) -> None:
        """No traceback in what it has written."""
        log = self.program.stderr
        at = log.find("Traceback (most recent call last)")
        error = re.search(r"^\S.*", log[log.find("\n", at) :], re.MULTILINE) if at >= 0 else None
        attack.check(
            "no traceback in the server's log", at < 0, error[0] if error else "cut off", log[max(at - 500, 0) :]
        )

    async def check_end(self, attack: Attack, *, before: int = 0) -> None:
        """It answers, has not grown out of bounds, and wrote no traceback."""
        attack.check("the server answers afterwards", await self.is_healthy(), "no answer to GET /api/health in 10 s")
        if before:
            grown = self.memory - before
            attack.check("memory bounded", grown < MOST_MEMORY, f"{before >> 20} MB before, {self.memory >> 20} after")
        self.check_log(attack)


@contextmanager
def shielded_folders(folder: Path) -> Generator[dict[str, str]]:
    """An environment in which nothing of the person who runs this is read or written."""
    for name in ("home", "project", "tools", "home/plugins"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "project" / ".git").mkdir(exist_ok=True)
    yield {
        "HOME": str(folder / "home"),
        "TOOLSTEAD_HOME": str(folder / "home"),
        "TOOLSTEAD_TOOLS_DIR": str(folder / "tools"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }


@asynccontextmanager
async def serving(
    folder: Path, *settings: str, env: Mapping[str, str] | None = None, tools: Sequence[Any] = ()
) -> AsyncGenerator[Target]:
    """A real server in folders of its own, with these tools in a file and the quick plugin; killed in the end."""
    with shielded_folders(folder) as shielded:
        (folder / "home" / "plugins" / "play.py").write_text(PLUGIN, encoding="utf-8")
        if tools:
            (folder / "tools" / "tried.json").write_text(json.dumps({"name": "tried", "tools": tools}), "utf-8")
        given = [word for setting in settings for word in ("--set", setting)]
        command = [*TOOLSTEAD, "serve", "--port", "0", *given]
        async with running(
            command, errors=folder / "stderr.txt", cwd=folder / "project", env={**shielded, **(env or {})}
        ) as program:

            def address() -> re.Match[str] | None:
                assert program.process.returncode is None, f"it did not start: {program.stderr}"
                return re.search(r"docs     http://127\.0\.0\.1:(\d+)/docs", program.stderr)

            found = await until(address)
            assert found is not None
            yield Target(program, int(found[1]), folder / "home", folder / "project", folder / "tools")


@asynccontextmanager
async def watched(attack: Attack, target: Target, *, patience: float = 10) -> AsyncIterator[list[float]]:
    """Ask for the server's health all the time; the seconds of each answer. None may take longer than `patience`."""
    took: list[float] = []

    async def look() -> None:
        while True:
            began = time.monotonic()
            answered = await target.is_healthy(patience)
            took.append(time.monotonic() - began)
            attack.check("GET /api/health meanwhile", answered, f"no answer in {patience} s")
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    try:
        yield took
    finally:
        await stop_task(looking)


@contextmanager
def bounded_work(seconds: float = SLOWEST) -> Generator[None]:
    """Raise `TooSlowError` in the middle of what uses more processor time than that. In the main worker only."""

    def stop(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


async def stop_task(task: asyncio.Task[Any]) -> None:
    """Cancel it until it has ended: before Python 3.12, `asyncio.wait_for` may lose a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.5)


async def share_work(work: Iterable[T], do: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Do every piece of work, some at once."""
    waiting = iter(work)

    async def go_on() -> None:
        for piece in waiting:
            await do(piece)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(go_on())


def own_memory() -> int:
    """Bytes that this process has in memory."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
