"""The models of a stead: connected when first asked for, shared by all its conversations, closed at its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolstead.adapters.importing import import_lock
from toolstead.adapters.providers.catalogue import complete_name, default_model, find_model, vendor_states
from toolstead.app.keys import Keys
from toolstead.errors import RuntimeFailureError
from toolstead.kernel.model import Model

if TYPE_CHECKING:
    from toolstead.adapters.providers.model import ProviderModel


class Models:
    """Connects to model APIs by name."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._connecting = asyncio.Lock()
        self._connected: dict[str, ProviderModel] = {}

    def resolve_model(self, name: str) -> str:
        """The full name of a model; an empty one means the usual model of the first API with a key.

        Raises:
            RuntimeFailureError: There is no such model, or no key at all.
        """
        if name:
            return complete_name(name)
        usual = default_model(self._keys)
        if usual is None:
            keys = ", ".join(state.vendor.keys[0] for state in vendor_states(self._keys))
            raise RuntimeFailureError(
                f"no model is available: no key is set ({keys}), and no model is named that needs none; `toolstead"
                " doctor` says what to do. Without a model, a script can answer: --set"
                ' runtime.scripted.script=demo.yaml with "- say: Hello" in it'
            )
        return usual

    async def connect(self, name: str) -> Model:
        """The model of a full name, the same object every time.

        Raises:
            RuntimeFailureError: It is unavailable; the text says what to do.
        """
        found = self._connected.get(name)
        if found is not None:
            return found
        async with self._connecting:
            if name not in self._connected:
                self._connected[name] = await asyncio.to_thread(self._connect, name)
            return self._connected[name]

    def _connect(self, name: str) -> ProviderModel:
        """Not on the event loop: importing an SDK takes most of a second, and a keyring may ask a person."""
        self._keys.load(find_model(name)[0].keys)
        with import_lock():
            from toolstead.adapters.providers.connect import connect

            return connect(name, self._keys)

    async def aclose(self) -> None:
        """Close every connection."""
        connected, self._connected = self._connected, {}
        for model in connected.values():
            await model.aclose()
