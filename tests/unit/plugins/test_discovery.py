"""Where plugins are found: entry points, files; and what loading them meets."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plugins.hosting import RecordedHost
from toolstead.errors import PluginError
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.discovery import Discovered, entry_point_plugins, file_plugins
from toolstead.plugins.host import Wanted
from toolstead.plugins.plugin_instance import PluginInstance

GOOD = b"""
from __future__ import annotations
from dataclasses import dataclass
from toolstead.plugins.contract import Plugin
@dataclass
class Settings:
    volume: int = 1
print("a word at import")
plugin = Plugin(name="shouty", version="1", settings=Settings)
"""


def distribution(folder: Path, name: str, entry_points: str | bytes, version: str = "1.0") -> Path:
    """Install a distribution's metadata in a folder."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    text = entry_points.encode() if isinstance(entry_points, str) else entry_points
    (info / "entry_points.txt").write_bytes(text)
    return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("ty_"):
            del sys.modules[name]


def modules() -> list[str]:
    return [name for name in sys.modules if name.startswith("toolstead_plugin_")]


def wanted(*found: Discovered, **of: Any) -> list[Wanted]:
    return [Wanted(discovered=one, **of) for one in found]


def test_entry_points_are_found_by_name_without_running_anything(site: Path) -> None:
    distribution(site, "ty_many", "[toolstead.plugins]\nb = ty_b:plugin\na = ty_a:plugin\n[console_scripts]\nx = y:z\n")
    distribution(site, "ty_none", "[console_scripts]\nx = y:z\n")
    found = entry_point_plugins([str(site)])
    assert [(one.name, one.origin) for one in found] == [("a", "ty_a:plugin"), ("b", "ty_b:plugin")]
    assert "1.0" in found[0].version_key
    assert not found[0].first_party


def test_an_entry_point_is_loaded(site: Path) -> None:
    (site / "ty_a.py").write_text("from toolstead.plugins.contract import Plugin\nplugin = Plugin(name='a')\n")
    distribution(site, "ty_a", "[toolstead.plugins]\na = ty_a:plugin\n")
    (found,) = [one for one in entry_point_plugins() if one.name == "a"]
    assert found.load().name == "a"


@pytest.mark.parametrize("value", ["ty_absent:plugin", "ty_empty:plugin", "not a reference !"])
async def test_an_entry_point_that_leads_nowhere_fails_alone(site: Path, value: str) -> None:
    (site / "ty_empty.py").write_text("")
    distribution(site, "ty_bad", f"[toolstead.plugins]\nbad = {value}\n")
    recorded = RecordedHost()
    await recorded.host.apply_plugins([*wanted(*entry_point_plugins([str(site)])), recorded.wanted("good")])
    assert recorded.states() == {"bad": "failed", "good": "running"}
    assert (recorded.view("bad").error or "").startswith("load: ")


async def test_entry_points_that_cannot_be_read_are_seen(site: Path) -> None:
    distribution(site, "ty_bytes", b"[toolstead.plugins]\na = \xff\xfe\n")
    distribution(site, "ty_good", "[toolstead.plugins]\ngood = ty_a:plugin\n")
    found = entry_point_plugins([str(site)])
    assert [one.name for one in found] == ["good", "ty-bytes"]
    with pytest.raises(PluginError, match="the entry points of 'ty-bytes' cannot be read"):
        found[1].load()


def test_the_first_distribution_of_a_name_on_the_path_counts(tmp_path: Path) -> None:
    distribution(tmp_path / "one", "Ty.Some_thing", "[console_scripts]\nx = y:z\n", version="2")
    distribution(tmp_path / "two", "ty_some_thing", "[toolstead.plugins]\na = ty_a:plugin\n")
    assert entry_point_plugins([str(tmp_path / "one"), str(tmp_path / "two")]) == []
    assert len(entry_point_plugins([str(tmp_path / "two"), str(tmp_path / "one"), str(tmp_path / "two")])) == 1


def test_an_archive_on_the_path_is_looked_into_and_a_missing_entry_is_nothing(tmp_path: Path) -> None:
    info = distribution(tmp_path, "ty_zip", "[toolstead.plugins]\nz = ty_zip:plugin\n")
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in info.iterdir():
            file.write(path, f"{info.name}/{path.name}")
    assert [one.name for one in entry_point_plugins([str(archive), str(tmp_path / "missing")])] == ["z"]


def test_files_are_found_but_hidden_ones(tmp_path: Path) -> None:
    files = [(Path("p") / name, b"") for name in ("b.py", "_part.py", ".b.py", "a.py")]
    assert [(one.name, one.origin) for one in file_plugins(files)] == [("b", "p/b.py"), ("a", "p/a.py")]


def test_a_file_is_read_by_its_own_rules() -> None:
    (found,) = file_plugins([(Path("a.py"), b"def plugin(x: 1 + 1): ...\n")])
    assert found.load().__annotations__ == {"x": 2}  # no `from __future__` of ours
    found.unload()


def test_another_content_is_another_version() -> None:
    (one,), (two,) = file_plugins([(Path("a.py"), b"1")]), file_plugins([(Path("a.py"), b"2")])
    assert one.version_key != two.version_key


def test_the_bytes_given_run_and_not_those_on_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shouty.py"
    path.write_text("raise SystemExit('never this')")
    (found,) = file_plugins([(path, GOOD)])
    plugin = found.load()
    assert plugin.name == "shouty"
    assert capsys.readouterr().out == "a word at import\n"
    assert pickle.loads(pickle.dumps(plugin.settings())) == plugin.settings()
    other = found.load()
    assert plugin.settings.__module__ != other.settings.__module__
    assert len(modules()) == 2
    found.unload()
    assert modules() == []


async def test_a_file_is_in_sys_modules_as_long_as_it_is_used() -> None:
    recorded = RecordedHost()
    found = file_plugins([(Path("plugins/shouty.py"), GOOD)])
    await recorded.host.apply_plugins(wanted(*found, settings={"volume": 2}))
    assert recorded.view("shouty").settings.volume == 2
    assert len(modules()) == 1
    await recorded.host.apply_plugins(wanted(*found, enabled=False))
    assert modules() == []
    await recorded.host.apply_plugins(wanted(*found))
    assert recorded.states() == {"shouty": "running"}
    await recorded.host.apply_plugins(wanted(*file_plugins([(Path("plugins/shouty.py"), GOOD + b"# newer\n")])))
    assert len(modules()) == 1
    await recorded.host.close()
    assert modules() == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"x = 1\nplugin = Plugin(\n", "load: SyntaxError: '(' was never closed (plugins/bad.py:2)"),
        (b"x = 1\n", "plugin: plugins/bad.py has no `plugin`; end it with `plugin = Plugin(name='bad', …)`"),
        (b"x = 1\nraise ValueError('bo\\nom')\n", "load: ValueError: bo om (plugins/bad.py:2)"),
        (b"import json\njson.loads('{')\n", "(plugins/bad.py:2)"),
        (b"\nimport sys\nsys.exit('bye')\n", "load: SystemExit: bye (plugins/bad.py:3)"),
        (b"import asyncio\nraise asyncio.CancelledError\n", "load: CancelledError (plugins/bad.py:2)"),
        (b"import nowhere_at_all\n", "load: ModuleNotFoundError: No module named 'nowhere_at_all' (plugins/bad.py:1)"),
        (b"from . import x\n", "load: ImportError: attempted relative import"),
        (b"x = '\x00'\n", "load: "),
        (b"x = '\xff'\n", "load: SyntaxError"),
        (b"class E(Exception):\n  def __str__(self): raise KeyError\nraise E\n", "load: E: its message cannot be read"),
        (b"from toolstead.plugins.decorator import tool\n@tool\ndef f(*rest): ...\n", "(plugins/bad.py:2)"),
        (b"plugin = 3\n", "plugin: a Plugin(name='bad', …) is needed, not an int"),
    ],
)
async def test_a_bad_file_fails_alone_with_its_line(content: bytes, said: str) -> None:
    recorded = RecordedHost()
    await recorded.host.apply_plugins(
        [*wanted(*file_plugins([(Path("plugins/bad.py"), content)])), recorded.wanted("good")]
    )
    assert recorded.states() == {"bad": "failed", "good": "running"}
    assert said in (recorded.view("bad").error or "")
    assert modules() == []


async def test_a_traceback_shows_the_lines_that_ran(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "bad.py"
    path.write_text("never = 'this line'\n")
    recorded = RecordedHost()
    caplog.set_level("INFO", logger="toolstead.plugins")
    await recorded.host.apply_plugins(wanted(*file_plugins([(path, b"raise ValueError('this one')\n")])))
    assert "raise ValueError('this one')" in caplog.text
    assert "this line" not in caplog.text


async def test_a_keyboard_interrupt_is_nobodys_failure() -> None:
    (one,) = wanted(*file_plugins([(Path("plugins/bad.py"), b"raise KeyboardInterrupt\n")]))
    instance = PluginInstance(one)
    with pytest.raises(KeyboardInterrupt):
        instance.load(lambda name, _: PluginContext(name=name))
    assert modules() == []
    assert not instance.has_failed


def test_a_start_without_plugins_imports_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys\nimport toolstead.plugins.host\nfrom toolstead.plugins.discovery import entry_point_plugins\n"
        f"assert entry_point_plugins([{str(tmp_path)!r}]) == []\n"
        "print(*[name for name in ('pydantic', 'importlib.metadata', 'hashlib') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert done.stdout.split() == []
