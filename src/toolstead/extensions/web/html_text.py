"""HTML as Markdown. html-to-markdown writes it; here is which part of a page is shown, and how its links look.

The main part of a page is what it marks as such, where that holds most of its text; else the whole body without menus,
footers and boxes of links. Nothing is guessed beyond that: a text that is lost costs a reader more than a menu that
stays. docs/web.md has the comparison with the known extractors. It runs in a process of its own (`reading`), which
bounds its time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from html_to_markdown import ConversionOptions, PreprocessingOptions, WarningKind, convert

LONGEST_URL = 2_000
"""Characters of an address that is shown; a longer one is mostly data."""
DEEPEST = 1_024
"""Levels of elements that html-to-markdown reads."""
_LEAST_SHARE = 0.5
"""A part that has less of the page's text than this is not believed to be the main one."""
_LEAST_TEXT = 500
"""A page with fewer characters outside of links is one of links: they are what it has to say."""
_LONGEST_HEAD = 200_000
"""Characters in which a title and a base address are looked for."""
_LEAST_LINKS, _MOST_LINKED = 4, 0.7
"""A box with so many links, which are more than this of its text, is left out where no main part is marked."""
_MOST_NESTED = 4
"""Tables or boxes in one another that are looked at."""
_SCHEMES = frozenset({"http", "https", "mailto"})

_UNSEEN = (
    *("svg", "iframe", "object", "embed", "canvas", "audio", "video", "select", "button", "input", "textarea"),
    *("dialog", "[aria-hidden=true]", ".headerlink", ".sr-only", ".visually-hidden"),
)
"""What is no text; scripts, styles and elements that are hidden, html-to-markdown leaves out by itself."""
_AROUND = (
    *("nav", "aside", "footer", "[role=navigation]", "[role=contentinfo]", "[role=complementary]", "[role=search]"),
    *("[role=banner]", "[role=menu]", "[role=menubar]"),
)
_MAIN = (
    (re.compile(r"<main[\s>]", re.IGNORECASE), re.compile(r"</main[\s>]", re.IGNORECASE)),
    # Which of the end tags is its own, only a parser knows; footers are left out anyway.
    (re.compile(r"<\w{1,40}\s[^<>]{0,1000}\brole=[\"']?main\b", re.IGNORECASE), re.compile(r"\Z")),
    (re.compile(r"<article[\s>]", re.IGNORECASE), re.compile(r"</article[\s>]", re.IGNORECASE)),
)
# The tags of one kind. An expression for whole elements would need possessive groups, which early 3.11 gets wrong.
_TABLE = re.compile(r"<(/?)table\b[^<>]*>", re.IGNORECASE)
_BOX = re.compile(r"<(/?)div\b[^<>]*>", re.IGNORECASE)
_LINK = re.compile(r"<(/?)a\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_TABLE_TAG = re.compile(r"(</?)(?:table|thead|tbody|tfoot|tr|td|th)\b", re.IGNORECASE)
_STRUCTURE = re.compile(r"<(?:pre|h[1-6])\b", re.IGNORECASE)
_UNCLOSED = "</script></style>"
"""At the end of a page that was cut within a script or a style, which would otherwise be read as text."""


class PageText(NamedTuple):
    """What a page says.

    Attributes:
        title: Its title; empty when it has none.
        text: Its main part.
        left_out: How many links were left out, with menus and the like.
        is_deep: Whether it has elements in more than `DEEPEST` others, which are not read.
    """

    title: str
    text: str
    left_out: int
    is_deep: bool


class _WrittenPart(NamedTuple):
    """A part of a page as text.

    Attributes:
        text: The text.
        own: Characters of it that are no links.
        links: Links in it that lead elsewhere.
        is_deep: As in `PageText`.
    """

    text: str
    own: int
    links: int
    is_deep: bool


def read_html(html: str, url: str) -> PageText:
    """The readable text of a page; addresses of links become absolute.

    Args:
        html: The page, however broken.
        url: Where it was found.
    """
    html = _replace_innermost(_TABLE, _unwrap_layout, html.replace("\0", "")) + _UNCLOSED
    head = convert(html[:_LONGEST_HEAD], ConversionOptions(base_url=url)).metadata.document
    whole = _write_text(html, url, _UNSEEN)
    shown = _write_main(html, url, head.base_href or url, whole) if whole.own >= _LEAST_TEXT else whole
    return PageText(
        title=" ".join((head.title or "").split()),
        text=shown.text,
        left_out=whole.links - shown.links,
        is_deep=whole.is_deep,
    )


def _write_main(html: str, url: str, base: str, whole: _WrittenPart) -> _WrittenPart:
    """The first of the parts that may be the main one, from narrow to wide, that holds most of the page's text."""
    left_out, least = (*_UNSEEN, *_AROUND), _LEAST_SHARE * whole.own
    for marked in _find_marked(html):
        part = _write_text(marked, base, left_out)
        if part.own >= least:
            return part
    part = _write_text(_replace_innermost(_BOX, _drop_listing, html), url, left_out)
    return part if part.own >= least else whole


def _find_marked(html: str) -> Iterator[str]:
    """What a page marks as its main part, from the first such mark to the last one."""
    for start, end in _MAIN:
        first, last = start.search(html), 0
        for found in end.finditer(html):
            last = found.start()
        if first is not None and first.start() < last:
            yield html[first.start() : last]


def _replace_innermost(tag: re.Pattern[str], replace: Callable[[str], str], html: str) -> str:
    """Replace elements from the inside out."""
    for _ in range(_MOST_NESTED):
        pieces: list[str] = []
        done = 0
        for start, end in _find_innermost(tag, html):
            pieces += (html[done:start], replace(html[start:end]))
            done = end
        html, before = "".join((*pieces, html[done:])), html
        if html == before:
            break
    return html


def _find_innermost(tag: re.Pattern[str], html: str) -> Iterator[tuple[int, int]]:
    """The places of elements that hold no other of their kind: a start tag whose next tag is an end tag."""
    start: int | None = None
    for found in tag.finditer(html):
        if not found[1]:
            start = found.start()
        elif start is not None:
            yield start, found.end()
            start = None


def _unwrap_layout(table: str) -> str:
    """Make blocks of a table with code or headings in it: a cell of a Markdown table is one line."""
    return _TABLE_TAG.sub(r"\1div", table) if _STRUCTURE.search(table) is not None else table


def _drop_listing(box: str) -> str:
    """Leave out a box that is little more than links."""
    links = [box[start:end] for start, end in _find_innermost(_LINK, box)]
    is_listing = len(links) >= _LEAST_LINKS and _count_text("".join(links)) > _MOST_LINKED * _count_text(box)
    return "" if is_listing else box


def _count_text(html: str) -> int:
    return len("".join(_TAG.sub("", html).split()))


def _write_text(html: str, base: str, left_out: Sequence[str]) -> _WrittenPart:
    options = ConversionOptions(
        base_url=base,
        extract_metadata=False,  # it would stand at the beginning of the text
        exclude_selectors=list(left_out),
        preprocessing=PreprocessingOptions(enabled=False),  # it goes by names of classes, and loses pages
        autolinks=False,
        bullets="-",
        compact_tables=True,
        expand_abbreviations=False,
        include_blockquote_citations=False,
    )
    writer = _LinkWriter(base)
    visitor: Any = writer  # its protocol names 40 methods, and the library calls those that there are
    result = convert(html, options, visitor)
    text = (result.content or "").strip("\n")
    is_deep = any(one.kind == WarningKind.DEPTH_LIMIT_EXCEEDED for one in result.warnings)
    return _WrittenPart(text=text, own=len(text) - writer.linked, links=writer.links, is_deep=is_deep)


class _LinkWriter:
    """Writes links and images for html-to-markdown, and counts links and their characters."""

    def __init__(self, base: str) -> None:
        self._here = f"{base}#"
        self.links = 0
        self.linked = 0

    def visit_link(self, _ctx: object, href: str, text: str, _title: str | None) -> dict[str, str]:
        """A link that leads elsewhere, with its address; of any other its text."""
        shown = text.strip()
        if shown and _is_shown(href) and not href.startswith(self._here):
            address = href.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
            shown = f"[{shown}]({address})"
            self.links += 1
            self.linked += len(shown)
        return {"type": "custom", "output": shown}

    def visit_image(self, _ctx: object, _src: str, alt: str | None, _title: str | None) -> dict[str, str]:
        """What stands in the place of an image."""
        alt = " ".join((alt or "").split())
        return {"type": "custom", "output": f"[image: {alt}]" if alt else ""}


def _is_shown(href: str) -> bool:
    return len(href) <= LONGEST_URL and href.partition(":")[0].lower() in _SCHEMES
