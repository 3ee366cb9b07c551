"""What a schema's keyword asks for, in words: for a description, where the keyword itself is not taken."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from toolstead.schema.explanation import shorten_text

_MOST_CHARACTERS = 600
"""Of one phrase: a description is read by a model on every turn."""

_SILENT = frozenset({"title", "description", "$comment", "examples", "deprecated", "readOnly", "writeOnly"})
_NAMING = _SILENT | {"type", "properties", "required"}
_PLAIN = _NAMING | {"additionalProperties", "const", "$ref"}

_PHRASES: Mapping[str, str] = {
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "pattern": "Matches the regular expression {}",
    "format": "Format: {}.",
    "minimum": "At least {}.",
    "maximum": "At most {}.",
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "minItems": "At least {} items.",
    "maxItems": "At most {} items.",
    "minProperties": "At least {} properties.",
    "maxProperties": "At most {} properties.",
    "const": "Always {}.",
    "default": "Default: {}.",
    "contentEncoding": "Content encoding: {}.",
    "contentMediaType": "Content type: {}.",
    "$ref": "As {} says.",
    "$dynamicRef": "As {} says.",
    "$recursiveRef": "As {} says.",
}
_BARE = frozenset({"pattern", "format", "contentEncoding", "contentMediaType", "$ref", "$dynamicRef", "$recursiveRef"})
"""Keywords whose text is shown without quotes."""


def describe_keyword(keyword: str, value: Any) -> str:
    """What a keyword asks for: a short sentence, or the keyword itself as JSON."""
    match keyword, value:
        case (("minItems" | "minProperties" | "minLength" | "maxItems" | "maxProperties" | "maxLength"), 1):
            return _PHRASES[keyword].format(1).replace("ies.", "y.").replace("s.", ".")
        case "uniqueItems", True:
            return "No item twice."
        case "enum", list():
            return _cut_text("One of: " + ", ".join(_to_json(item) for item in cast("list[Any]", value))) + "."
        case "required", list():
            return f"Needed: {', '.join(map(str, cast('list[Any]', value)))}."
        case "dependentRequired", dict():
            needs = cast("dict[str, list[str]]", value).items()
            return _cut_text(" ".join(f"With {name}, also {_list_names(others)}." for name, others in needs if others))
        case (("anyOf" | "oneOf"), list()):
            return _describe_choice(keyword, cast("list[Any]", value))
        case _ if keyword in _PHRASES and (keyword in ("const", "default") or not isinstance(value, bool)):
            return _cut_text(_PHRASES[keyword].format(value if keyword in _BARE else _to_json(value)))
        case _:
            return f"Must fit {show_value({keyword: value})}."


def _describe_choice(keyword: str, branches: Sequence[Any]) -> str:
    """The forms of an `anyOf` or `oneOf`, distinguished by what each of them needs."""
    branches = [branch for branch in branches if branch is not False]
    forms = [_describe_form(branch) for branch in branches]
    if len(forms) > 1 and all(map(_only_requires, branches)):
        only = (" Not both." if len(forms) == 2 else " Only one of these.") if keyword == "oneOf" else ""
        return _cut_text(f"Give either {', or '.join(forms)}.{only}")
    how = "exactly one" if keyword == "oneOf" else "one"
    numbered = "; ".join(f"({number}) {form}" for number, form in enumerate(forms, 1))
    return _cut_text(f"Fits {how} of these forms: {numbered}.")


def show_value(value: Any) -> str:
    """A value as short JSON."""
    return _cut_text(_to_json(value))


def extend_description(description: Any, sentences: Iterable[str]) -> str:
    """A description with more sentences."""
    text = description.strip() if isinstance(description, str) else ""
    if text and text[-1] not in ".!?:;…":
        text += "."
    return " ".join(part for part in dict.fromkeys((text, *sentences)) if part)


def _only_requires(branch: Any) -> bool:
    """Whether a form needs some properties, and asks for nothing but these."""
    if not isinstance(branch, Mapping):
        return False
    schema = cast("Mapping[str, Any]", branch)
    required, properties = schema.get("required", ()), schema.get("properties", ())
    return bool(required) and _NAMING.issuperset(schema) and set(properties) <= {*required}


def _describe_form(branch: Any) -> str:
    """What a form of a choice asks for, in a few words."""
    if not isinstance(branch, Mapping):
        return "anything"
    schema = cast("Mapping[str, Any]", branch)
    notes = {name: name + _form_notes(inner) for name, inner in schema.get("properties", {}).items()}
    required: Sequence[str] = schema.get("required", ())
    needed = _list_names([notes.get(name, name) for name in required]) if required else ""
    if _only_requires(schema):
        return needed
    optional = [note for name, note in notes.items() if name not in required]
    rest = {key: value for key, value in schema.items() if key not in _PLAIN}
    parts = [
        schema.get("title"),
        f"as {schema['$ref']} says" if "$ref" in schema else "",
        f"with {needed}" if needed else "",
        f"{'and ' if required else ''}optionally {_list_names(optional)}" if optional else "",
        "and nothing else" if schema.get("additionalProperties") is False else "",
        _to_json(rest) if rest else "",
    ]
    return " ".join(part for part in parts if part) or "anything"


def _form_notes(schema: Any) -> str:
    """What a form asks of a property, where it is short enough to stand behind its name."""
    if not isinstance(schema, Mapping):
        return " (never)" if schema is False else ""
    node = cast("Mapping[str, Any]", schema)
    if "const" in node:
        return f" = {_to_json(node['const'])}"
    notes = [
        describe_keyword(key, node[key]).rstrip(".").lower()
        for key in ("minItems", "maxItems", "minLength")
        if key in node
    ]
    if "enum" in node:
        notes.append("one of " + ", ".join(_to_json(item) for item in node["enum"]))
    return f" ({', '.join(notes)})" if notes else ""


def _list_names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)


def _cut_text(text: str) -> str:
    return shorten_text(text, _MOST_CHARACTERS)
