"""The program that turns what a server sent into text, in a process of its own.

`fetching` gives it a page and gets its text. Whatever a page does to its parser (endless nesting, millions of
attributes, a PDF that refers to itself) ends this process and nothing else.
"""

from __future__ import annotations

import io
import re
from typing import Literal

import msgspec

from toolstead.errors import ToolError
from toolstead.extensions.web.charset import decode_text
from toolstead.plugins.isolated import answer_calls

SECONDS = 10.0
"""Processor time for one page. The slowest of the pages in docs/web.md takes 0.02 seconds."""
MEMORY = 1_073_741_824
LONGEST_TEXT = 5_000_000
"""Characters of text that a page may have; the rest is left out, and the answer says so."""
LARGEST_ANSWER = 32 * 1_048_576
MOST_PDF_PAGES = 1_000

Format = Literal["html", "pdf", "text"]
_HIDDEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\u061c\u200e\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that a reader does not see and a model reads: controls, changes of direction, tags."""


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a server sent.

    Attributes:
        url: Where it was found.
        format: What it is.
        charset: What the header names; empty for nothing.
        is_cut: Whether there was more than is read.
    """

    url: str
    format: Format
    charset: str
    is_cut: bool
    content: bytes


class ReadablePage(msgspec.Struct, frozen=True, kw_only=True):
    """What it says.

    Attributes:
        title: Its title; empty for none.
        text: Its text.
        notes: What was left out.
    """

    title: str
    text: str
    notes: tuple[str, ...] = ()


def main() -> None:
    """Answer calls until the input ends."""
    answer_calls(_answer_call)


def read_page(page: FetchedPage) -> ReadablePage:
    """The text of a page.

    Raises:
        ToolError: It cannot be read.
    """
    notes: list[str] = []
    match page.format:
        case "html":
            title, text = _read_html(page, notes)
        case "pdf":
            title, text = _read_pdf(page, notes)
        case "text":
            title, text = "", decode_text(page.content, page.charset, is_cut=page.is_cut)
    if len(text) > LONGEST_TEXT:
        notes.append(f"what follows after {LONGEST_TEXT:,} characters is left out")
        text = text[:LONGEST_TEXT]
    text, hidden = _HIDDEN.subn("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if hidden:
        notes.append(f"{hidden:,} characters that cannot be seen are left out")
    return ReadablePage(title=_HIDDEN.sub("", title)[:500], text=text, notes=tuple(notes))


def _answer_call(content: bytes) -> bytes:
    return msgspec.msgpack.encode(read_page(msgspec.msgpack.decode(content, type=FetchedPage)))


def _read_html(page: FetchedPage, notes: list[str]) -> tuple[str, str]:
    from toolstead.extensions.web.html_text import DEEPEST, read_html

    found = read_html(decode_text(page.content, page.charset, is_cut=page.is_cut), page.url)
    if found.left_out:
        notes.append(f"{found.left_out:,} links in menus, footers and lists of links are left out")
    if found.is_deep:
        notes.append(f"what stands in more than {DEEPEST:,} elements at once is left out")
    return found.title, found.text


def _read_pdf(page: FetchedPage, notes: list[str]) -> tuple[str, str]:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    if page.is_cut:
        raise ToolError("a PDF can only be read whole, and this one is larger than what is read of a page")
    try:
        reader = PdfReader(io.BytesIO(page.content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolError("the PDF is encrypted")
        count = len(reader.pages)
        texts = [reader.pages[number].extract_text() for number in range(min(count, MOST_PDF_PAGES))]
        title = (reader.metadata.title if reader.metadata is not None else None) or ""
    except (PyPdfError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError(f"the PDF is broken: {str(error)[:200] or type(error).__name__}") from None
    if count > MOST_PDF_PAGES:
        notes.append(f"the PDF has {count:,} pages; what follows after {MOST_PDF_PAGES:,} is left out")
    if not any(text.strip() for text in texts):
        raise ToolError(f"the PDF has {count:,} pages and no text; it is probably made of images")
    return title, "\n\n".join(f"[page {number}]\n{text.strip()}" for number, text in enumerate(texts, start=1))
