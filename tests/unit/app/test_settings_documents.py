"""Settings documents of every shape: each is read, or refused with its place, and what is approved can be loaded."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolstead.app.layers import LoadedSettings, load_settings
from toolstead.app.toml_text import DEEPEST, LARGEST, MOST_DIGITS, MOST_KEYS, find_excess, toml_key, toml_value
from toolstead.app.trust.review import what_is_refused, what_would_run
from toolstead.app.trust.snapshot import PinnedFile, Snapshot
from toolstead.errors import SettingsError

CONFIG = ".toolstead/config.toml"
KNOWN = ("tools.timeout = 5", 'tools.blocked = ["git-*"]', 'server.host = "::1"', "limits.cost_budget = 0.5")
SCALARS = (
    *("1", "-0", "+17", "0x1F", "0o17", "0b1", "1_000", "1.5", "6.02e23", "1e999", "inf", "-nan", "true", "false"),
    *("1979-05-27", "07:32:00.999999", "1979-05-27T07:32:00Z", "0000-00-00", "9999-12-31 23:59:60", "nan", "TRUE"),
    *(
        '"text # = [ { \\" \\\\"',
        "'C:\\dir'",
        '"""a\n""b\\""""',
        "'''a''\n'b'''",
        '"\\u0000"',
        '"\\ud800"',
        '"\\U0001F600"',
    ),
    *('"', "'''", '"""\n', '"\x1b"', "\x00", "0x", "1__0", "", "]", "}", "#", "\u202e", "99999999999999999999999"),
)
NAMES = ("a", "a-b", "1", "'x y'", '"q\\"z"', '"\\u202e"', '""', "token", '"\\u0000"', "é", "a b", ".", "=")


def make_number(chance: random.Random) -> str:
    digits = chance.choice((1, 19, MOST_DIGITS - 2, MOST_DIGITS + 1, 5_000))
    return chance.choice(("", "0x", "-", "1.", "1e")) + chance.choice("19f") * digits


def make_key(chance: random.Random) -> str:
    parts = chance.choices((0, 1, 2, DEEPEST - 4, DEEPEST + 1, 2_000), (12, 4, 4, 1, 1, 1))[0]
    names = NAMES if chance.random() < 0.03 else NAMES[:6]
    steps = (f"k{chance.randrange(1_000_000)}", *(chance.choice(names) for _ in range(parts)))
    return chance.choice((".", " . ", ".\t")).join(steps)


def make_value(chance: random.Random, depth: int = 0) -> str:
    kind = chance.randrange(20)
    if kind == 0:
        return make_number(chance)
    if kind == 1:
        levels = chance.choice((2, DEEPEST - 4, DEEPEST + 1, 3_000))
        opening, closing = chance.choice((("[", "]"), ("{a.b = ", "}")))
        return opening * levels + "1" + closing * chance.choice((levels, levels, levels - 1))
    if kind in (2, 3) and depth < 3:
        comma = chance.choice((", ", ",\n  # a comment ]\n"))
        return f"[{comma.join(make_value(chance, depth + 1) for _ in range(chance.randrange(4)))}]"
    if kind == 4 and depth < 3:
        pairs = (f"{make_key(chance)} = {make_value(chance, depth + 1)}" for _ in range(chance.randrange(3)))
        return "{" + ", ".join(pairs) + "}"
    return chance.choice(SCALARS[:17] if chance.random() < 0.9 else SCALARS)


def make_document(chance: random.Random) -> str:
    """A document near to what is right, or far beyond it."""
    lines = [chance.choice(KNOWN)] if chance.random() < 0.5 else []
    for number in range(chance.randrange(1, 5)):
        table = chance.choice(("plugins",) * 10 + ("mcp_servers", "tools", "nonsense"))
        heading = f"{table}.p{number}" + (f".{make_key(chance)}" if chance.random() < 0.3 else "")
        lines.append(f"[[{heading}]]" if chance.random() < 0.05 else f"[{heading}]  # a comment = [")
        lines += (f"{make_key(chance)} = {make_value(chance)}" for _ in range(chance.randrange(4)))
        if chance.random() < 0.02:
            lines += (f"k{count} = {count}" for count in range(chance.choice((500, MOST_KEYS + 1))))
        if chance.random() < 0.02:
            lines.append("#" * chance.choice((1_000, LARGEST)))
    text = chance.choice(("\n", "\r\n")).join(lines)
    if chance.random() < 0.1 and text:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(("", '"', "\0", "[" * 40, "\ud800", "\n")) + text[at + 1 :]
    return text


def load_layer(origin: str, **layer: Any) -> LoadedSettings | None:
    """The settings of one layer; None where they are refused, with the place."""
    try:
        return load_settings(**{"environ": {}, "user_config": None, "project_config": None, **layer})
    except SettingsError as error:
        refusal = str(error)
    assert refusal.startswith(f"{origin}:")
    assert len(refusal) < 100_000
    return None


def check_document(text: str, folder: Path) -> bool:
    """Whether it is read; what it does to each layer and to the review is checked."""
    data = text.encode("utf-8", "surrogatepass")
    user = folder / "config.toml"
    user.write_bytes(data)
    loaded = load_layer(str(user), user_config=user)
    for item in loaded.explain_values() if loaded is not None else ():
        line = f"{toml_key(item.path)} = {toml_value(item.value)}"
        assert line.isprintable()
        assert find_excess(line) is None
        tomllib.loads(line)
    assert (load_layer(str(user), project_config=(user, data)) is None) is (loaded is None)
    snapshot = Snapshot(files={CONFIG: PinnedFile(data=data)})
    assert all(line.isprintable() for line in what_would_run(snapshot))
    refused = what_is_refused(snapshot)
    assert bool(refused) is (loaded is None), refused
    assert all(line.startswith(CONFIG) or "more faults" in line for line in refused)
    load_layer("--set", overrides=[text])
    load_layer("--set", overrides=[f"plugins.p.x={text}"])
    load_layer("environment TOOLSTEAD_PLUGINS__P__X", environ={"TOOLSTEAD_PLUGINS__P__X": text})
    return loaded is not None


def test_every_document_is_read_or_refused_with_its_place_and_what_is_approved_is_read(tmp_path: Path) -> None:
    chance = random.Random(7)
    read = sum(check_document(make_document(chance), tmp_path) for _ in range(200))
    assert 20 < read < 180  # the generator makes both kinds


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (f"a = 1\n{'.'.join('x' * (DEEPEST + 1))} = 1", 2, "has a key of more than 32 parts"),
        ("x = '''\n\n'''\ny = [\n" + "[" * DEEPEST, 5, "is nested too deeply: more than 32 brackets"),
        ("x = " + "{a = " * (DEEPEST + 1), 1, "is nested too deeply: more than 32 brackets"),
        (f"\n\nx = 1\ny = {'9' * (MOST_DIGITS + 1)}", 4, "has a number of 201 characters"),
        ("".join(f"k{number} = 1\n" for number in range(MOST_KEYS + 1)), MOST_KEYS + 1, "has more than 10,000 keys"),
        ("".join(f"[k{number}]\n" for number in range(MOST_KEYS + 1)), MOST_KEYS + 1, "has more than 10,000 keys"),
        (f"x = {{{', '.join(f'k{number} = 1' for number in range(MOST_KEYS))}}}", 1, "has more than 10,000 keys"),
        (" " * (LARGEST + 1), 1, "has more than 262,144 bytes"),
    ],
)
def test_what_is_beyond_a_bound_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    excess = find_excess(text)
    assert excess is not None
    assert excess[0] == line
    assert excess[1].startswith(reason)


@pytest.mark.parametrize(
    "text",
    [
        "x = '''\n" + "[" * 100 + "." * 100 + "9" * 300 + "\n'''\n# " + "[." * 100,
        'x = """' + '\\"""' * 100 + "[" * 100 + '"""""\ny = "' + "." * 100 + '\\""',
        "x = [" + ", ".join(["1.5"] * 1_000) + "]",
        "\n".join("x" * 200 + f"{number} = '{'.' * 50}'" for number in range(100)),
        f"{'.'.join('x' * DEEPEST)} = {'[' * DEEPEST}{']' * DEEPEST}",
        f"x = {'9' * MOST_DIGITS}",
        "x = 1" + " " * (LARGEST - 5),
        "".join(f"k{number} = 1\n" for number in range(MOST_KEYS)),
    ],
)
def test_what_is_within_the_bounds_or_only_looks_beyond_them_is_read(text: str) -> None:
    assert find_excess(text) is None
    assert tomllib.loads(text)
