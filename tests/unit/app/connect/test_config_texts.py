"""Edits of other programs' configurations: what is not ours stays as it stands, to the letter."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstead.app.connect.json_text import parse_json, remove_value, set_value
from toolstead.app.connect.toml_table import remove_table, set_table
from toolstead.app.toml_text import toml_key, toml_value

ENTRY = {"command": "/home/ada/toolstead", "args": ["mcp"], "env": {}}
TABLE = {"command": "/home/ada/toolstead", "args": ["mcp"], "required": True}
JSON_PATH, TOML_PATH = ("mcpServers", "toolstead"), ("mcp_servers", "toolstead")

WORDS = st.text(st.sampled_from('ab"\\/*#,[]{}:. é\n'), max_size=6)
KEYS = st.one_of(st.sampled_from(["a", "mcpServers", "théme", "x.y", "//", "other"]), WORDS)
SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.floats(-2, 2), WORDS)
VALUES = st.recursive(
    st.one_of(st.none(), SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
SERVERS = st.dictionaries(st.sampled_from(["github", "b"]), st.dictionaries(KEYS, VALUES, max_size=2), min_size=1)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """An object as people and programs write it: in any layout, with or without comments and trailing commas."""
    document: dict[str, Any] = draw(st.dictionaries(KEYS.filter(lambda key: key != "mcpServers"), VALUES, max_size=4))
    if draw(st.booleans()):
        document["mcpServers"] = draw(SERVERS)
        document = dict(draw(st.permutations(list(document.items()))))
    text = json.dumps(document, indent=draw(st.sampled_from([None, 2, 4, "\t"])), ensure_ascii=draw(st.booleans()))
    lines = text.split("\n")
    if len(lines) > 1:
        for at in range(len(lines) - 1):
            if draw(st.integers(0, 5)) == 0:
                lines[at] += draw(st.sampled_from([" // note, {", " /* a } */", "  "]))
            if draw(st.integers(0, 9)) == 0:
                lines[at] += '\n    // a line of its own: "mcpServers": {}'
    end = draw(st.sampled_from(["\n", ""]))
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + end


@given(json_texts())
def test_an_entry_that_is_set_and_removed_again_leaves_the_json_text_as_it_was(text: str) -> None:
    before = parse_json(text, comments=True)

    with_ours = set_value(text, JSON_PATH, ENTRY)

    after = parse_json(with_ours, comments=True)
    assert after["mcpServers"].pop("toolstead") == ENTRY
    assert after == {**before, "mcpServers": before.get("mcpServers", {})}
    for note in ("// note, {", "/* a } */", "// a line of its own"):
        assert with_ours.count(note) == text.count(note)
    removed = remove_value(with_ours, JSON_PATH)
    assert removed == text if "mcpServers" in before else remove_value(removed, ("mcpServers",)) == text


@given(json_texts())
def test_one_key_of_an_entry_changes_alone_and_goes_alone(text: str) -> None:
    with_ours = set_value(text, JSON_PATH, ENTRY)

    changed = set_value(with_ours, (*JSON_PATH, "command"), "/new")
    more = set_value(changed, (*JSON_PATH, "timeout"), 5)

    assert parse_json(more, comments=True)["mcpServers"]["toolstead"] == {**ENTRY, "command": "/new", "timeout": 5}
    assert remove_value(more, (*JSON_PATH, "timeout")) == changed
    assert set_value(changed, (*JSON_PATH, "command"), ENTRY["command"]) == with_ours


@pytest.mark.parametrize(
    ("text", "with_ours"),
    [
        ('{"a": 1}', '{"a": 1, "mcpServers": {"k": 2}}'),
        ("{}", '{\n  "mcpServers": {\n    "k": 2\n  }\n}'),
        ('{\n  "a": 1, // one\n}\n', '{\n  "a": 1, // one\n  "mcpServers": {\n    "k": 2\n  },\n}\n'),
        ('{\n  "a": 1 // one\n}\n', '{\n  "a": 1, // one\n  "mcpServers": {\n    "k": 2\n  }\n}\n'),
        ("", '{\n  "mcpServers": {\n    "k": 2\n  }\n}\n'),
    ],
)
def test_a_new_member_is_laid_out_as_the_others_are(text: str, with_ours: str) -> None:
    assert set_value(text, ("mcpServers", "k"), 2) == with_ours


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    """A document with tables, arrays of tables, values over several lines, and comments."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines: list[str] = []
    number = 0

    def add_keys() -> None:
        nonlocal number
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            value = draw(st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(KEYS, SCALARS, max_size=2)))
            shown = toml_value(value)
            if isinstance(value, list) and draw(st.booleans()):
                shown = "[" + newline + "".join(f"  {toml_value(one)}, # [x]{newline}" for one in value) + "]"
            elif draw(st.integers(0, 4)) == 0:
                shown = f"'''{newline}[mcp_servers.toolstead]{newline}# \"'{newline}'''"
            lines.append(f"{toml_key([f'k{number}'])} = {shown}{draw(st.sampled_from(['', ' # note']))}")
            if draw(st.integers(0, 3)) == 0:
                lines.append(draw(st.sampled_from(["", "# [mcp_servers.toolstead]", "  # spaced"])))

    add_keys()
    tables = ["[mcp_servers.github]", '[projects."/a.b"]', "[[list]]", "[[list]]", "[mcp_servers.github.env]", "[z]"]
    for table in draw(
        st.lists(st.sampled_from(tables), max_size=4, unique_by=lambda one: one if "[[" not in one else id)
    ):
        lines += [*([""] if draw(st.booleans()) else []), table]
        add_keys()
    return newline.join(lines) + draw(st.sampled_from([newline, ""]) if lines and lines[-1] else st.just(newline))


@given(toml_texts())
def test_a_table_that_is_set_and_removed_again_leaves_the_toml_text_as_it_was(text: str) -> None:
    before = tomllib.loads(text)

    with_ours = set_table(text, TOML_PATH, TABLE, [])

    assert with_ours.startswith(text)
    after = tomllib.loads(with_ours)
    assert after["mcp_servers"].pop("toolstead") == TABLE
    assert after == {**before, "mcp_servers": before.get("mcp_servers", {})}
    assert set_table(with_ours, TOML_PATH, TABLE, []) == with_ours
    removed = remove_table(with_ours, TOML_PATH)
    assert removed == text if text.strip() else not removed.strip()


MINE = """\
[mcp_servers.toolstead] # here
# my own words
command = "/old/toolstead" # where it is
args = [
  "mcp", # as a server
]
startup_timeout_sec = 99
env = { A = "b" }

[mcp_servers.toolstead.tools.todos]
approval_mode = "approve"

# of the next
[projects."/a"]
trust_level = "trusted"
"""


def test_what_a_person_added_to_our_table_stays_when_it_changes() -> None:
    changed = set_table(MINE, TOML_PATH, {**TABLE, "args": ["mcp"]}, [])

    assert changed == MINE.replace("/old/toolstead", "/home/ada/toolstead").replace(
        'env = { A = "b" }\n', 'env = { A = "b" }\nrequired = true\n'
    )
    other = set_table(MINE, TOML_PATH, {"url": "https://example.com/mcp"}, ["command", "args", "env"])
    assert tomllib.loads(other)["mcp_servers"]["toolstead"] == {
        "url": "https://example.com/mcp",
        "startup_timeout_sec": 99,
        "tools": {"todos": {"approval_mode": "approve"}},
    }
    assert remove_table(MINE, TOML_PATH) == '\n# of the next\n[projects."/a"]\ntrust_level = "trusted"\n'


@pytest.mark.parametrize(
    "text",
    [
        'model = "x"\nmcp_servers.toolstead = {command = "/old", x = 1}\n[z]\na = 1\n',
        '[mcp_servers]\ntoolstead.command = "/old"\ntoolstead.x = 1\ngithub.command = "g"\n',
    ],
)
def test_a_table_that_is_written_in_another_form_becomes_one_with_a_header(text: str) -> None:
    changed = tomllib.loads(set_table(text, TOML_PATH, TABLE, []))

    assert changed["mcp_servers"]["toolstead"] == {**TABLE, "x": 1}
    before = tomllib.loads(text)
    del before["mcp_servers"]["toolstead"]
    del changed["mcp_servers"]["toolstead"]
    assert changed == before
