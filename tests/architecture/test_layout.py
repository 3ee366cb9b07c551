"""How the tree is built: sizes, names, packages."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import PACKAGE, ROOT, files_of_tests, own_files, shown, source_files

MOST_LINES_IN_SOURCE = 500
MOST_LINES_IN_TESTS = 800
ATTICS = re.compile(r"^_*(utils?|core|common|helpers?|managers?|base|misc|impl)$")


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_module_is_longer_than_its_limit() -> None:
    limits = [(path, MOST_LINES_IN_SOURCE) for path in source_files()]
    limits += [(path, MOST_LINES_IN_TESTS) for path in files_of_tests()]
    too_long = [f"{shown(path)}: {_lines(path)} lines, at most {most}" for path, most in limits if _lines(path) > most]
    assert not too_long, "split by station:\n" + "\n".join(too_long)


def test_no_module_or_folder_is_named_like_an_attic() -> None:
    parts = {
        path: [folder.name for folder in path.relative_to(ROOT).parents if folder.name] + [path.stem]
        for path in own_files()
        if path.suffix in {".py", ".ts", ".tsx", ".js"}
    }
    attics = [shown(path) for path, names in parts.items() if any(ATTICS.match(name) for name in names)]
    assert not attics, f"a module is the noun it defines: {attics}"


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {parent for path in source_files() for parent in path.parents if parent.is_relative_to(PACKAGE)}
    missing = [shown(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()]
    assert not missing, f"no __init__.py in {missing}: tools would take what is inside for a package of its own"


def test_no_package_is_an_empty_room() -> None:
    packages = [path.parent for path in source_files() if path.name == "__init__.py"]
    empty = [
        shown(package)
        for package in packages
        if not any(path.name != "__init__.py" for path in package.rglob("*.py"))
        and _lines(package / "__init__.py") < 20
    ]
    assert not empty, f"a package appears with its first content: {empty}"


def test_every_module_says_what_it_is() -> None:
    silent = [shown(path) for path in source_files() if not path.read_text(encoding="utf-8").startswith('"""')]
    assert not silent, f"no docstring: {silent}"


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
