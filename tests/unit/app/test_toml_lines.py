"""The line finder names the line on which each key of a TOML text stands."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolstead.app.toml_lines import find_lines, read_key


def test_plain_tables_and_keys_have_their_lines() -> None:
    lines = find_lines("# hello\n\n[tools]\ntimeout = 5\n\n[server] # here\nport = 1\nhost='x'\n")

    assert lines[("tools",)] == 3
    assert lines[("tools", "timeout")] == 4
    assert lines[("server",)] == 6
    assert lines[("server", "port")] == 7
    assert lines[("server", "host")] == 8


def test_dotted_and_quoted_keys_are_told_apart() -> None:
    lines = find_lines('a.b.c = 1\n"d.e" = 2\n  \'f\' . "g\\u0041" = 3\n["x y".z]\nk = 1\n')

    assert lines[("a", "b", "c")] == 1
    assert lines[("d.e",)] == 2
    assert lines[("f", "gA")] == 3
    assert lines[("x y", "z", "k")] == 5


def test_an_array_over_several_lines_gives_each_element_its_line() -> None:
    text = 'list = [\n  "a", # one\n  "b]",\n\n  [1,\n   2],\n  {k = "v", l = 3},\n]\nafter = 1\n'
    lines = find_lines(text)

    assert lines[("list", 0)] == 2
    assert lines[("list", 1)] == 3
    assert lines[("list", 2)] == 5
    assert lines[("list", 2, 1)] == 6
    assert lines[("list", 3, "l")] == 7
    assert lines[("after",)] == 9


def test_inline_tables_are_looked_into() -> None:
    lines = find_lines('x = 1\nt = {a.b = 1, "c" = {d = [1, 2]}}\ny = 2\n')

    assert lines[("t", "a", "b")] == 2
    assert lines[("t", "c", "d", 1)] == 2
    assert lines[("y",)] == 3


def test_long_texts_with_brackets_and_quotes_do_not_confuse_it() -> None:
    text = 'a = """\n[not.a.table]\nb = 1 \\""" c\n"""\nd = \'\'\'\n[x]\'\'\'\'\ne = """"quoted"""""\nf = 1\n'
    tomllib.loads(text)
    lines = find_lines(text)

    assert set(lines) == {("a",), ("d",), ("e",), ("f",)}
    assert lines[("d",)] == 5
    assert lines[("e",)] == 7
    assert lines[("f",)] == 8


def test_arrays_of_tables_count_their_tables() -> None:
    lines = find_lines("[[a]]\nx = 1\n[[a.b]]\n[[a]]\nx = 2\n[a.c]\ny = 1\n[[a.b]]\nz = 1\n")

    assert lines[("a", 0, "x")] == 2
    assert lines[("a", 1, "x")] == 5
    assert lines[("a", 1, "c", "y")] == 7
    assert lines[("a", 1, "b", 0, "z")] == 9


def test_a_table_opened_twice_is_where_it_was_opened_first() -> None:
    assert find_lines("[a.b]\n\n[a.c]\n")[("a",)] == 1


def test_a_key_without_a_value_is_left_out_with_all_that_follows() -> None:
    assert find_lines("a = 1\nb\nc = 1\n") == {("a",): 1}


def test_windows_line_ends_count_once() -> None:
    lines = find_lines("[a]\r\nx = 1\r\ny = [\r\n 1,\r\n 2]\r\nz = 1\r\n")

    assert lines[("a", "x")] == 2
    assert lines[("a", "y", 1)] == 5
    assert lines[("a", "z")] == 6


@pytest.mark.parametrize(
    "text", ["", "\n", "=", "[", "[[", "a", "a=", "a=[", "a={", 'a="', '"\\q"=1', "a=[1 2]", "a=[}", "{}"]
)
def test_a_text_that_is_no_toml_ends_without_a_crash(text: str) -> None:
    find_lines(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1", (("a", "b"), 3)),
        (" a . b = 1", (("a", "b"), 7)),
        ('"a.b".c=1', (("a.b", "c"), 7)),
        ("'a\"'=1", (('a"',), 4)),
        ("=1", None),
        ("a.=1", None),
        ("", None),
    ],
)
def test_a_dotted_key_is_read_to_its_end(text: str, expected: object) -> None:
    assert read_key(text) == expected


# A document written by a generator that knows the line of everything it writes.

_NAMES = st.text(alphabet=st.sampled_from("ab-_9 .\"'é#=[]\\"), min_size=0, max_size=4)
_SCALARS = st.one_of(
    st.integers(-99, 99), st.booleans(), st.sampled_from([0.5, 1e300]), st.text(st.sampled_from("a\n\"'\\]}#=é\x7f"))
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=6,
)


class _Writer:
    """Writes TOML in styles drawn at random, and notes where each key went."""

    def __init__(self, draw: Any) -> None:
        self.text = ""
        self.expected: dict[tuple[str | int, ...], int] = {}
        self._draw = draw

    def note(self, path: tuple[str | int, ...]) -> None:
        self.expected[path] = self.text.count("\n") + 1

    def noise(self, *, lines: bool) -> None:
        choices = ["", " ", "\t"] + (["\n", "\r\n", " # [x]\n", "\n# a = '''\n"] if lines else [])
        self.text += self._draw(st.sampled_from(choices))

    def key(self, name: str) -> None:
        bare = name and all(character.isascii() and (character.isalnum() or character in "-_") for character in name)
        literal = "'" not in name and name.isprintable()
        styles = ["basic", *(["bare"] if bare else []), *(["literal"] if literal else [])]
        match self._draw(st.sampled_from(styles)):
            case "bare":
                self.text += name
            case "literal":
                self.text += f"'{name}'"
            case _:
                self.text += _basic(name)

    def value(self, path: tuple[str | int, ...], value: Any) -> None:
        if isinstance(value, list):
            self.text += "["
            for position, item in enumerate(value):
                self.noise(lines=True)
                self.note((*path, position))
                self.value((*path, position), item)
                self.noise(lines=True)
                self.text += ","
            self.noise(lines=True)
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for position, (name, item) in enumerate(value.items()):
                self.text += "," if position else ""
                self.noise(lines=False)
                self.pair(path, name, item)
            self.text += "}"
        elif isinstance(value, str):
            self.text += self._text(value)
        else:
            self.text += json.dumps(value)

    def _text(self, value: str) -> str:
        return self._draw(st.sampled_from([_basic(value), f'"""\n{_basic(value)[1:-1]}\n[x]"""']))

    def pair(self, path: tuple[str | int, ...], name: str, value: Any) -> None:
        self.note((*path, name))
        self.key(name)
        self.noise(lines=False)
        self.text += "="
        self.noise(lines=False)
        self.value((*path, name), value)
        self.noise(lines=False)


def _basic(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.dictionaries(_NAMES, st.dictionaries(_NAMES, _VALUES, max_size=3), max_size=3))
def test_whatever_the_layout_every_key_is_found_on_its_line(data: st.DataObject, tables: dict[str, Any]) -> None:
    writer = _Writer(data.draw)
    for table, pairs in tables.items():
        writer.noise(lines=True)
        writer.note((table,))
        writer.text += "["
        writer.key(table)
        writer.text += "]\n"
        for name, value in pairs.items():
            writer.noise(lines=True)
            writer.pair((table,), name, value)
            writer.text += "\n"

    tomllib.loads(writer.text)

    assert find_lines(writer.text) == writer.expected
