"""Paths that try to leave their folder, to file-reader and a file-read tool of a server: nothing outside is shown."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.harness import Attack, Target, serving, share_work, stop_task, watched
from tests.attack.mutations import ODD_TEXTS
from tests.flows.tool_files import tool

SECRET = "top secret: never shown"
INNER = "inner text"
UPS = (
    *("..", "../", "..\\", "%2e%2e", "%2e%2e%2f", "..%2f", "..%5c", "..%c0%af", "%252e%252e", "․․", "‥", "．．", "..;"),
    *("...", "....//", ".. ", " ..", "..\0", "..\u200b"),
)
LINKS = ("out-file", "out-folder", "chain", "loop", "sub/up", "to-sub", "to-inner", "swapped", "out-relative")
STARTS = (
    *("", "./", "/", "//", "sub/", "sub/up/", "out-folder/", "to-sub/", "~", "~/", "file://", "file:", "\\\\?\\"),
    *("C:\\", "C:", "/proc/self/", "/dev/fd/", "/proc/self/cwd/", "/proc/self/root/"),
)


def spell_path(outside: Path, chance: Random) -> str:
    """A path that leads out, somewhere, for some program."""
    kind = chance.randrange(6)
    ends = (
        "secret.txt",
        "outside/secret.txt",
        str(outside / "secret.txt"),
        *("etc/passwd", "inner.txt", "environ", "home/server.json", ""),
    )
    if kind == 0:
        return str(outside / "secret.txt") if chance.random() < 0.3 else os.path.relpath(outside / "secret.txt", "/")
    if kind == 1:
        behind = ("", "/", "/.", "/..", "/secret.txt", "/../secret.txt", "/outside/secret.txt")
        return chance.choice(LINKS) + chance.choice(behind)
    if kind == 2:
        path = "/".join(
            chance.choice((*LINKS, "..", ".", "", "sub", "outside", "secret.txt")) for _ in range(chance.randint(1, 9))
        )
        return chance.choice(STARTS) + path
    if kind == 3:
        piece = chance.choice(("a/", "sub/../", "./", "../", "x" * 255 + "/", "é/", "/"))
        return chance.choice(STARTS) + piece * chance.choice((10, 500, 3_000)) + chance.choice(ends)
    if kind == 4:
        return "".join(
            chance.choice((*UPS, "/", "\\", "sub", "secret.txt", *ODD_TEXTS)) for _ in range(chance.randint(1, 8))
        )
    ups = chance.choice(("/", "\\", "//", "")).join([chance.choice(UPS)] * chance.randint(1, 8))
    return chance.choice(STARTS) + ups + chance.choice(("/", "")) + chance.choice(ends)


def _lay_out(base: Path, outside: Path) -> None:
    """A folder with links of every kind in it, and secrets around it."""
    (base / "sub").mkdir(parents=True)
    outside.mkdir()
    for place in (outside / "secret.txt", outside / "inner.txt", base.parent / "secret.txt"):
        place.write_text(SECRET, encoding="utf-8")
    (base / "inner.txt").write_text(INNER, encoding="utf-8")
    links = {
        "out-file": outside / "secret.txt",
        "out-folder": outside,
        "chain": "out-file",
        "loop": "loop",
        "sub/up": "../..",
    }
    links |= {"to-sub": "sub", "to-inner": "inner.txt", "out-relative": "../secret.txt", "swapped": "inner.txt"}
    for name, leads_to in links.items():
        (base / name).symlink_to(leads_to)


async def attack(attack: Attack) -> None:
    """Each path to both tools, while a link in the folder changes all the time."""
    base, outside = attack.folder / "server" / "project", attack.folder / "outside"
    _lay_out(base, outside)
    read = tool("read", {"type": "file-read", "basePath": "."}, {"path": {"type": "string"}})
    async with serving(attack.folder / "server", tools=[read]) as target:
        before = target.memory
        for name in ("read", "file-reader"):
            answer = await target.call(name, {"path": "inner.txt"})
            attack.check("a file inside is read", INNER.encode() in answer.body, f"{name}: {answer.body[:200]!r}")
        paths = [spell_path(outside, attack.chance) for _ in range(attack.count)]
        async with watched(attack, target), _swapping(base / "swapped", outside / "secret.txt"):
            await share_work(paths, lambda path: _try(attack, target, path), at_once=4)
        await target.check_end(attack, before=before)


@contextlib.asynccontextmanager
async def _swapping(link: Path, secret: Path) -> Any:
    """A link that leads in and out in turns."""

    async def swap() -> None:
        aside = link.with_name("aside")
        while True:
            for leads_to in (secret, Path("inner.txt")):
                aside.symlink_to(leads_to)
                aside.replace(link)
                await asyncio.sleep(0)

    swapping = asyncio.create_task(swap())
    try:
        yield
    finally:
        await stop_task(swapping)


async def _try(attack: Attack, target: Target, path: str) -> None:
    if attack.is_over:
        return
    for name in ("read", "file-reader"):
        reply = await target.call(name, {"path": path})
        shown = reply.body.decode("utf-8", "replace")
        is_outside = any(text in shown for text in (SECRET, "root:", "PATH=", "privateToken"))
        is_other = reply.status == 200 and not reply.json["isError"] and INNER not in shown
        held = not is_outside and not is_other and reply.status < 500
        attack.check(f"{name}: nothing outside is shown", held, f"status {reply.status}: {shown[:60]!r}", path)
