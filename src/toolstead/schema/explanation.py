"""Why a value does not fit: a few short lines that a model can act on.

Each line has the JSON pointer, what was expected and what came. Values are shown by their
beginning only, so that a large argument never makes a large error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice
from operator import getitem
from typing import Any, NamedTuple, cast

from toolstead.nearest_names import find_nearest, suggest

MOST_LINES = 5
LONGEST_LINE = 300
MOST_FINDINGS = 20
_SHOWN = 60
_LIMITS = {
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    **dict.fromkeys(("minimum", "minLength", "minItems"), "at least"),
    **dict.fromkeys(("maximum", "maxLength", "maxItems"), "at most"),
}


def explain_problems(validator: Any, document: Any, value: Any, *, first_only: bool = False) -> list[str]:
    """The first problems of a value, and how many more there are.

    Args:
        validator: The compiled validator.
        document: The schema it was compiled from, to name what would be allowed.
        value: The value that does not fit.
        first_only: Look for one problem; the validator always makes a list of all, at 10 µs each.
    """
    try:
        if first_only:
            return _first_problem(validator, document, value)
        errors: list[Any] = list(islice(validator.iter_errors(value), MOST_LINES + 20))
    except ValueError as error:  # not JSON at all, such as a key that is no string
        return [f"(arguments): {str(error)[:LONGEST_LINE]}"]
    lines = [_render_line(error, document) for error in errors[:MOST_LINES]]
    if len(errors) > MOST_LINES:
        more = len(errors) - MOST_LINES
        lines.append(f"… and {'at least ' if more >= 20 else ''}{more} more")
    return lines


def _first_problem(validator: Any, document: Any, value: Any) -> list[str]:
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [_render_line(error, document), "… and perhaps more"]
    return []


class SchemaFinding(NamedTuple):
    """One problem of a value: where, why, and the property's name where that is what is wrong."""

    path: tuple[str | int, ...]
    reason: str
    key: str | None = None


def find_problems(validator: Any, document: Any, value: Any) -> list[SchemaFinding]:
    """The problems of a value with their places, for reports that point into a file."""
    found: list[SchemaFinding] = []
    for error in islice(validator.iter_errors(value), MOST_FINDINGS):
        unexpected: Sequence[Any] = getattr(error.kind, "unexpected", None) or ()
        path = tuple(error.instance_path)
        if not unexpected or not isinstance(unexpected[0], str):
            found.append(SchemaFinding(path, _error_reason(error, document)))
            continue
        allowed = _property_names(document, error.schema_path)
        found.extend(
            SchemaFinding(path, _unexpected_names([name], allowed), name) for name in unexpected[:MOST_FINDINGS]
        )
    return found


def preview_value(value: Any) -> str:
    """A value's kind and beginning, in a few words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            shown = json.dumps(value[:_SHOWN], ensure_ascii=False)
            return f"string {shown}" + ("…" if len(value) > _SHOWN else "")
        case int() | float():
            return f"number {str(value)[:_SHOWN]}"
        case Mapping():
            keys = [str(key)[:20] for key in islice(cast("Mapping[Any, Any]", value), 4)]
            return f"object with {', '.join(keys)}"[:_SHOWN] if keys else "an empty object"
        case list() | tuple():
            return f"array of {len(cast('Sequence[Any]', value))} items"
        case _:
            return type(value).__name__


def render_pointer(path: Iterable[Any]) -> str:
    """A JSON pointer, or `(arguments)` for the whole."""
    steps = [escape_step(str(step)) for step in path]
    return "/" + "/".join(steps) if steps else "(arguments)"


def rename_whole(problems: Iterable[str], name: str) -> list[str]:
    """Lines about something other than arguments, with its own name for the whole: `(answer): "h" is missing`."""
    whole = render_pointer(())
    return [name + line.removeprefix(whole) if line.startswith(whole) else line for line in problems]


def escape_step(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def shorten_text(text: str, limit: int = 100) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _render_line(error: Any, document: Any) -> str:
    return shorten_text(f"{render_pointer(error.instance_path)}: {_error_reason(error, document)}", LONGEST_LINE)


def _error_reason(error: Any, document: Any) -> str:
    kind, value = error.kind, error.instance
    if type(kind).__name__ in ("BacktrackLimitExceeded", "RegexEngineFailure"):
        return (
            f"too much work to find out whether it matches the pattern; give a shorter text than {preview_value(value)}"
        )
    match kind.name:
        case "type":
            return f"expected {' or '.join(kind.types)}, got {preview_value(value)}"
        case "required":
            return f"{json.dumps(kind.property)} is missing{_find_misspelled(error, document)}"
        case "additionalProperties" | "unevaluatedProperties":
            return _unexpected_names(kind.unexpected, _property_names(document, error.schema_path))
        case "enum":
            options = shorten_text(json.dumps(kind.options, ensure_ascii=False))
            return f"expected one of {options}, got {preview_value(value)}"
        case "const":
            expected = shorten_text(json.dumps(kind.expected_value, ensure_ascii=False))
            return f"expected {expected}, got {preview_value(value)}"
        case "anyOf" | "oneOfNotValid" | "oneOf" if getattr(kind, "context", None):
            return _explain_branches(error, document)
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return f"expected {_LIMITS[kind.name]} {kind.limit}, got {preview_value(value)}"
        case "minLength" | "maxLength" | "minItems" | "maxItems":
            unit = "characters" if kind.name.endswith("Length") else "items"
            return f"expected {_LIMITS[kind.name]} {kind.limit} {unit}, got {len(value)}"
        case "pattern":
            return f"expected text that matches {shorten_text(kind.pattern)}, got {preview_value(value)}"
        case _:
            return shorten_text(str(error.message), 200)


def _unexpected_names(names: Sequence[str], allowed: Sequence[str]) -> str:
    shown = ", ".join(json.dumps(name[:_SHOWN]) for name in names[:5])
    otherwise = f"allowed: {shorten_text(', '.join(allowed))}" if allowed else ""
    hint = suggest(names[0], allowed, show=json.dumps, otherwise=otherwise) if names else otherwise
    return f"{shown} {'is' if len(names) == 1 else 'are'} not allowed here{f'; {hint}' if hint else ''}"


def _property_names(document: Any, schema_path: Sequence[Any]) -> list[str]:
    """The property names of the schema that holds the failing keyword, where it can be walked to."""
    return list(_schema_at(document, schema_path).get("properties", ()))


def _schema_at(document: Any, schema_path: Sequence[Any]) -> Mapping[str, Any]:
    """The schema that holds the failing keyword; empty where it cannot be walked to."""
    try:
        found: Any = reduce(getitem, schema_path[:-1], document)
    except (LookupError, TypeError):
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _find_misspelled(error: Any, document: Any) -> str:
    """A name that was given and that the schema lets pass, where it looks like the one that is missing."""
    known = _property_names(document, error.schema_path)
    given = [name for name in islice(error.instance, MOST_FINDINGS) if name not in known]
    nearest = find_nearest(error.kind.property, given) if known else []
    is_refused = "additionalProperties" in _schema_at(document, error.schema_path)  # that error names it already
    return f"; {json.dumps(nearest[0][:_SHOWN])} was given instead" if nearest and not is_refused else ""


def _explain_branches(error: Any, document: Any) -> str:
    """What each alternative misses, by its first error."""
    context: Sequence[Sequence[Any]] = error.kind.context
    here = render_pointer(error.instance_path)
    reasons: list[str] = []
    for branch in context[:4]:
        if branch:
            where, reason = render_pointer(branch[0].instance_path), _error_reason(branch[0], document)
            reasons.append(reason if where == here else f"{where}: {reason}")
    listed = "; or ".join(shorten_text(reason, 90) for reason in dict.fromkeys(reasons))
    return f"fits none of {len(context)} alternatives: {listed}"
