"""What the scripted model of an agent does: asked to use a tool, it calls it, and says what it answered."""

from __future__ import annotations

import json
from typing import Any

_STOCK = {"items": [{"sku": "AB-1", "count": 2}, {"sku": "CD-22", "count": 3}]}
_CALLS: dict[str, dict[str, Any]] = {
    "lab__echo": {"text": "hi"},
    "say-word": {"word": "yes"},
    "lab__stock": {"items": [{"sku": "wrong", "count": 2}]},
    "lab__order": {**_STOCK, "payment": {"kind": "card", "number": "7"}, "speed": "fast"},
    "lab__tree": {"root": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}},
    "lab__union": {"phone": "555"},
    "lab__picture": {},
    "lab__slow": {},
    "lab__ask": {},
    "lab__think": {},
    "lab__wait": {"tag": "task"},
    "hot": {},
}
"""The arguments are those of the drivers; of stock, the bad ones."""


_IN_A_ROW = [name for name in _CALLS if name not in {"lab__wait", "lab__picture", "hot"}]
"""The picture comes last: some clients give it to their model as a new message of the user."""


def write_script(prefix: str = "") -> str:
    """The script, for `scripted_models`.

    Args:
        prefix: What a client puts before a tool's name, where that is not found out by itself.

    `use NAME` makes the model call that tool and say what it answered; `do everything` makes it call one tool after
    the other, the last one being there only since the one before it.
    """
    turns: list[dict[str, Any]] = [
        {"when": rf"use {name}\b", "call": [{"tool": prefix + name, "input": given}], "say": "RESULT {{result}} END"}
        for name, given in _CALLS.items()
    ]
    row = [*_IN_A_ROW, "lab__drop", "hot", "lab__picture"]
    chain = [{"call": [{"tool": prefix + name, "input": _CALLS.get(name, {})}]} for name in row]
    chain[0]["when"] = "do everything"
    return json.dumps([*turns, *chain, {"say": "All done."}, {"say": "Scripted."}])
