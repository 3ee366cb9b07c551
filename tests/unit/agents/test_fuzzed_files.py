"""A small sample of `python -m tests.attack agents`."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.attack.agents import READER, SCOPES, find_fault, make_file
from tests.attack.mutations import Mutator


def test_no_file_makes_the_reader_fail() -> None:
    chance = Random(18)
    mutator = Mutator(chance, longest=5_000)
    wrong: list[str] = []
    good = 0
    for _ in range(300):
        data, scope = make_file(chance, mutator), chance.choice(SCOPES)
        loaded = READER.read(Path("tried.md"), data, scope)
        good += loaded.agent is not None
        if fault := find_fault(loaded, data):
            wrong.append(f"{fault}: {data[:200]!r}")
    assert not wrong, "\n".join(wrong)
    assert 20 <= good <= 280, "some are read, and some are refused"
