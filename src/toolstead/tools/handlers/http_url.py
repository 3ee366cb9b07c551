"""Addresses of http tools: a strict URL, and the template that is filled for each call.

What a value may change is fixed when the file is loaded. In the path and the query a value is
percent-encoded, so it stays inside its place; a value that forms the origin must be an origin and
nothing more; everywhere else a placeholder is refused. There is one parser: what it takes apart
here is what the guard checks and what is sent.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, unquote

import msgspec
from msgspec.structs import replace

from toolstead.errors import RefusedError
from toolstead.tools.handlers.http_guard import canonical_host
from toolstead.tools.handlers.template import (
    Piece,
    Placeholder,
    TemplateError,
    checked_text,
    cut_template,
    fill_piece,
    show_slot,
    slot_names,
    unknown_name,
)

LONGEST_URL = 65_536
IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that mean the same when they are sent twice."""

PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?#]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?")
_PLACE = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(:(?P<port>\d{0,5}))?")
_UNSEEN = re.compile(r"[\x00-\x20\x7f]")
_SAFE_IN_PATH = "/:@!$&'()*+,;=~%"
_SAFE_IN_QUERY = _SAFE_IN_PATH + "?"
_DOTS = re.compile(r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)")


class Url(msgspec.Struct, frozen=True, kw_only=True):
    """An http address, taken apart. The host is canonical, path and query are percent-encoded."""

    scheme: str
    host: str
    port: int
    path: str = "/"
    query: str | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: who is talked to."""
        return self.scheme, self.host, self.port

    @property
    def shown_host(self) -> str:
        """The host as it stands in an address: IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def place(self) -> str:
        """Host and port as the `Host` header has them."""
        return self.shown_host if self.port == PORTS[self.scheme] else f"{self.shown_host}:{self.port}"

    @property
    def target(self) -> str:
        """Path and query."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}{self.target}"

    def with_query(self, pairs: Iterable[tuple[str, str]]) -> Url:
        """The same address with more in its query."""
        more = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
        return replace(self, query="&".join(filter(None, (self.query, more)))) if more else self


def parse_url(text: str) -> Url:
    """Take an address apart; a fragment is dropped.

    Raises:
        ValueError: It is no http(s) address, or one with user info; the text has the reason.
    """
    found = _URL.match(text)
    scheme = found["scheme"].lower() if found is not None else ""
    if found is None or scheme not in PORTS:
        raise ValueError(f"{text[:200]!r} does not begin with http:// or https://")
    if "@" in found["place"]:
        raise ValueError("it has user info before an @; put credentials into headers")
    place = _PLACE.fullmatch(found["place"])
    port = int(place["port"]) if place is not None and place["port"] else PORTS[scheme]
    if place is None or not 0 < port < 65_536:
        raise ValueError(f"{found['place'][:80]!r} is no host with an optional port")
    query = found["query"]
    return Url(
        scheme=scheme,
        host=canonical_host(place["host"]),
        port=port,
        path=quote(found["path"], safe=_SAFE_IN_PATH) or "/",
        query=None if query is None else quote(query, safe=_SAFE_IN_QUERY),
    )


class UrlTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A url with placeholders, checked.

    Attributes:
        origin: The address up to its path, or the slot whose value gives it.
        path: The pieces of the path after the origin; empty when the origin stands alone.
        query: The query's pieces; None for none.
    """

    origin: Url | Placeholder
    path: Sequence[Piece] = ()
    query: Sequence[Piece] | None = None

    @property
    def used_parameters(self) -> frozenset[str]:
        """The parameters that stand in the address."""
        first = (self.origin,) if isinstance(self.origin, Placeholder) else ()
        return frozenset(slot_names((*first, *self.path, *(self.query or ()))))

    def fill_url(self, arguments: Mapping[str, Any]) -> Url:
        """The address for these arguments.

        Raises:
            ToolError: A value is missing, or may not stand where it would.
        """
        url = _fill_origin(self.origin, arguments) if isinstance(self.origin, Placeholder) else self.origin
        if self.path:
            segments = [_fill_segment(pieces, arguments) for pieces in _split_segments(self.path)]
            url = replace(url, path="/".join((url.path.rstrip("/"), *segments)))
        if self.query is not None:
            url = replace(url, query=_fill_pieces(_literals_encoded(self.query, _SAFE_IN_QUERY), arguments))
        return url


def load_url(text: str, properties: Collection[str]) -> UrlTemplate:
    """Parse a url template and check where its placeholders stand.

    Raises:
        TemplateError: One stands where its value could change more than its place, or nothing could be reached.
    """
    if "${" in text:
        raise TemplateError("${…} is not filled in here; secrets belong in headers")
    pieces = cut_template(text.strip())
    for piece in pieces:
        if isinstance(piece, Placeholder):
            if piece.name not in properties:
                raise TemplateError(unknown_name(piece.name, properties, show_slot, show_slot))
        elif _UNSEEN.search(piece):
            raise TemplateError("blanks and control characters cannot stand in an address; write %20 for a blank")
    if not pieces:
        raise TemplateError("it is empty; write an address such as https://example.org/things/{{id}}")
    origin, rest = _split_origin(pieces)
    path, query = _split_query(rest)
    return UrlTemplate(origin=origin, path=path, query=query)


def query_pairs(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Arguments as a query: an array repeats its name, an object is compact JSON.

    Raises:
        ToolError: A value is too long, or has a null byte.
    """
    return [
        (checked_text("a name", name), checked_text(name, item))
        for name, value in arguments.items()
        for item in (cast("list[Any]", value) if isinstance(value, list) else [value])
    ]


def _split_origin(pieces: tuple[Piece, ...]) -> tuple[Url | Placeholder, list[Piece]]:
    first, *rest = pieces
    if isinstance(first, Placeholder):
        if rest and not (isinstance(rest[0], str) and rest[0].startswith(("/", "?"))):
            raise TemplateError(
                f"{{{{{first.name}}}}} at the beginning gives the whole origin (https://host:port), so a / must follow "
                f"it, as in {{{{{first.name}}}}}/health"
            )
        return first, rest
    found = _URL.match(first)
    if found is None or (rest and found.end("place") == len(first)):
        slot = next((piece.name for piece in rest if isinstance(piece, Placeholder)), None)
        if slot is None or found is None:
            raise TemplateError(f"{first[:80]!r}: an address begins with http:// or https://, or with a placeholder")
        raise TemplateError(
            f"{{{{{slot}}}}} stands in the user info, host or port, where a value could lead anywhere; write the host "
            f'out, or let the parameter give the whole origin ("{{{{{slot}}}}}/…") and name the hosts in "allowedHosts"'
        )
    try:
        origin = _parse_origin(first[: found.end("place")])
    except ValueError as error:
        raise TemplateError(f"the address cannot be used: {error}") from None
    after = first[found.end("place") :]
    return origin, [after, *rest] if after else rest


_parse_origin = functools.lru_cache(maxsize=512)(parse_url)  # the tools of a file mostly share one


def _split_query(pieces: list[Piece]) -> tuple[list[Piece], list[Piece] | None]:
    """Path and query; the first ? of the template's own text divides them."""
    for at, piece in enumerate(pieces):
        if not isinstance(piece, str):
            continue
        if "#" in piece:
            raise TemplateError("a fragment (#…) is never sent; leave it out, or write %23 for the character")
        if "?" in piece:
            before, _, after = piece.partition("?")
            _split_query(pieces[at + 1 :])
            path, query = [*pieces[:at], before], [after, *pieces[at + 1 :]]
            return list(filter(None, path)), list(filter(None, query))
    return pieces, None


def _literals_encoded(pieces: Sequence[Piece], safe: str) -> list[Piece]:
    return [quote(piece, safe=safe) if isinstance(piece, str) else piece for piece in pieces]


def _split_segments(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The path cut at its slashes; it begins with one, so what stands before the first is nothing."""
    segments: list[list[Piece]] = [[]]
    for piece in _literals_encoded(pieces, _SAFE_IN_PATH):
        if isinstance(piece, Placeholder):
            segments[-1].append(piece)
            continue
        first, *others = piece.split("/")
        segments[-1].append(first)
        segments.extend([other] for other in others)
    return segments[1:]


def _fill_origin(slot: Placeholder, arguments: Mapping[str, Any]) -> Url:
    name, text = slot.name, fill_piece(slot, arguments)
    right = "scheme://host[:port][/path], such as https://example.org"
    if _UNSEEN.search(text) or "\\" in text:
        raise RefusedError(f"{name!r} must be {right}; it contains a blank, a control character or a backslash")
    if "?" in text or "#" in text:
        raise RefusedError(f"{name!r} must be {right}; it has a query or a fragment")
    try:
        return parse_url(text)
    except ValueError as error:
        raise RefusedError(f"{name!r} must be {right}: {error}") from None


def _fill_segment(pieces: Sequence[Piece], arguments: Mapping[str, Any]) -> str:
    text = _fill_pieces(pieces, arguments)
    names = slot_names(pieces)
    if names and (not text or _DOTS.search(unquote(text))):
        # Encoded dots would not do: %2E%2E is .. to every server that follows the URL standard.
        raise RefusedError(
            f"{names[0]!r} would change the address: it fills a part of the path, so it may not be empty and not "
            "hold . or .. as a step"
        )
    return text


def _fill_pieces(pieces: Sequence[Piece], arguments: Mapping[str, Any]) -> str:
    """The text, with values percent-encoded: everything but letters, digits and - . _ ~."""
    return "".join(
        [piece if isinstance(piece, str) else quote(fill_piece(piece, arguments), safe="") for piece in pieces]
    )
