"""HTML as readable text: headings, paragraphs, lists, tables, code and links, as markdown-like text.

The main part of a page is what it marks as such, where that holds most of its text; else the whole body without menus,
footers and lists of links. Nothing is guessed beyond that: a text that is lost costs a reader more than a menu that
stays. docs/web.md has the comparison with the known extractors. It runs in a process of its own (`reading`), which
bounds its time and memory.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from toolstead.extensions.web.html_tree import HEADINGS, TEXT, FlatTree, MainPart, flatten_page

LONGEST_URL = 2_000
"""Characters of an address that is shown; a longer one is mostly data."""
DEEPEST = 8
"""Levels of lists and quotations that are shown as such."""
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt"),
        *(
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
            "header",
            "hgroup",
            "hr",
            "legend",
            "li",
            "main",
            "nav",
        ),
        *("option", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr"),
        *_LISTS,
        *HEADINGS,
    }
)
_SPACED = frozenset({"article", "blockquote", "dl", "figure", "p", "pre", "section", "table", *HEADINGS})
"""Blocks with an empty line around them."""
_SPACE = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n{3,}")


class PageText(NamedTuple):
    """What a page says.

    Attributes:
        title: Its title; empty when it has none.
        text: Its main part.
        left_out: How many links were left out with menus and the like.
        is_cut: Whether it has more elements than are read.
    """

    title: str
    text: str
    left_out: int
    is_cut: bool


def read_html(html: str, url: str) -> PageText:
    """The readable text of a page; addresses of links become absolute.

    Args:
        html: The page, however broken.
        url: Where it was found.
    """
    parser = LexborHTMLParser(html)
    title = parser.css_first("title")
    base = parser.css_first("base[href]")
    tree, main = flatten_page(parser)
    address = _join_url(url, base.attributes.get("href") or "") if base is not None else url
    text = _TextWriter(tree, address or url).write_text(main)
    end = tree.ends[main.start] if tree.tags else 0
    return PageText(
        title=_collapse_space(title.text() if title is not None else "").strip(),
        text=text,
        left_out=sum(tree.count_in(tree.links, at) for at in _skipped(tree, main, end)),
        is_cut=tree.is_cut,
    )


def _skipped(tree: FlatTree, main: MainPart, end: int) -> list[int]:
    """What is left out of the main part, without what is inside of that."""
    found, after = list[int](), main.start
    for at in sorted(main.left_out):
        if after <= at < end:
            found.append(at)
            after = tree.ends[at]
    return found


class _TextWriter:
    """Writes elements as lines."""

    def __init__(self, tree: FlatTree, base: str) -> None:
        self._tree = tree
        self._base = base
        self._lines: list[str] = []
        self._inline: list[str] = []
        self._link, self._link_at = "", 0
        self._numbers: list[int] = []  # of the next item of each open list; 0 in one without numbers
        self._marker = ""
        self._quotes = 0
        self._pre = 0
        self._row_end = 0

    def write_text(self, main: MainPart) -> str:
        """The text of a page's main part."""
        tree, at, open_elements = self._tree, main.start, list[int]()
        end = tree.ends[at] if tree.tags else 0
        while at < end:
            while open_elements and at >= tree.ends[open_elements[-1]]:
                self._end_element(open_elements.pop())
            if at in main.left_out and at != main.start:
                at = tree.ends[at]
                continue
            if tree.tags[at] == TEXT:
                self._inline.append(tree.texts[at] if self._pre else _collapse_space(tree.texts[at]))
            else:
                self._begin_element(at)
                open_elements.append(at)
            at += 1
        while open_elements:
            self._end_element(open_elements.pop())
        self._end_block()
        return _BLANK_LINES.sub("\n\n", "\n".join(self._lines)).strip("\n")

    def _begin_element(self, at: int) -> None:
        tag, node = self._tree.tags[at], self._tree.nodes[at]
        if tag == "br":
            self._inline.append(" " if self._row_end else "\n")
        elif tag == "img":
            alt = _collapse_space(node.attributes.get("alt") or "").strip()
            self._inline.append(f"[image: {alt}]" if alt else "")
        elif tag == "a":
            self._end_link()  # a broken page may have one inside another
            self._link, self._link_at = _join_url(self._base, node.attributes.get("href") or ""), len(self._inline)
        elif tag in _BLOCKS and self._row_end:
            self._inline.append(" | " if tag in {"td", "th"} and "".join(self._inline).strip() else " ")
        elif tag in _BLOCKS:
            self._end_block()
            self._begin_block(at, tag)

    def _begin_block(self, at: int, tag: str) -> None:
        if tag in _SPACED:
            self._add_space()
        if tag in HEADINGS:
            self._inline.append(f"{'#' * HEADINGS[tag]} ")
        elif tag in _LISTS:
            self._numbers.append(1 if tag == "ol" else 0)
        elif tag == "li":
            self._marker = self._next_marker()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "pre":
            self._pre += 1
            self._lines.append("```")
        elif tag == "hr":
            self._lines.append("---")
        elif tag == "tr" and not self._tree.count_in(self._tree.structures, at):
            self._row_end = self._tree.ends[at]  # cells with tables or headings in them are a page's layout

    def _end_element(self, at: int) -> None:
        tag = self._tree.tags[at]
        if tag == "a":
            self._end_link()
            return
        if tag == "tr" and self._row_end == self._tree.ends[at]:
            self._row_end = 0
        if tag not in _BLOCKS or self._row_end:
            return
        self._end_block()
        if tag in _LISTS and self._numbers:
            self._numbers.pop()
            if not self._numbers:
                self._add_space()
        elif tag == "blockquote":
            self._quotes -= 1
        elif tag == "pre":
            self._pre -= 1
            self._lines.append("```")
        if tag in _SPACED:
            self._add_space()

    def _next_marker(self) -> str:
        if not self._numbers or not self._numbers[-1]:
            return "- "
        self._numbers[-1] += 1
        return f"{self._numbers[-1] - 1}. "

    def _add_space(self) -> None:
        if not self._pre and not self._numbers and self._lines and self._lines[-1]:
            self._lines.append("")

    def _end_link(self) -> None:
        self._close_link()
        self._link = ""

    def _close_link(self) -> None:
        """Put the text of the open link in brackets, with its address behind it."""
        inner = "".join(self._inline[self._link_at :])
        text = inner.strip()
        if self._link and text:
            before, after = inner[: inner.index(text[0])], " " if inner[-1].isspace() else ""
            self._inline[self._link_at :] = [f"{before}[{text}]({self._link}){after}"]
        self._link_at = len(self._inline)

    def _end_block(self) -> None:
        """Write the open paragraph; an open link goes on in the next one."""
        self._close_link()
        text = "".join(self._inline)
        self._inline, self._link_at = [], 0
        if self._pre:
            self._lines += text.strip("\n").split("\n") if text.strip() else []
            return
        lines = [line for part in text.split("\n") if (line := _collapse_space(part).strip()).strip("#")]
        depth = min(len(self._numbers), DEEPEST)
        quote, indent = "> " * min(self._quotes, DEEPEST), "  " * max(depth - 1, 0)
        later = indent + ("  " if depth else "")
        for line in lines:
            self._lines.append(f"{quote}{indent + self._marker if self._marker else later}{line}")
            self._marker = ""


def _collapse_space(text: str) -> str:
    return _SPACE.sub(" ", text)


def _join_url(base: str, href: str) -> str:
    """The absolute address of a link; empty for one that leads nowhere else, or that only a browser could follow."""
    href = href.strip()
    if not href or href.startswith("#"):
        return ""
    try:
        url = urljoin(base, href)
    except ValueError:  # such as an IPv6 address with half its brackets
        return ""
    scheme = url.partition(":")[0].lower()
    if scheme not in {"http", "https", "mailto"} or len(url) > LONGEST_URL:
        return ""
    return url.replace(" ", "%20").replace(")", "%29").replace("(", "%28")
