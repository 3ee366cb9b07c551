"""What every test stands on: a shielded environment, and skips that are counted by name."""

from __future__ import annotations

import ast
import itertools
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import machine

REQUIRED = pytest.StashKey[frozenset[str]]()

_OURS = ("TOOLSTEAD_", "GIT_", "XDG_", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_", "OLLAMA_")
_OURS += ("BRAVE_", "TAVILY_", "SEARXNG_")
_XDG = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_RUNTIME_DIR": ".run",
    "XDG_STATE_HOME": ".local/state",
}
# How long anything takes is the machine's affair.
settings.register_profile("toolstead", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("toolstead")

_numbers = itertools.count(1)
_LACKING = re.compile(r"lacking (\w+): ")


class LackingModule(pytest.Module):
    """A module whose `pytestmark` requires something that is missing: not imported, each of its tests skipped."""

    def collect(self) -> Iterable[pytest.Item]:
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield LackingTest.from_parent(self, name=node.name)


class LackingTest(pytest.Item):
    """A test that stands for one that could not be imported; its marks have it skipped, or failed, by name."""

    def runtest(self) -> None:
        raise AssertionError("what it requires was missing when it was collected")

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


def pytest_configure(config: pytest.Config) -> None:
    required = machine.names_in(os.environ.get("TOOLSTEAD_REQUIRE", ""))
    for name in required:
        if problem := machine.unknown_name(name):
            raise pytest.UsageError(f"TOOLSTEAD_REQUIRE: {problem}")
    config.stash[REQUIRED] = frozenset(required)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background by a shell: the programs that tests start would not hear Ctrl-C either.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    # The marks are read before the module is imported, because its imports may be what is missing.
    lacking = [name for name in _module_needs(module_path) if name in machine.PROBES and machine.reason_for_lack(name)]
    if not lacking:
        return None
    module = LackingModule.from_parent(parent, path=module_path)
    module.add_marker(pytest.mark.requires(*lacking))
    return module


@pytest.hookimpl(trylast=True)  # what was deselected needs nothing
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needed: set[str] = set()
    for item in items:
        for name in _needs(item):
            if problem := machine.unknown_name(name):
                raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.requires: {problem}")
            needed.add(name)
    for name in sorted(needed & config.stash[REQUIRED]):
        if reason := machine.reason_for_lack(name):
            raise pytest.UsageError(f"TOOLSTEAD_REQUIRE asks for {name!r}, which this machine lacks: {reason}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in _needs(item):
        _need(item, name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # From the reports, because those are all that comes from other workers.
    told = [_LACKING.search(str(report.longrepr)) for report in terminalreporter.stats.get("skipped", [])]
    for name, count in sorted(Counter(found[1] for found in told if found is not None).items()):
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"lacking {name}: {tests} skipped ({machine.reason_for_lack(name)})")


@pytest.fixture
def requires(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`requires("node")` inside a test: for a need that only shows while it runs."""
    return lambda name: _need(request.node, name)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session", autouse=True)
def _shielded_session(_homes: Path) -> Iterator[None]:
    """What lives longer than one test is shielded too."""
    with pytest.MonkeyPatch.context() as patch:
        _shield(patch, _homes / "session")
        yield


@pytest.fixture(autouse=True)
def home(_homes: Path, _shielded_session: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own empty home; nothing of the person who runs the tests is read or written."""
    return _shield(monkeypatch, _homes / str(next(_numbers)))


def _shield(patch: pytest.MonkeyPatch, home: Path) -> Path:
    home.mkdir()
    for name in os.environ:
        if name.startswith(_OURS):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.setenv("TOOLSTEAD_HOME", str(home / ".config" / "toolstead"))
    for name, folder in _XDG.items():
        patch.setenv(name, str(home / folder))
    # Nobody's own keyring; and looking for one would start programs.
    patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    return home


def _module_needs(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if "pytestmark = " not in text or "requires(" not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            for mark in ast.walk(node.value):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requires":
                    yield from (argument.value for argument in mark.args if isinstance(argument, ast.Constant))


def _needs(item: pytest.Item) -> list[str]:
    return [name for marker in item.iter_markers("requires") for name in marker.args]


def _need(item: pytest.Item, name: str) -> None:
    if problem := machine.unknown_name(name):
        raise pytest.UsageError(f"{item.nodeid}: requires: {problem}")
    reason = machine.reason_for_lack(name)
    if reason is None:
        return
    if name in item.config.stash[REQUIRED]:
        pytest.fail(f"TOOLSTEAD_REQUIRE asks for {name!r}, which this machine lacks: {reason}", pytrace=False)
    pytest.skip(f"lacking {name}: {reason}")
