"""`config.toml` that is wrong in every way: a sentence that says where, in a moment, and never a traceback.

Most are read in this process, as commands read the user's file and as a person is shown that of a
project; some by the command.
"""

from __future__ import annotations

import os
import re
import subprocess
import traceback
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.harness import Attack, TooSlowError, bounded_work, own_memory, shielded_folders
from tests.attack.mutations import NUMBERS, ODD_TEXTS, Mutator
from tests.machine import ROOT
from tests.programs.running import TOOLSTEAD
from toolstead.app.layers import load_settings
from toolstead.app.trust.review import LONGEST_REVIEW, what_would_run
from toolstead.app.trust.snapshot import PinnedFile, Snapshot
from toolstead.errors import SettingsError

MOST_OWN_MEMORY = 500 << 20
LARGEST = 1 << 20
COMMANDS = (["config", "show"], ["config", "explain"], ["tools", "list"])
IN_PROJECT = ["trust"]
"""Shows what a project brings; without a terminal it asks nothing and approves nothing."""


def make_document(chance: Random, mutator: Mutator, whole: str) -> bytes:
    """Settings with something wrong in them."""
    roll = chance.random()
    if roll < 0.15:  # long keys, deep tables, long numbers: what grammars make expensive
        return _make_large(chance).encode()
    if roll < 0.3:  # the right keys with wrong values
        lines = whole.splitlines()
        at = chance.choice([number for number, line in enumerate(lines) if " = " in line])
        wrong = (*map(str, NUMBERS), *(f'"{text}"' for text in ODD_TEXTS), "[]", "{}", "1979-05-27", "inf", "nan")
        lines[at] = f"{lines[at].partition(' = ')[0]} = {chance.choice(wrong)}"
        return "\n".join(lines).encode("utf-8", "surrogatepass")
    text = whole
    for _ in range(chance.choice((1, 1, 2, 5))):
        text = mutator.text(text)
    made = text.encode("utf-8", "surrogatepass")[:LARGEST]
    return mutator.bytes(made) if chance.random() < 0.1 else made


def _make_large(chance: Random) -> str:
    part = chance.choice(("x", "a-b", '"é"', "1"))
    times = chance.choice((3, 100, 400, 2_000, 20_000))
    begin, piece = chance.choice(("0x", "", "1e", "0b", "1.")), chance.choice("f1_0")
    quote, inside = chance.choice(('"', "'", '"""', "'''")), chance.choice(("a", '\\"', "\n", '"'))
    return chance.choice(
        (
            f"[plugins.zz]\n{'.'.join([part] * times)} = 1\n",
            f"{'.'.join([part] * times)} = 1\n",
            f"[{'.'.join([part] * times)}]\na = 1\n",
            f"[plugins.zz]\nx = {begin}{piece * times}\n",
            f"[plugins.zz]\nx = {'[' * times}{']' * times}\n",
            f"[plugins.zz]\nx = {'{a = ' * times}1{'}' * times}\n",
            f"[plugins.zz]\nx = {quote}{inside * times}\n",
            "".join(f"[plugins.a{number}]\nb = {number}\n" for number in range(times // 10)),
            "".join(f"[[plugins.a]]\nb = {number}\n" for number in range(times // 10)),
            "[tools]\nblocked = [" + '"git-*",' * times + "]\n",
            f"#{'#' * times}",
        )
    )


async def attack(attack: Attack) -> None:
    """Read so many files here, and some with the command."""
    (whole,) = re.findall(
        r"```toml\n(# Every key.*?)```", (ROOT / "docs" / "settings.md").read_text("utf-8"), re.DOTALL
    )
    mutator = Mutator(attack.chance, longest=40_000)
    documents: list[bytes] = []
    before = own_memory()
    for _ in range(attack.count):
        if attack.is_past(0.7):
            attack.note("the time was over before the count")
            break
        documents.append(make_document(attack.chance, mutator, whole))
        _load_everywhere(attack, documents[-1])
        _review(attack, documents[-1])
    grown = own_memory() - before
    attack.check("memory bounded (in this process)", grown < MOST_OWN_MEMORY, f"grew by {grown >> 20} MB")
    for number in range(0, len(documents), max(len(documents) // (6 if attack.is_sample else 60), 1)):
        if attack.is_over:
            break
        _command(attack, documents[number], attack.folder / str(number))


def _load_everywhere(attack: Attack, data: bytes) -> None:
    """As a file; and the same text as a value, or as a key, that is given in the environment or on the command line."""
    _load(attack, "file", "config.toml", data, {"project_config": (Path("config.toml"), data)})
    text = data.decode("utf-8", "replace").replace("\0", "")
    _load(attack, "--set", "--set", data, {"overrides": [f"plugins.zz.x={text}", text.partition("\n")[2] or text]})
    _load(attack, "environment", "environment ", data, {"environ": {"TOOLSTEAD_PLUGINS__ZZ": text}})


def _load(attack: Attack, where: str, place: str, data: bytes, given: dict[str, Any]) -> None:
    what = f"load, {where}: read, or refused with a place"
    try:
        with bounded_work():
            load_settings(**{"environ": {}, "user_config": None, "project_config": None, **given})
    except SettingsError as error:
        said = str(error)
        attack.check(what, said.startswith(place), f"no place in: {said[:200]!r}", data)
    except TooSlowError as slow:
        attack.fail(what, f"more than 1 s of processor time, in {_place(slow)}", data)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the fault that is looked for
        attack.fail(what, f"{type(error).__name__}: {str(error)[:150]} in {_place(error)}", data)
    else:
        attack.hold(what)


def _review(attack: Attack, data: bytes) -> None:
    """What a person is shown before anything is trusted."""
    what = "review before trust"
    snapshot = Snapshot(files={".toolstead/config.toml": PinnedFile(data=data, executable=False)}, skipped=())
    try:
        with bounded_work():
            shown = list(what_would_run(snapshot))
    except TooSlowError as slow:
        attack.fail(what, f"more than 1 s of processor time, in {_place(slow)}", data)
    except Exception as error:  # noqa: BLE001 - as above
        attack.fail(what, f"{type(error).__name__}: {str(error)[:150]} in {_place(error)}", data)
    else:
        size = sum(map(len, shown))
        attack.check(what, size < 2 * LONGEST_REVIEW, f"{size:,} characters", data)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((frame for frame in reversed(frames) if "/toolstead/" in frame.filename), frames[-1])
    return f"{ours.name}, {Path(ours.filename).name}:{ours.lineno}"


def _command(attack: Attack, data: bytes, folder: Path) -> None:
    """The same as the user's own file, and as that of an unknown project, through the command."""
    with shielded_folders(folder) as env:
        (folder / "home" / "config.toml").write_bytes(data)
        _run(attack, attack.chance.choice(COMMANDS), folder, env, data)
        (folder / "home" / "config.toml").unlink()
        (folder / "project" / ".toolstead").mkdir()
        (folder / "project" / ".toolstead" / "config.toml").write_bytes(data)
        _run(attack, IN_PROJECT, folder, env, data)


def _run(attack: Attack, words: list[str], folder: Path, env: dict[str, str], data: bytes) -> None:
    what = f"command: {' '.join(words)}"
    try:
        done: Any = subprocess.run(
            [*TOOLSTEAD, *words],
            cwd=folder / "project",
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except subprocess.TimeoutExpired:
        attack.fail(what, "no end in 30 s", data)
        return
    errors = done.stderr.decode("utf-8", "replace")
    attack.check(what, "Traceback" not in errors and done.returncode in {0, 1, 2}, errors[-300:], data)
