"""Reading a page: its bounds, each with a note about what is left out, and broken markup."""

from __future__ import annotations

import pytest

from toolstead.extensions.web import html_tree, reading
from toolstead.extensions.web.html_text import read_html
from toolstead.extensions.web.reading import FetchedPage, Format, ReadablePage, read_page

URL = "https://example.org/folder/page"
PROSE = "It was a bright cold day in April, and the clocks were striking thirteen. " * 10


def read(content: str, format: Format = "html") -> ReadablePage:
    return read_page(FetchedPage(url=URL, format=format, charset="", is_cut=False, content=content.encode()))


def test_what_goes_beyond_a_bound_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_TEXT", 100)
    long = read("word " * 100, "text")
    assert (len(long.text), long.notes) == (100, ("what follows after 100 characters is left out",))
    monkeypatch.setattr(html_tree, "MOST_NODES", 10)
    many = read("<p>first</p>" + "<p>more</p>" * 100)
    assert "first" in many.text
    assert many.text.count("more") < 10
    assert many.notes == ("the page has more than 10 elements; the rest is left out",)


def test_broken_markup_is_read_as_browsers_read_it() -> None:
    cases = {
        "": "",
        "just text": "just text",
        "<p>one<p>two": "one\n\ntwo",
        "<b><i>x</b>y</i>": "xy",
        "<a href='/x'>a <div>b</div></a>c": "[a](https://example.org/x)\n[b](https://example.org/x)\nc",
        "<a href='/x'>a<a href='/y'>b": "[a](https://example.org/x)[b](https://example.org/y)",
        "<a href='http://[::1'>half an address</a>": "half an address",
        "<li>loose<li>items": "- loose\n- items",
        "</div></p>end": "end",
        "<table><td>a<td>b<tr><td>c": "a | b\nc",
        "<pre>\n a\n  b": "```\n a\n  b\n```",
        "<!-- never closed <p>x": "",
        "x &lt;b&gt; &unknown; &#0; y": "x <b> &unknown; \ufffd y",
    }
    for html, text in cases.items():
        assert read_html(html, URL).text == text, html


def test_the_main_part_is_shown_where_it_holds_the_text_and_all_of_it_elsewhere() -> None:
    menu = "<div>" + "".join(f"<a href='/{name}'>Menu {name}</a> " for name in "abcdef") + "</div>"
    shown = read_html(f"{menu}<main>{PROSE}</main><p>Around</p>", URL)
    assert (shown.text, shown.left_out) == (PROSE.strip(), 0)
    weak = read_html(f"{menu}<main>Little</main><p>{PROSE}</p>", URL)
    assert "Little" in weak.text
    assert PROSE.strip() in weak.text
    assert (weak.left_out, "Menu" in weak.text) == (6, False)
    links = read_html(f"<h1>Index</h1>{menu}", URL)
    assert links.text.count("](https://example.org/") == 6
    within = read_html(f"<p>{PROSE}</p><ul>{''.join(f'<li><a href=/{one}>{one}</a>' for one in 'abcdef')}</ul>", URL)
    assert within.text.count("](https://example.org/") == 6
    hidden = read_html(f"<p>{PROSE}</p><p hidden>secret</p><div aria-hidden=true>secret</div><script>secret", URL)
    assert "secret" not in hidden.text
