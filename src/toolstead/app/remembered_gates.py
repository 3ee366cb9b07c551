"""Which plugins had a gate when they were last registered, kept in `state.json` for later processes.

A plugin that cannot be loaded, configured or registered does not say that it has a gate. Without this memory a new
process would run every call unchecked because of a typing error in the settings. A plugin that no process has ever
registered may have a gate; one that is known to have none does no harm while it is broken.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from toolstead.app.state import RememberedGate
from toolstead.errors import StateError

if TYPE_CHECKING:
    from toolstead.app.state import State, Switches
    from toolstead.plugins.discovery import Discovered

logger = logging.getLogger(__name__)

MOST_GATES = 500


class RememberedGates:
    """The gates of plugins as the switches have them; written only when one came or went."""

    def __init__(self, switches: Switches) -> None:
        """Remember nothing yet.

        Args:
            switches: The file.
        """
        self._switches = switches
        self._known: tuple[RememberedGate, ...] = ()
        self._gateless: tuple[tuple[str, str], ...] = ()

    def take_state(self, state: State) -> None:
        """Take what the file holds."""
        self._known = state.gates
        self._gateless = tuple(map(_key_of, state.gateless))

    def had_gate(self, found: Discovered) -> bool:
        """Whether a plugin had a gate when it was last registered."""
        return any(gate.plugin == found.name and gate.origin == found.origin for gate in self._known)

    def is_unknown(self, found: Discovered) -> bool:
        """Whether a plugin may have a gate that no process has seen. Those that come with Toolstead have none."""
        if found.first_party or not found.may_have_gate:
            return False
        return not ((found.name, found.origin) in self._gateless or self.had_gate(found))

    async def note_gates(self, registered: Mapping[tuple[str, str], bool], found: Collection[Discovered]) -> None:
        """Remember the gates of plugins that were registered, and forget those of plugins that are gone.

        Args:
            registered: Whether each has a gate, by its name and origin.
            found: All plugins there are here, those that failed too.
        """
        here = {(one.name, one.origin) for one in found}
        gone = [gate for gate in self._known if _key_of(gate) not in here and _is_gone(gate.origin)]
        for gate in gone:
            logger.warning(
                "plugin %r (%s) is gone, and its gate with it: it checks no calls any more", gate.plugin, gate.origin
            )
        known = {_key_of(gate) for gate in self._known}
        fresh = [key for key, has_gate in registered.items() if has_gate and key not in known]
        stale = {key for key, has_gate in registered.items() if not has_gate and key in known}
        stale.update(map(_key_of, gone))
        if fresh or stale:
            await self._change_known(fresh, stale)
        await self._note_gateless(registered, found)

    async def forget_gate(self, name: str) -> None:
        """Forget the gates of all plugins of a name: a person does without them.

        Raises:
            StateError: The file cannot be written.
        """
        if stale := {_key_of(gate) for gate in self._known if gate.plugin == name}:
            self._known = await asyncio.to_thread(self._switches.change_gates, partial(_change_gates, [], stale))

    async def _note_gateless(self, registered: Mapping[tuple[str, str], bool], found: Collection[Discovered]) -> None:
        """Remember the plugins without a gate; of too many the oldest is forgotten, which only makes it unknown."""
        ours = {(one.name, one.origin) for one in found if one.first_party}
        kept = [key for key in self._gateless if not registered.get(key)]
        kept += [key for key, has_gate in registered.items() if not has_gate and key not in {*kept, *ours}]
        kept = kept[-MOST_GATES:]
        if kept == list(self._gateless):
            return
        self._gateless = tuple(kept)
        plugins = [RememberedGate(plugin=name, origin=origin) for name, origin in kept]
        try:
            await asyncio.to_thread(self._switches.note_gateless, plugins)
        except StateError as error:
            logger.info("which plugins have no gate cannot be noted for later processes: %s", error)

    async def _change_known(self, fresh: Sequence[tuple[str, str]], stale: Collection[tuple[str, str]]) -> None:
        change = partial(_change_gates, fresh, stale)
        try:
            self._known = await asyncio.to_thread(self._switches.change_gates, change)
        except StateError as error:
            self._known = tuple(change(self._known))
            names = ", ".join(repr(name) for name, _ in (*fresh, *stale))
            logger.warning("the gates of %s cannot be noted for later processes: %s", names, error)


def _change_gates(
    fresh: Sequence[tuple[str, str]], stale: Collection[tuple[str, str]], gates: Sequence[RememberedGate]
) -> list[RememberedGate]:
    kept = [gate for gate in gates if _key_of(gate) not in stale and _key_of(gate) not in fresh]
    kept += [RememberedGate(plugin=name, origin=origin) for name, origin in fresh]
    for gate in kept[:-MOST_GATES]:
        logger.warning("more than %s gates are remembered; that of plugin %r is not", MOST_GATES, gate.plugin)
    return kept[-MOST_GATES:]


def _key_of(gate: RememberedGate) -> tuple[str, str]:
    return gate.plugin, gate.origin


def _is_gone(origin: str) -> bool:
    """Whether a plugin was a file that was removed; not known of a module, nor of a name that is shown escaped."""
    if not os.path.isabs(origin) or "\\" in origin:  # noqa: PTH117 - at every start
        return False
    try:
        os.lstat(origin)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be seen, which does not mean that it is gone
        return False
    return False
