"""The import rules of pyproject.toml: they are kept, and each really catches what it is there for."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, module_name, parsed, shown, source_files, uses

LAYERS = (
    "console testing app adapters extensions orchestrator delegation invoker agents|kernel|tools "
    "plugins schema concurrency types errors"
)
ONE_WAY = "imports run one way"
FOREIGN = "foreign SDKs are imported by adapters and console only"
FACADE = "nobody inside imports the facade"
CYCLES = "no cycles at any depth"
EXTENSIONS = "extensions know nothing of each other"
OPEN_TO_EXTENSIONS = (
    "toolstead.plugins",
    "toolstead.schema",
    "toolstead.types",
    "toolstead.errors",
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
