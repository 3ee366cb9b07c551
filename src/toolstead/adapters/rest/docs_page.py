"""`/docs`: the OpenAPI document as one HTML page, rendered by the server.

No scripts and no external resources, so it works offline and under a Content-Security-Policy that allows
only its own style sheet. Links between shapes and problems are anchors.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any, cast

from toolstead.adapters.rest.docs_style import STYLE
from toolstead.adapters.rest.problems import KINDS

STYLE_HASH = "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect x='1' y='3' width='14' height='10' rx='2' fill='%23c8702a'/%3E"
    "%3Cpath d='M4 6h8M4 8h8M4 10h5' stroke='white'/%3E%3C/svg%3E"
)
_WIDTH = 84
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\[\]]+)\]\((/docs#[a-z-]+)\)")
Json = Mapping[str, Any]


def render_page(document: Json, *, origin: str, with_token: bool) -> str:
    """The page.

    Args:
        document: The OpenAPI document.
        origin: The server's address, for the examples.
        with_token: Whether the examples need a token.
    """
    info = document["info"]
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    articles = "".join(
        _render_operation(document, *found, origin=origin, with_token=with_token) for found in operations
    )
    shapes = "".join(
        f'<article id="shape-{escape(name)}"><header><span class="path">{escape(name)}</span></header>'
        f"{_render_paragraph(shape)}{_render_shape(shape)}</article>"
        for name, shape in document["components"]["schemas"].items()
    )
    problems = "".join(
        f'<dt id="{kind.slug}"><span class="status">{kind.status}</span> {escape(kind.title)} '
        f"<code>{kind.slug}</code></dt><dd>{_render_words(kind.advice)}</dd>"
        for kind in KINDS
    )
    token_note = (
        "This server needs its token: <code>Authorization: Bearer TOKEN</code>."
        if with_token
        else "This server needs no token, because only this machine can reach it."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Toolstead HTTP API</title><link rel="icon" href="{_ICON}"><style>{STYLE}</style></head><body>'
        f'<div class="frame">{_render_menu(document, operations)}<main>'
        f"<h1>{escape(info['title'])} HTTP API</h1><p>{_render_words(info['description'])}</p>"
        f"<p>{token_note} As an OpenAPI document: "
        '<a href="/openapi.json"><code>/openapi.json</code></a>.</p>'
        f'<h2 id="routes">Routes</h2>{articles}<h2 id="shapes">Shapes</h2>'
        f'<p><span class="must">*</span> marks members that are always present.</p>{shapes}'
        f'<h2 id="problems">Problems</h2><article><dl>{problems}</dl></article>'
        "</main></div></body></html>"
    )


def _render_menu(document: Json, operations: list[tuple[str, str, Json]]) -> str:
    routes = "".join(
        f'<li><a href="#{operation["operationId"]}"><span class="verb {method}">{method.upper()}</span>'
        f'<span class="path">{escape(path)}</span></a></li>'
        for method, path, operation in operations
    )
    shapes = "".join(
        f'<li><a href="#shape-{escape(name)}">{escape(name)}</a></li>' for name in document["components"]["schemas"]
    )
    return (
        f'<nav><a class="brand" href="#routes">Toolstead <small>{escape(document["info"]["version"])}</small></a>'
        f"<h2>Routes</h2><ul>{routes}</ul><h2>Shapes</h2><ul>{shapes}</ul>"
        '<h2>Errors</h2><ul><li><a href="#problems">Problems</a></li></ul></nav>'
    )


def _render_operation(document: Json, method: str, path: str, operation: Json, *, origin: str, with_token: bool) -> str:
    heading = (
        f'<article id="{operation["operationId"]}"><header><span class="verb badge {method}">{method.upper()}</span>'
        f'<span class="path">{escape(path)}</span><h3>{escape(operation["summary"])}</h3></header>'
    )
    parts = [heading, _render_paragraph(operation)]
    security = operation.get("security")
    if private := bool(security):
        parts.append('<p>Needs the private token: <a href="#private"><code>private</code></a>.</p>')
    elif security is not None:
        parts.append("<p>Needs no token.</p>")
    if parameters := operation.get("parameters"):
        rows = "".join(
            f'<tr><td><code>{escape(item["name"])}</code></td><td class="kind">in the {item["in"]}</td>'
            f"<td>{_render_words(item['description'])}</td></tr>"
            for item in parameters
        )
        parts.append(f"<h4>Parameters</h4><table>{rows}</table>")
    if body := operation.get("requestBody"):
        media = body["content"]["application/json"]
        note = "" if body.get("required") else " — optional"
        parts.append(
            f"<h4>Body{note}</h4>{_render_reference(media['schema'])}"
            f"{_render_shape(_resolve_reference(document, media['schema']))}"
        )
    parts.append(f"<h4>Answers</h4><table>{_render_answers(document, operation)}</table>")
    token = "PRIVATE_TOKEN" if private else "TOKEN" if with_token and security is None else ""
    example = _render_curl(method, path, operation, origin=origin, token=token)
    parts.append(f"<h4>Example</h4><pre><code>{escape(example)}</code></pre>{_good_answer(operation)}")
    parts.append(f'<p><a href="/try/{operation["operationId"]}">Try it</a> in the console.</p>')
    return "".join(parts) + "</article>"


def _render_answers(document: Json, operation: Json) -> str:
    rows: list[str] = []
    for status, response in operation["responses"].items():
        found = _resolve_reference(document, response)
        shown = "".join(_render_reference(media["schema"]) for media in found.get("content", {}).values())
        label = "other" if status == "default" else status
        described = _render_words(found["description"])
        rows.append(f'<tr><td class="status">{label}</td><td>{described}</td><td class="kind">{shown}</td></tr>')
    return "".join(rows)


def _good_answer(operation: Json) -> str:
    """The example of a good answer, where there is one."""
    good: list[Json] = [found for status, found in operation["responses"].items() if status.startswith("2")]
    media: Json = good[0].get("content", {}).get("application/json", {}) if good else {}
    if "example" not in media:
        return ""
    return f"<pre><code>{escape(_pretty_json(media['example']))}</code></pre>"


def _pretty_json(value: Any, indent: str = "") -> str:
    """JSON with short values on one line."""
    line = json.dumps(value)
    if len(indent + line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        items = [f"{json.dumps(name)}: {_pretty_json(item, deeper)}" for name, item in members]
    else:
        items = [_pretty_json(item, deeper) for item in cast("list[Any]", value)]
    inside = ",\n".join(deeper + item for item in items)
    return f"{line[0]}\n{inside}\n{indent}{line[-1]}"


def _resolve_reference(document: Json, node: Json) -> Json:
    """What a reference into the document's own components points to, or the node itself."""
    if "$ref" not in node:
        return node
    kind, name = node["$ref"].rsplit("/", 2)[1:]
    return document["components"][kind][name]


def _render_reference(schema: Json) -> str:
    """A reference to a shape: its name as a link, or its type."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f'<a href="#shape-{escape(name)}"><code>{escape(name)}</code></a>'
    return _render_words(schema["description"]) if "description" in schema else _describe_kind(schema)


def _render_shape(schema: Json) -> str:
    """A shape where it is defined: a row for each member."""
    required = dict.fromkeys(schema.get("required", ()), ' <span class="must" title="always present">*</span>')
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{required.get(name, '')}</td>"
        f'<td class="kind">{_describe_kind(member)}</td><td>{_render_words(member.get("description", ""))}</td></tr>'
        for name, member in schema.get("properties", {}).items()
    )
    return f"<table>{rows}</table>" if rows else ""


def _describe_kind(schema: Json) -> str:
    """The type of a value in a word or two."""
    if "$ref" in schema:
        return _render_reference(schema)
    if branches := schema.get("anyOf"):
        return " or ".join(_describe_kind(branch) for branch in branches)
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_describe_kind(schema['items'])}"
    return escape(" or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind))


def _render_curl(method: str, path: str, operation: Json, *, origin: str, token: str) -> str:
    """The request as a `curl` command."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", str(parameter["example"]))
    verb = {"get": "", "post": " -X POST"}.get(method, f" -X {method.upper()}")
    if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
        verb = " -N"  # no buffering
    lines: list[str] = []
    if token:
        lines.append(f"-H 'Authorization: Bearer {token}'")
    if body := operation.get("requestBody"):
        verb = "" if method == "post" else verb  # a body makes it a POST
        lines.append("-H 'Content-Type: application/json'")
        if path == "/mcp":
            lines.append("-H 'Accept: application/json, text/event-stream'")
        lines.append(f"-d '{json.dumps(body['content']['application/json']['example'])}'")
    elif path == "/mcp":
        lines += ["-H 'Accept: text/event-stream'"] if method == "get" else []
        lines.append("-H 'Mcp-Session-Id: SESSION'")
    return " \\\n     ".join([f"curl{verb} {origin}{path}", *lines])


def _render_paragraph(described: Json) -> str:
    text = described.get("description", "")
    return f"<p>{_render_words(text)}</p>" if text else ""


def _render_words(text: str) -> str:
    """Text with `code` and links to problems marked up."""
    shown = _CODE.sub(r"<code>\1</code>", escape(text, quote=False))
    return _LINK.sub(lambda found: f'<a href="{found[2].removeprefix("/docs")}">{found[1]}</a>', shown)
