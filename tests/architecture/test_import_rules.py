"""The import rules of pyproject.toml: they are kept, and each really catches what it is there for."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, dotted, module_name, parsed, shown, source_files, uses

LAYERS = (
    "console testing app adapters extensions orchestrator delegation invoker agents|kernel|tools "
    "plugins processes schema concurrency types errors nearest_names"
)
ONE_WAY = "imports run one way"
FOREIGN = "foreign SDKs are imported by adapters and console only"
FACADE = "nobody inside imports the facade"
CYCLES = "no cycles at any depth"
ADAPTERS = "adapters stand on HTTP, and transports do not know each other"
EXTENSIONS = "extensions know nothing of each other"
OPEN_TO_EXTENSIONS = (
    "toolstead.plugins",
    "toolstead.schema",
    "toolstead.types",
    "toolstead.errors",
    "toolstead.nearest_names",
    "toolstead.extensions",
)


def _lint(source: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sysconfig.get_path("scripts")) / "lint-imports"
    command = [str(program), "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    environment = {**os.environ, "PYTHONPATH": str(source), "COLUMNS": "300"}
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_import_rules_are_kept(tmp_path: Path) -> None:
    done = _lint(ROOT / "src", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("rule", "culprit", "files"),
    [
        (ONE_WAY, "toolstead.types.thing -> toolstead.tools", {"types/thing.py": "import toolstead.tools.registry"}),
        (ONE_WAY, "toolstead.tools.thing -> toolstead.kernel", {"tools/thing.py": "import toolstead.kernel.loop"}),
        (ONE_WAY, "- toolstead.attic", {"attic/__init__.py": ""}),
        (FOREIGN, "toolstead.tools.thing -> mcp", {"tools/thing.py": "import mcp.types"}),
        (FOREIGN, "toolstead.app.thing -> starlette", {"app/thing.py": "def f():\n    import starlette"}),
        (FACADE, "toolstead.tools.thing -> toolstead", {"tools/thing.py": "from toolstead import Tool"}),
        (FACADE, "toolstead.console.thing -> toolstead", {"console/thing.py": "import toolstead"}),
        (
            CYCLES,
            "toolstead.tools",
            {"tools/a.py": "import toolstead.tools.b", "tools/b.py": "import toolstead.tools.a"},
        ),
        (
            ADAPTERS,
            "toolstead.adapters.mcp.thing -> toolstead.adapters.rest.app",
            {"adapters/mcp/thing.py": "import toolstead.adapters.rest.app"},
        ),
        (
            ADAPTERS,
            "toolstead.adapters.http.thing -> toolstead.adapters.mcp.wire",
            {"adapters/http/thing.py": "import toolstead.adapters.mcp.wire"},
        ),
        (
            EXTENSIONS,
            "toolstead.extensions.a -> toolstead.extensions.b",
            {"extensions/a.py": "import toolstead.extensions.b"},
        ),
    ],
)
def test_a_broken_rule_is_found(rule: str, culprit: str, files: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "toolstead", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in {"kernel/loop.py": "", "extensions/b.py": "", **files}.items():
        path = tmp_path / "toolstead" / name
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text + "\n", encoding="utf-8")
    done = _lint(tmp_path, tmp_path)
    assert f"{rule} BROKEN" in done.stdout, done.stdout + done.stderr
    assert culprit in done.stdout, done.stdout
    assert done.returncode != 0


def test_the_layers_are_those_of_the_map() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    assert [layer.replace("(", "").replace(")", "").replace(" ", "") for layer in layers] == LAYERS.split()


def _beyond_the_contract(tree: ast.Module) -> list[tuple[int, str]]:
    return [
        (line, name)
        for line, name in uses(tree)
        if name.startswith("toolstead.") and not name.startswith(OPEN_TO_EXTENSIONS)
    ]


def test_extensions_are_written_against_the_contract_alone() -> None:
    strangers = [
        f"{shown(path, line)}: {name}"
        for path in source_files()
        if module_name(path).startswith("toolstead.extensions.")
        for line, name in _beyond_the_contract(parsed(path))
    ]
    assert not strangers, f"what an extension needs is in the plugin contract, or belongs there: {strangers}"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("import toolstead.tools.registry", True),
        ("from toolstead.orchestrator.event_log import EventLog", True),
        ("from toolstead.plugins.contract import Tool", False),
    ],
)
def test_what_is_beyond_the_contract_is_seen(text: str, refused: bool) -> None:
    assert bool(_beyond_the_contract(ast.parse(text))) is refused


def _imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules each one imports when it is loaded or later, and which it names in a string to import them so.

    Imports for type checkers alone never run, and the facade names everything, so that it can load it late.
    """
    graph: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in _running_nodes(tree):
            match node:
                case ast.Import(names=aliases):
                    targets = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(module), names=aliases):
                    targets = [f"{module}.{alias.name}" for alias in aliases]
                case ast.Constant(value=str(text)) if text in trees and name != "toolstead":
                    targets = [text]
                case _:
                    continue
            for target in targets:
                found = target if target in trees else target.rpartition(".")[0]
                if found in trees and found != name:
                    graph[name].add(found)
    return graph


def _running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and dotted(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _running_nodes(child)


def _find_cycle(graph: dict[str, set[str]]) -> tuple[str, ...]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def test_there_is_no_cycle_through_imports_that_are_named_in_strings() -> None:
    assert not _find_cycle(_imports({module_name(path): parsed(path) for path in source_files()}))


@pytest.mark.parametrize(
    ("first", "second", "is_cycle"),
    [
        ("_LATE = 'toolstead.b'", "from toolstead.a import Thing", True),
        ("def load():\n    return imported('toolstead.b')", "import toolstead.a", True),
        ("_LATE = 'toolstead.b'", "if TYPE_CHECKING:\n    from toolstead.a import Thing", False),
        ("_TEXT = 'see toolstead.b'", "import toolstead.a", False),
    ],
)
def test_a_cycle_through_a_string_is_found(first: str, second: str, is_cycle: bool) -> None:
    trees = {"toolstead": ast.parse(""), "toolstead.a": ast.parse(first), "toolstead.b": ast.parse(second)}
    cycle = _find_cycle(_imports(trees))
    assert set(cycle) == ({"toolstead.a", "toolstead.b"} if is_cycle else set())
