"""Reading a page: its bounds, each with a note about what is left out, and broken markup."""

from __future__ import annotations

import pytest

from toolstead.extensions.web import html_text, reading
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
    deep = read("<p>first</p>" + "<div>" * html_text.DEEPEST + "<p>more")
    assert (deep.text, deep.notes) == ("first", ("what stands in more than 1,024 elements at once is left out",))


def test_broken_markup_is_read_as_browsers_read_it() -> None:
    cases = {
        "": "",
        "just text": "just text",
        "<p>one<p>two": "one\n\ntwo",
        "<b><i>x</b>y</i>": "***x****y*",
        "<a href='/x'>a <div>b</div></a>c": "[a b](https://example.org/x)c",
        "<a href='/x'>a<a href='/y'>b": "[a](https://example.org/x)[b](https://example.org/y)",
        "<li>loose<li>items": "- loose\n- items",
        "</div></p>end": "end",
        "<table><td>a<td>b<tr><td>c": "| a | b |\n| --- | --- |\n| c |  |",
        "<pre>\n a\n  b": "```\n a\n  b\n```",
        "<!-- never closed <p>x": "",
        "before<script>never closed <p>x": "before",
        "before<style>never closed <p>x": "before",
        "x &lt;b&gt; &unknown; &#0; y": "x <b> &unknown; \ufffd y",
        "\0<p>a\0b" + "\0" * 1_000: "ab",
        "1<5 and 6>2 & x": "1<5 and 6>2 & x",
        "<form><h1>All in a form</h1><input value=x>text": "# All in a form\n\ntext",
    }
    for html, text in cases.items():
        assert read_html(html, URL).text == text, html


def test_links_are_absolute_and_those_that_lead_nowhere_else_are_text() -> None:
    cases = {
        "<a href='x y(z).html' title='More'>a</a>": "[a](https://example.org/folder/x%20y%28z%29.html)",
        "<base href='docs/'><a href='x'>a</a>": "[a](https://example.org/folder/docs/x)",
        f"<base href='docs/'><main><a href='x'>a</a> {PROSE}</main>": f"[a](https://example.org/folder/docs/x) {PROSE}",
        "<a href='//other.org/x'>a</a> <a href='?q'>b</a>": "[a](https://other.org/x) [b](https://example.org/folder/page?q)",
        "<a href='mailto:x@example.org'>a</a>": "[a](mailto:x@example.org)",
        "<a href='#below'>a</a> <a>b</a> <a href='/x'></a>": "a b",
        "<a href='JavaScript:alert(1)'>a</a> <a href='data:text/html,x'>b</a>": "a b",
        f"<a href='/{'x' * html_text.LONGEST_URL}'>a</a>": "a",
        "<a href='/x'><img src='x.png' alt='Big\nmap'></a><img src='y.png'>": "[[image: Big map]](https://example.org/x)",
    }
    for html, text in cases.items():
        assert read_html(html, URL).text == text.strip(), html


def test_code_and_headings_in_tables_keep_their_lines() -> None:
    code = "<table><tr><td><pre>1\n2</pre><td><div><pre>if x:\n    y()</pre></div></table>"
    numbered = "```\n1\n2\n```\n\n```\nif x:\n    y()\n```"
    layout = f"<TABLE><tr><td>Logo<td><h1>Title</h1>{code}</td></tr></TABLE>"
    data = "<table><tr><th>Name<th>Age<tr><td>Ada<td>36</table>"
    assert read_html(code, URL).text == numbered
    assert read_html(layout, URL).text == f"Logo\n\n# Title\n\n{numbered}"
    assert read_html(data, URL).text == "| Name | Age |\n| --- | --- |\n| Ada | 36 |"


def test_the_main_part_is_shown_where_it_holds_the_text_and_all_of_it_elsewhere() -> None:
    menu = "<div>" + "".join(f"<a href='/{name}'>Menu {name}</a> " for name in "abcdef") + "</div>"
    nav = f"<nav>{menu}</nav>"
    for mark in ("main", "article", "div role=main"):
        shown = read_html(f"{menu}<{mark}>{nav}{PROSE}<a href=/x>x</a></{mark.split()[0]}>", URL)
        assert (shown.text, shown.left_out) == (f"{PROSE}[x](https://example.org/x)", 12), mark
    weak = read_html(f"{menu}{nav}<main>Little</main><p>{PROSE}</p><div>{menu}</div>", URL)
    assert (weak.text, weak.left_out) == (f"Little\n\n{PROSE.strip()}", 18)
    links = read_html(f"<h1>Index</h1>{PROSE[:200]}{menu}{nav}", URL)
    assert (links.text.count("](https://example.org/"), links.left_out) == (12, 0)
    named = read_html(f"<p>{PROSE}</p><div class='menu sidebar banner'>Soup and bread</div>", URL)
    assert "Soup and bread" in named.text
    lost = read_html(f"<body role=navigation><p>{PROSE}</p></body>", URL)
    assert lost.text == PROSE.strip()
    within = read_html(f"<p>{PROSE}</p><ul>{''.join(f'<li><a href=/{one}>{one}</a>' for one in 'abcdef')}</ul>", URL)
    assert (within.text.count("](https://example.org/"), within.left_out) == (6, 0)
    unseen = "<p hidden>secret</p><div aria-hidden=true>secret</div><p style='display:none'>secret</p><script>secret"
    assert read_html(f"<p>{PROSE}</p>{unseen}", URL).text == PROSE.strip()
