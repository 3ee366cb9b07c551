"""Where plugins are found: entry points of installed distributions, and files.

Discovery runs no plugin code: each plugin found knows how to load itself, and the host decides whether to.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

GROUP = "toolstead.plugins"
_MARK = GROUP.encode()
_METADATA = (".dist-info", ".egg-info")
_numbers = itertools.count(1)


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that was found and not loaded yet.

    A struct: making a frozen dataclass costs a start 0.8 ms, and this 0.02.

    Attributes:
        name: As found: the entry point's name, the file's without `.py`, a first-party one's.
        origin: `module:attribute`, or the file as people know it.
        load: Runs its code, and gives what should be a `Plugin`. May raise anything.
        unload: Forgets the modules that `load` made, also when it raised; an installed module stays imported.
        first_party: Whether it comes with us.
        bare: Whether its tools keep their bare names and count as built in; only the wiring grants it.
        version_key: Another one means that other code is behind it.
        may_have_gate: Whether its code may register a gate; no where that can be seen without running it.
    """

    name: str
    origin: str
    load: Callable[[], Any]
    unload: Callable[[], None] = lambda: None
    first_party: bool = False
    bare: bool = False
    version_key: str = ""
    may_have_gate: bool = True


def entry_point_plugins(path: Sequence[str] | None = None) -> list[Discovered]:
    """Plugins that installed distributions offer in the group `toolstead.plugins`, by name.

    `importlib.metadata.entry_points` opens the metadata of every distribution, 9 to 17 ms with 80 of them; looking
    for the group's name in each `entry_points.txt` takes 2. So it is asked about distributions that have the name,
    and about whole archives on the path, which cannot be looked into so cheaply.

    A module of a distribution stays imported, as any other: a newer version of it is for the next process.

    Args:
        path: Where to look; `sys.path` by default.
    """
    imported: dict[str, Distribution | None] = {}
    for folder in dict.fromkeys(sys.path if path is None else path):
        for name, distribution in _find_distributions(folder):
            imported.setdefault(name, distribution)  # the first on the path, whatever the others offer
    offering = [(name, distribution) for name, distribution in imported.items() if distribution is not None]
    found = [one for name, distribution in offering for one in _offered_plugins(name, distribution)]
    return sorted(found, key=lambda one: (one.name, one.origin))


def file_plugins(files: Iterable[tuple[Path, bytes]]) -> list[Discovered]:
    """Plugins that are files, in the order given; those that begin with `_` or `.` are none.

    Args:
        files: Each as people know it, and its content. The content is what runs, never what is on disk by then:
            it may have been approved.
    """
    return [_file_plugin(path, content) for path, content in files if not path.name.startswith(("_", "."))]


def unreadable_file(path: Path, reason: str) -> Discovered:
    """A plugin whose file is there and cannot be read: it fails to load, as one that is broken does."""

    def load() -> Any:
        raise PluginError(plugin=path.stem, field="file", reason=reason)

    return Discovered(name=path.stem, origin=str(path), load=load, version_key=reason)


def _find_distributions(folder: str) -> Iterator[tuple[str, Distribution | None]]:
    """The distributions in one entry of the path; None for what cannot offer a plugin."""
    try:
        with os.scandir(folder or ".") as entries:
            metadata = sorted(entry.name for entry in entries if entry.name.lower().endswith(_METADATA))
    except NotADirectoryError:
        yield from _archived_distributions(folder)
        return
    except OSError:
        return  # as importing does: an entry that is missing or closed to us has nothing for us
    for name in metadata:
        yield _project_name(name), _offering_distribution(os.path.join(folder, name))  # noqa: PTH118 - hundreds of them at every start


def _offering_distribution(metadata: str) -> Distribution | None:
    try:
        with open(os.path.join(metadata, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123 - as above
            if _MARK not in file.read():
                return None
    except OSError:
        return None

    from importlib.metadata import PathDistribution

    return PathDistribution(Path(metadata))


def _archived_distributions(archive: str) -> Iterator[tuple[str, Distribution]]:
    from importlib.metadata import distributions

    for distribution in distributions(path=[archive]):
        yield _project_name(distribution.metadata["Name"] or archive), distribution


def _project_name(name: str) -> str:
    """A distribution's name as all spellings of it have it, from its own or that of its metadata's folder."""
    lowered = name.lower()
    stem = lowered.removesuffix(".dist-info").removesuffix(".egg-info")
    return re.sub(r"[-_.]+", "-", stem if stem == lowered else stem.partition("-")[0])


def _offered_plugins(project: str, distribution: Distribution) -> list[Discovered]:
    """What a distribution offers. Unreadable metadata becomes a plugin that fails to load, so that users see it."""
    try:
        points = distribution.entry_points.select(group=GROUP)
        key = f"{project} {distribution.metadata['Version']}"
    except (ValueError, LookupError, AttributeError, OSError) as error:
        return [_unreadable_plugin(project, f"the entry points of {project!r} cannot be read: {error}")]
    return [
        Discovered(name=point.name, origin=point.value, load=point.load, version_key=f"{key} {point.value}")
        for point in points
    ]


def _unreadable_plugin(project: str, reason: str) -> Discovered:
    def load() -> Any:
        raise PluginError(plugin=project, field="entry point", reason=reason)

    return Discovered(name=project, origin=project, load=load)


def _file_plugin(path: Path, content: bytes) -> Discovered:
    from hashlib import sha256  # most starts have no such file

    modules: list[str] = []  # one each time it is loaded, until it is unloaded
    return Discovered(
        name=path.stem,
        origin=str(path),
        load=functools.partial(_load_file, path, content, modules),
        unload=functools.partial(_unload_file, path, modules),
        version_key=sha256(content).hexdigest(),
        may_have_gate=b"on_before_tool" in content or (b"register" in content and b"Hooks(" not in content),
    )


def _load_file(path: Path, content: bytes, modules: list[str]) -> Any:
    """Run the content in a new module, and give its `plugin`.

    The module is in `sys.modules`, where dataclasses and pickle look for it, under a name of its own: two files
    of one name, or two steads in one process, do not meet.

    Raises:
        PluginError: It has no `plugin`.
        BaseException: Whatever its code raises.
    """
    shown = str(path)
    # The traceback of a crash, and `inspect.getsource`, show what runs and not what is on disk by then.
    lines = content.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache[shown] = (len(content), None, lines, shown)
    code = compile(content, shown, "exec", dont_inherit=True)
    name = f"toolstead_plugin_{next(_numbers)}_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}"
    module = types.ModuleType(name)
    module.__file__ = shown
    module.__package__ = ""  # a file alone: there is nothing to import relative to it
    sys.modules[name] = module
    modules.append(name)
    exec(code, module.__dict__)  # noqa: S102 - running it is what a plugin is for; trust was settled before
    if not hasattr(module, "plugin"):
        raise PluginError(
            plugin=path.stem,
            field="plugin",
            reason=f"{shown} has no `plugin`; end it with `plugin = Plugin(name={path.stem!r}, …)`",
        )
    return module.plugin


def _unload_file(path: Path, modules: list[str]) -> None:
    """Remove its modules from `sys.modules`; code that still runs in them continues."""
    for name in modules:
        sys.modules.pop(name, None)
    modules.clear()
    linecache.cache.pop(str(path), None)
