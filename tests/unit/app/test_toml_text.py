"""The line on which a key of a TOML text stands, where it has a line of its own; keys of `--set`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from toolstead.app.toml_text import find_lines, split_key


def lines_of(text: str) -> Mapping[tuple[str | int, ...], int]:
    return find_lines(text, tomllib.loads(text))


def test_plain_tables_and_keys_have_their_lines() -> None:
    lines = lines_of("# hello\n\n[tools]\ntimeout = 5\n\n[server] # here\nport = 1\nhost='x'\n")

    assert lines[("tools",)] == 3
    assert lines[("tools", "timeout")] == 4
    assert lines[("server",)] == 6
    assert lines[("server", "port")] == 7
    assert lines[("server", "host")] == 8


def test_dotted_and_quoted_keys_are_told_apart() -> None:
    lines = lines_of('a.b.c = 1\n"d.e" = 2\n  \'f\' . "g\\u0041" = 3\n["x y".z]\nk = 1\n')

    assert lines[("a", "b", "c")] == 1
    assert lines[("d.e",)] == 2
    assert lines[("f", "gA")] == 3
    assert lines[("x y", "z", "k")] == 5


def test_an_array_over_several_lines_has_the_line_it_begins_on() -> None:
    text = 'list = [\n  "a", # one\n  "b]",\n\n  [1,\n   2],\n  {k = "v", l = 3},\n  ["after"]\n]\nafter = 1\n'

    assert lines_of(text) == {("list",): 1, ("after",): 10}


def test_an_inline_table_has_one_line() -> None:
    lines = lines_of('x = 1\nt = {a.b = 1, "c" = {d = [1, 2]}}\ny = 2\n')

    assert lines == {("x",): 1, ("t",): 2, ("y",): 3}


def test_where_a_text_has_several_lines_no_line_is_guessed() -> None:
    assert lines_of('a = """\n[b]\nc = 1\n"""\n[b]\nc = 1\n') == {}


def test_tables_of_an_array_have_no_lines_of_their_own() -> None:
    assert lines_of("x = 1\n[[a]]\nx = 1\n[b]\ny = 1\n") == {("x",): 1, ("a",): 2, ("b",): 4, ("b", "y"): 5}


def test_a_table_opened_twice_is_where_it_was_opened_first() -> None:
    assert lines_of("[a.b]\n\n[a.c]\n")[("a",)] == 1


def test_windows_line_ends_count_once() -> None:
    lines = lines_of("[a]\r\nx = 1\r\ny = [\r\n 1,\r\n 2]\r\nz = 1\r\n")

    assert lines[("a", "x")] == 2
    assert lines[("a", "z")] == 6


def test_a_dotted_key_is_read_to_its_end() -> None:
    expected = {
        "a.b=1": (("a", "b"), "1"),
        " a . b = 1": (("a", "b"), " 1"),
        '"a.b".c=1': (("a.b", "c"), "1"),
        '"a=b"=c=d': (("a=b",), "c=d"),
        "'a\"'=1": (('a"',), "1"),
        "a=x\ny=1": (("a",), "x\ny=1"),
        "=1": None,
        "a.=1": None,
        "": None,
        "a": None,
        "[t]\na=1": None,
        "# c\na=1": None,
        "x\ny=1": None,
    }
    assert {text: split_key(text) for text in expected} == expected


_NAMES = st.text(alphabet=st.sampled_from("ab-_9 .\"'é#=[]\\"), max_size=4)
_VALUES = st.sampled_from(["1", "true", '"a = 1"', "'[x]'", "[\n1,\n# b = 1\n[2]\n]", "{a = 1}", '"\\"" # a = 1'])


@given(st.dictionaries(_NAMES, st.dictionaries(_NAMES, _VALUES, max_size=3), max_size=3))
def test_every_key_of_a_table_is_found_on_its_line(tables: dict[str, dict[str, str]]) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text, expected = "", dict[tuple[str, ...], int]()
    for table, pairs in tables.items():
        expected[(table,)] = text.count("\n") + 1
        text += f"[{quoted(table)}]\n"
        for name, value in pairs.items():
            expected[(table, name)] = text.count("\n") + 1
            text += f"  {quoted(name)} = {value}\n"
    if '"""' not in text and "'''" not in text:
        assert lines_of(text) == expected
