"""What may be set for the plugins of a project, found without a stead: names, keys and defaults, for `config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolstead.app.layers import nest_value
from toolstead.app.masks import table_of
from toolstead.app.plugin_places import PluginPlaces
from toolstead.app.toml_text import toml_key
from toolstead.errors import PluginError, SettingsError
from toolstead.nearest_names import suggest
from toolstead.plugins.definition import load_definition
from toolstead.plugins.settings import read_settings

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.plugins.discovery import Discovered


class PluginDefaults:
    """The plugins that a command finds; their code is run where their settings are asked for."""

    def __init__(self, places: Places, trust: ProjectTrust) -> None:
        """Find them.

        Args:
            places: The user's folder.
            trust: What of the project may be loaded.
        """
        found = PluginPlaces(places, trust, given=list).discover_plugins()
        self._found: dict[str, Discovered] = {}
        for one in found:
            self._found.setdefault(one.name, one)

    def find_name(self, name: str) -> str:
        """Where no plugin here is called so, a sentence with the nearest name; else empty."""
        if name in self._found:
            return ""
        hint = suggest(name, self._found, otherwise="`toolstead plugins list` shows them all")
        return f"no plugin here is called {name!r}; {hint}"

    def check_value(self, path: Sequence[str], value: Any) -> None:
        """Check a setting of a plugin, `plugins.NAME.KEY`, where the plugin is here and can be loaded.

        Raises:
            SettingsError: The plugin would refuse it.
        """
        name, table = path[1], nest_value(tuple(path[2:]), value)
        if name not in self._found or not isinstance(table, Mapping):
            return
        try:
            self._read_settings(name, cast("Mapping[str, Any]", table))
        except PluginError as error:
            if error.field == "settings":
                where = toml_key(("plugins", name))
                raise SettingsError(key=where, origin="config set", reason=error.reason) from None

    def read_defaults(self, name: str) -> dict[str, Any]:
        """The values of a plugin's settings where nothing is set; none where that is not known."""
        try:
            return dict(table_of(self._read_settings(name, {}))) if name in self._found else {}
        except PluginError:
            return {}

    def _read_settings(self, name: str, table: Mapping[str, Any]) -> Any:
        table = {key: value for key, value in table.items() if key != "enabled"}
        return read_settings(load_definition(self._found[name]), table)
