"""How things are called: a class by one name alone, a function by what it does to what."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.architecture.sources import shown, source_files

MOST_ONE_WORD = 0.25
"""The share of functions whose name is one word, such as `close`; a reader must look up what most of them do."""


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in source_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(shown(path, node.lineno))
    shared = [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]
    assert not shared, "one name, one thing:\n" + "\n".join(shared)


def test_most_functions_say_what_they_do_to_what() -> None:
    names = [
        node.name.strip("_")
        for path in source_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]
    one_word = [name for name in names if not re.search(r"_|[a-z][A-Z]", name)]
    share = len(one_word) / len(names)
    assert share <= MOST_ONE_WORD, f"{share:.0%} of all functions have a name of one word: say verb and object"
