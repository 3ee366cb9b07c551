"""A first version of a JSON tool file, drafted from a template: what `toolstead tools new` writes.

The schema is guessed from the names of the placeholders. Nothing is judged here: a template that
cannot work still becomes a draft, and the loader reports what is wrong with it.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from toolstead.errors import ToolsteadError
from toolstead.nearest_names import suggest
from toolstead.tools.handlers.http_guard import why_refused
from toolstead.tools.handlers.http_url import Url, load_url
from toolstead.tools.handlers.shell_syntax import parse
from toolstead.tools.handlers.template import PLACEHOLDER, TemplateError, slot_name
from toolstead.tools.sources.json_advice import explain_status_1
from toolstead.tools.sources.json_parameters import DeclaredParameter

SCHEMA_FILE = ".toolstead-schema.json"
"""The format's schema, beside the tool files. Hidden, so it is never taken for one."""

SAMPLE_FILE = "README.md"
"""The file of an example, unless another is known to be there."""

Document = dict[str, Any]
Declared = Mapping[str, DeclaredParameter]
NONE_DECLARED: Declared = {}

_WIDTH = 100
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EXAMPLE_ORIGIN = "https://example.com"
_WHOLE: Mapping[str, Mapping[str, int]] = {
    "count": {"minimum": 1, "default": 20},
    "depth": {"minimum": 1, "default": 3},
    "limit": {"minimum": 1, "default": 20},
    "line": {"minimum": 1},
    "lines": {"minimum": 1, "default": 20},
    "offset": {"minimum": 0, "default": 0},
    "page": {"minimum": 1, "default": 1},
    "port": {"minimum": 1, "maximum": 65_535},
}
_BARE: Mapping[str, Mapping[str, int]] = {"n": {}, "number": {}}  # only alone: a phone number is not a count
_MOST: Mapping[str, int] = {"minimum": 1, "default": 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guess:
    """What a parameter's name suggests: its schema, a value for the example, and whether it may be left out."""

    schema: Mapping[str, Any]
    example: Any
    is_optional: bool = False


_OF_FILES = (
    (
        frozenset({"dir", "directory", "folder"}),
        {"description": "The folder, absolute or relative to the project's root.", "default": "."},
        ".",
    ),
    (
        frozenset({"file", "filename", "path"}),
        {"description": "A path, absolute or relative to the project's root."},
        SAMPLE_FILE,
    ),
)
"""Last words of names of texts, what they suggest, and an example; only where files are meant."""
_TEXTS = (
    (frozenset({"uri", "url"}), {"description": f"An address, such as {_EXAMPLE_ORIGIN}."}, _EXAMPLE_ORIGIN),
    (
        frozenset({"keyword", "pattern", "q", "query", "search", "term"}),
        {"description": "What to look for."},
        "TODO",
    ),
)
"""The same wherever they stand."""


def draft_shell(
    name: str,
    command: str,
    *,
    description: str | None = None,
    declared: Declared = NONE_DECLARED,
    scripts: Sequence[str] = (),
    sample_file: str = "",
) -> Document:
    """A file with one tool that runs a command; the values of `scripts` may run as code.

    Where the example names a file, that is `sample_file`, which is there.

    Raises:
        ToolsteadError: A parameter is declared that the command has not.
    """
    text = f"Run `{_show_template(command)}`. Answers its output."
    guesses = {parameter: _guess_parameter(parameter, of_files=True) for parameter in find_placeholders(command)}
    for parameter, guess in guesses.items():
        if sample_file and guess.example == SAMPLE_FILE:
            guesses[parameter] = replace(guess, example=sample_file)
    for parameter in declared:
        if parameter not in guesses:
            hint = suggest(parameter, guesses, otherwise=f"write {{{{{parameter}}}}} where it belongs")
            raise ToolsteadError(f"--param {parameter}: the command has no such placeholder; {hint}")
    guesses = _apply_declared(guesses, declared, of_files=True)
    handler: dict[str, Any] = {"type": "shell", "command": command}
    with suppress(TemplateError):
        if explain_status_1(parse(command)) is not None:
            handler["okStatus"] = [0, 1]
    if scripts:
        handler["allowScript"] = list(scripts)
    return _build_document(name, text if description is None else description, guesses, handler)


def draft_http(
    name: str,
    method: str,
    url: str,
    *,
    description: str | None = None,
    declared: Declared = NONE_DECLARED,
    headers: Mapping[str, str] | None = None,
) -> Document:
    """A file with one tool that sends a request. What is declared and not in the URL becomes its body or its query.

    A host of this machine or of a private network is added to `allowedHosts`, because the
    author wrote it out. One that a parameter gives never is.
    """
    guesses = {parameter: _guess_parameter(parameter, of_files=False) for parameter in find_placeholders(url)}
    if url.lstrip().startswith("{{") and guesses:
        origin = _text_schema(f"Where to send it: scheme and host, such as {_EXAMPLE_ORIGIN}.")
        guesses[next(iter(guesses))] = _Guess(schema=origin, example=_EXAMPLE_ORIGIN)
    guesses = _apply_declared(guesses, declared, of_files=False)
    handler: dict[str, Any] = {"type": "http", "method": method, "url": url}
    if headers:
        handler["headers"] = dict(headers)
    if own := _private_host(url, guesses):
        handler["allowedHosts"] = [own]
    text = f"Send {method} {_show_template(url)}. Answers the body of the response."
    return _build_document(
        name, text if description is None else description, guesses, handler, {"openWorldHint": True}
    )


def draft_file_read(name: str, folder: str, *, description: str | None = None) -> Document:
    """A file with one tool that reads files inside a folder."""
    path = _Guess(schema=_text_schema(f"The file's path, relative to {folder}."), example="example.txt")
    handler = {"type": "file-read", "basePath": folder}
    text = f"Read a text file or an image from the folder {folder}."
    return _build_document(
        name, text if description is None else description, {"path": path}, handler, {"readOnlyHint": True}
    )


def find_placeholders(template: str) -> list[str]:
    """The parameters that a template names, each once, in order; what is no good name is left to the loader."""
    found: dict[str, None] = {}
    for inside in PLACEHOLDER.findall(template):
        with suppress(TemplateError):
            found[slot_name(inside)] = None
    return list(found)


def file_text(document: Mapping[str, Any]) -> str:
    """A document as a person would type it: what is short and flat on one line, the rest indented."""
    return _laid_out(document, "") + "\n"


def _apply_declared(guesses: Mapping[str, _Guess], declared: Declared, *, of_files: bool) -> dict[str, _Guess]:
    """What is declared stands above what is guessed, and comes after it where nothing was."""
    found = dict(guesses)
    for name, one in declared.items():
        guess = found.get(name) or _guess_parameter(name, of_files=of_files)
        schema = one.make_schema(guess.schema)
        example = guess.example if guess.schema["type"] == one.kind else one.example
        found[name] = _Guess(schema=schema, example=example, is_optional=one.is_optional)
    return found


def _build_document(
    name: str,
    description: str,
    guesses: Mapping[str, _Guess],
    handler: Mapping[str, Any],
    annotations: Mapping[str, bool] | None = None,
) -> Document:
    required = [name for name, guess in guesses.items() if "default" not in guess.schema and not guess.is_optional]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter: guess.schema for parameter, guess in guesses.items()},
    }
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False  # a misspelled argument is an error that names the right one
    tool: dict[str, Any] = {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "handler": handler,
        **({"annotations": annotations} if annotations else {}),
        # The program may not be installed here, or the host not reachable: the example is built and not run.
        "examples": [{"input": {parameter: guesses[parameter].example for parameter in required}, "run": False}],
    }
    return {"$schema": f"./{SCHEMA_FILE}", "name": name, "tools": [tool]}


def _guess_parameter(name: str, *, of_files: bool) -> _Guess:
    """What a name suggests.

    Args:
        name: The parameter's name.
        of_files: A path is one of this machine, not a part of an address.
    """
    words = [word.lower() for word in _WORDS.findall(name)] or [name]
    phrase, last = " ".join(words), words[-1]
    bounds = _BARE.get(phrase, _WHOLE.get(last, _MOST if phrase.startswith("max") else None))
    if bounds is not None:
        schema = {"type": "integer", "description": f"The {phrase}, a whole number.", **bounds}
        return _Guess(schema=schema, example=8080 if last == "port" else 1)
    for names, schema, example in (*_OF_FILES, *_TEXTS) if of_files else _TEXTS:
        if last in names:
            return _Guess(schema={"type": "string", **schema}, example=example)
    return _Guess(schema=_text_schema(f"The {phrase}."), example="1" if last == "id" else "example")


def _text_schema(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _show_template(template: str) -> str:
    """A template as a description shows it: a model would take {{x}} for something it has to write."""
    return PLACEHOLDER.sub(lambda found: f"<{found[1].strip()}>", template.strip())


def _private_host(url: str, known: Mapping[str, object]) -> str | None:
    """Host and port of a url whose own text names this machine, or one of a private network."""
    try:
        origin = load_url(url, known).origin
    except TemplateError:
        return None
    if not isinstance(origin, Url):
        return None
    try:
        why = why_refused(ipaddress.ip_address(origin.host)) or ""
    except ValueError:
        why = "a loopback address" if origin.host == "localhost" or origin.host.endswith(".localhost") else ""
    return f"{origin.shown_host}:{origin.port}" if why.startswith(("a loopback", "a private")) else None


def _laid_out(value: Any, indent: str, *, listed: bool = False) -> str:
    """A value as text, its first line indented already; what is listed shares one line with all that is in it."""
    flat = json.dumps(value, ensure_ascii=False)
    members: list[tuple[str, Any]]
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        members = [(f"{json.dumps(key, ensure_ascii=False)}: ", item) for key, item in given.items()]
        opening, closing = "{}"
    elif isinstance(value, list):
        members = [("", item) for item in cast("list[Any]", value)]
        opening, closing = "[]"
    else:
        return flat
    nested = any(item and isinstance(item, Mapping | list) for _, item in members)
    if (listed or not nested) and len(indent) + len(flat) <= _WIDTH:
        return flat
    deeper = indent + "  "
    inside = ",\n".join(f"{deeper}{key}{_laid_out(item, deeper, listed=not key)}" for key, item in members)
    return f"{opening}\n{inside}\n{indent}{closing}"
