"""`python -m tests.attack [AREA…]`: attack a real server through its public interfaces, and say what held.

Every area is seeded: the same seed and count try the same. Exits with 1 when something did not hold; the
input of each such thing is in a file under `.cache/attack/faults`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import machine
from tests.attack.harness import KEPT, Attack

AREAS = {
    "shell": 2_000,
    "url": 1_500,
    "traversal": 2_000,
    "http": 400,
    "mcp": 10_000,
    "files": 10_000,
    "agents": 10_000,
    "settings": 10_000,
    "storage": 60,
    "slow": 1,
}
"""Each area is the module of its name; the number is how much it tries unless told otherwise."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}; all unless named")
    parser.add_argument("--count", type=int, help="inputs for each area")
    parser.add_argument("--seconds", type=float, default=600, help="for each area; then nothing new is begun")
    parser.add_argument("--seed", type=int, default=20_260_728)
    parser.add_argument("--sample", action="store_true", help="nothing is fetched; for a busy machine")
    parser.add_argument("--confined", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    unknown = [area for area in asked.areas if area not in AREAS]
    if unknown:
        parser.error(f"no area {unknown[0]!r}; there are {', '.join(AREAS)}")
    for name in [name for name in os.environ if name.startswith(("TOOLSTEAD_", "XDG_"))]:
        del os.environ[name]
    logging.getLogger("toolstead").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through every `with`
    if asked.confined:
        from tests.programs.loopback_only import bring_loopback_up

        bring_loopback_up()
    KEPT.mkdir(parents=True, exist_ok=True)
    held = [_run_area(area, asked) for area in asked.areas or AREAS]
    return 0 if all(held) else 1


def _run_area(area: str, asked: argparse.Namespace) -> bool:
    if area == "url" and not asked.confined and machine.reason_for_lack("netns") is None:
        return _run_confined(area, asked)
    module = importlib.import_module(f"tests.attack.{area}")
    folder = Path(tempfile.mkdtemp(prefix=f"toolstead-attack-{area}-"))
    attack = Attack(
        area=area,
        seed=asked.seed,
        count=asked.count or AREAS[area],
        seconds=asked.seconds,
        folder=folder,
        is_sample=asked.sample,
        is_confined=asked.confined,
    )
    print(f"{area}: seed {attack.seed}, count {attack.count:,}, at most {attack.seconds:.0f} s", flush=True)
    began = time.monotonic()
    try:
        asyncio.run(module.attack(attack))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print(attack.table(), flush=True)
    faults = attack.faults.total()
    print(f"{area}: {sum(attack.tried.values()):,} tried in {time.monotonic() - began:.0f} s, {faults:,} did not hold")
    return not faults


def _run_confined(area: str, asked: argparse.Namespace) -> bool:
    """In a network that has nothing but loopback: an address that was misread leads nowhere."""
    options = ["--seconds", str(asked.seconds), "--seed", str(asked.seed), *(["--sample"] if asked.sample else [])]
    options += ["--count", str(asked.count)] if asked.count else []
    command = ["unshare", "--net", sys.executable, "-m", "tests.attack", area, "--confined", *options]
    return subprocess.run(command, cwd=machine.ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
