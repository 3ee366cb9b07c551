"""The JSON shapes of plugins, as JSON Schema; beside `shapes`, which has those of tools."""

from __future__ import annotations

from toolstead.adapters.rest.shapes import Shape, list_of, object_of, ref, text

_SWITCH: Shape = {"type": "boolean", "description": "Whether it is switched on."}
_SETTINGS: Shape = {"type": "object", "description": "Its settings, secrets masked."}

PLUGIN_SHAPES: dict[str, Shape] = {
    "Plugin": object_of(
        "A plugin, as it is now.",
        {
            "name": text("Its name."),
            "version": text("Its version, as far as it is known."),
            "enabled": _SWITCH,
            "state": {
                "type": "string",
                "enum": ["loaded", "running", "degraded", "failed", "disabled"],
                "description": "`degraded`: it runs, but part of it failed; `failed`: nothing of it runs.",
            },
            "origin": text("The module or file it came from."),
            "tools": list_of({"type": "string"}, "The tools it brings, by their names."),
            "hooks": list_of({"type": "string"}, "What it listens to."),
            "settings": _SETTINGS,
        },
        {"error": text("Why it is degraded or failed.")},
    ),
    "PluginList": object_of("Every plugin.", {"plugins": list_of(ref("Plugin"), "In the order they were registered.")}),
    "PluginChange": {
        **object_of(
            "What to change; at least one of these.",
            {},
            {
                "enabled": {**_SWITCH, "description": "Switch it on or off."},
                "settings": {**_SETTINGS, "description": "Laid over what is set; null takes one back."},
            },
        ),
        "additionalProperties": False,
        "minProperties": 1,
    },
}
