"""The switches: which tools are turned off, and what was set for plugins, in a small file that every process watches.

It also holds which plugins had a gate when they were last registered, for a process in which one of them cannot be.
What is set for plugins lives in the database, and stands here too so that a process can start without opening it.

`state.json` is private to the user and written whole: under a lock, into a file beside it, synced,
then moved into place. A file that is not valid is never overwritten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from toolstead.app.private_file import lock_file, write_private
from toolstead.app.watching import POLL_SECONDS, PollingWatcher, Stamp, is_young, read_stamp
from toolstead.errors import StateError
from toolstead.types.plugin_row import PluginRow

logger = logging.getLogger(__name__)

VERSION = 1

_EMPTY: dict[str, Any] = {"version": VERSION, "disabledTools": [], "plugins": {}, "gates": [], "gateless": []}


class RememberedGate(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin of which is known whether it had a gate when it was last registered.

    Attributes:
        plugin: Its name.
        origin: Its module or file.
    """

    plugin: str
    origin: str


class State(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the file holds.

    Attributes:
        disabled_tools: The names of the tools that are turned off.
        plugins: What was set for plugins, as the database has it.
        gates: The plugins that had a gate when they were last registered, the latest last.
        gateless: Those that had none.
    """

    disabled_tools: frozenset[str] = frozenset()
    plugins: Mapping[str, PluginRow] = msgspec.field(default_factory=dict[str, PluginRow])
    gates: tuple[RememberedGate, ...] = ()
    gateless: tuple[RememberedGate, ...] = ()


class Switches:
    """The switches in `state.json` of the data folder. No file means that nothing is turned off."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.json"

    def read(self) -> State:
        """All of it.

        Raises:
            StateError: The file cannot be read or understood.
        """
        return self._parse(self._read())

    def set_tool_enabled(self, name: str, enabled: bool) -> bool:
        """Turn a tool on or off; return whether that changed anything.

        Waits for other writers, so an event loop calls it in a worker.

        Raises:
            StateError: The file cannot be read, understood or written.
        """
        with self._changed_content() as content:
            before = self._parse(content).disabled_tools
            after = before - {name} if enabled else before | {name}
            content["disabledTools"] = sorted(after)
        return after != before

    def mirror_plugins(self, look: Callable[[], Mapping[str, PluginRow]]) -> Mapping[str, PluginRow]:
        """Write the plugin settings of the database to the file, and return them.

        Waits for other writers, so an event loop calls it in a worker.

        Args:
            look: Reads the database. It is called while no other process writes the file, so that the last one to
                write it never writes what was true before.

        Raises:
            StateError: The file cannot be read, understood or written.
        """
        with self._changed_content() as content:
            rows = look()
            content["plugins"] = {name: _drop_none(row) for name, row in sorted(rows.items())}
        return rows

    def change_gates(
        self, change: Callable[[tuple[RememberedGate, ...]], Sequence[RememberedGate]]
    ) -> tuple[RememberedGate, ...]:
        """Change which plugins are remembered to have a gate, and return them.

        Waits for other writers, so an event loop calls it in a worker.

        Args:
            change: Makes those to remember out of those in the file. No other process writes the file meanwhile.

        Raises:
            StateError: The file cannot be read, understood or written.
        """
        with self._changed_content() as content:
            gates = tuple(change(self._parse(content).gates))
            content["gates"] = msgspec.to_builtins(gates)
        return gates

    def note_gateless(self, plugins: Sequence[RememberedGate]) -> None:
        """Keep which plugins are known to have no gate. Waits and raises as `change_gates`."""
        with self._changed_content() as content:
            content["gateless"] = msgspec.to_builtins(plugins)

    @contextmanager
    def _changed_content(self) -> Generator[dict[str, Any]]:
        """The file's content while no other process writes it; what was changed in it is written at the end."""
        try:
            with lock_file(self.path):
                before = self._read()
                content = {"version": VERSION, **before}
                yield content
                if {**_EMPTY, **content} != {**_EMPTY, **before}:
                    write_private(self.path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        except OSError as error:
            raise StateError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _read(self) -> dict[str, Any]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateError(f"{self.path} cannot be read: {error.strerror or error}") from error
        try:
            content: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise self._broken_state(f"it is not valid JSON ({error})") from None
        if not isinstance(content, dict):
            raise self._broken_state("it holds no JSON object")
        content = cast("dict[str, Any]", content)
        version = content.get("version")
        if isinstance(version, int) and version > VERSION:
            raise StateError(
                f"{self.path} has version {version}, and this Toolstead understands up to {VERSION}: a newer one"
                " wrote it; update Toolstead, or point TOOLSTEAD_HOME to another folder"
            )
        if type(version) is not int or version != VERSION:
            raise self._broken_state(f'"version" must be {VERSION}')
        self._parse(content)
        return content

    def _parse(self, content: dict[str, Any]) -> State:
        try:
            return msgspec.convert(content, State)
        except msgspec.ValidationError as error:
            names = '"disabledTools" must be a list of names'
            rows = '"plugins" must hold, by name, objects with "enabled" and "settings"'
            gates = '"gates" and "gateless" must list objects with "plugin" and "origin"'
            where = str(error)
            raise self._broken_state(
                names if "$.disabledTools" in where else gates if "$.gate" in where else rows
            ) from None

    def _broken_state(self, reason: str) -> StateError:
        return StateError(
            f"{self.path} is not valid and is left unchanged: {reason};"
            " repair it, or delete it to turn every tool on again"
        )


class SwitchWatcher(PollingWatcher):
    """Notifies a listener when any process changed the switches: `async with watcher:`.

    The listener is called on the event loop: first with what the file holds when the watcher starts,
    so that no change falls between reading and watching, then with every other set. A file that
    becomes invalid changes nothing and is logged once; a watcher that finds
    such a file at its start has no switches to keep, and refuses to start.
    """

    def __init__(
        self, switches: Switches, listener: Callable[[State], object], *, interval: float = POLL_SECONDS
    ) -> None:
        super().__init__("switches", interval)
        self._switches = switches
        self._listener = listener
        self._seen: Stamp | None = None
        self._known: State | None = None
        self._complained = False

    async def check_first(self) -> None:
        """Notify the listener of what the file holds now."""
        await self.check()

    async def check(self) -> None:
        """Check once, and notify the listener of a change.

        Raises:
            StateError: The file is not valid, and nothing is known from before.
        """
        seen = read_stamp(self._switches.path)  # none where it is absent, or reading it will say why not
        if self._known is not None and seen == self._seen and not (seen is not None and is_young(seen[0])):
            return
        self._seen = seen
        try:
            state = self._switches.read()
        except StateError as error:
            if self._known is None:
                raise
            if not self._complained:
                logger.warning("the switches stay as they were: %s", error)
            self._complained = True
            return
        self._complained = False
        if state != self._known:
            self._known = state
            self._listener(state)


def _drop_none(row: PluginRow) -> dict[str, Any]:
    return {key: value for key, value in msgspec.structs.asdict(row).items() if value is not None}
