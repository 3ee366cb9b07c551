"""URL templates: where placeholders may stand, and that a value stays in its place."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstead.errors import RefusedError, ToolError
from toolstead.tools.handlers.http_url import Url, load_url, parse_url, query_pairs
from toolstead.tools.handlers.template import LONGEST_VALUE, TemplateError

pytestmark = [pytest.mark.promise("R2"), pytest.mark.promise("R8")]

NAMES = ["url", "id", "q", "name"]


def filled(template: str, **values: Any) -> str:
    return str(load_url(template, NAMES).fill_url(values))


@pytest.mark.parametrize(
    ("template", "values", "url"),
    [
        ("https://a.example/things/{{id}}", {"id": "7"}, "https://a.example/things/7"),
        ("https://a.example/things/{{ id }}", {"id": 7}, "https://a.example/things/7"),
        ("https://a.example/{{id}}", {"id": True}, "https://a.example/true"),
        ("https://a.example/{{id}}", {"id": None}, "https://a.example/null"),
        ("https://a.example/{{id}}", {"id": [1, "b"]}, "https://a.example/%5B1%2C%22b%22%5D"),
        ("https://a.example/{{id}}", {"id": {"a": 1}}, "https://a.example/%7B%22a%22%3A1%7D"),
        ("https://a.example/{{id}}", {"id": "a/b"}, "https://a.example/a%2Fb"),
        ("https://a.example/{{id}}", {"id": "a?b#c&d=e;f"}, "https://a.example/a%3Fb%23c%26d%3De%3Bf"),
        ("https://a.example/{{id}}", {"id": "50%2F"}, "https://a.example/50%252F"),
        ("https://a.example/{{id}}", {"id": "a b+c"}, "https://a.example/a%20b%2Bc"),
        ("https://a.example/{{id}}", {"id": "ü\n\\@:"}, "https://a.example/%C3%BC%0A%5C%40%3A"),
        ("https://a.example/{{id}}", {"id": "A-z.0_9~"}, "https://a.example/A-z.0_9~"),
        ("https://a.example/v{{id}}.json", {"id": "..."}, "https://a.example/v....json"),
        ("https://a.example/{{id}}-{{q}}", {"id": "a", "q": "b"}, "https://a.example/a-b"),
        ("https://a.example/s?q={{q}}&n=1", {"q": "a&n=2#x"}, "https://a.example/s?q=a%26n%3D2%23x&n=1"),
        ("https://a.example?q={{q}}", {"q": ".."}, "https://a.example/?q=.."),
        ("https://a.example/?{{name}}={{q}}", {"name": "a=b", "q": ""}, "https://a.example/?a%3Db="),
        ("https://a.example/a?b?c={{q}}", {"q": 1}, "https://a.example/a?b?c=1"),
        ("https://a.example/ü/{{id}}?ö", {"id": 1}, "https://a.example/%C3%BC/1?%C3%B6"),
        ("https://a.example/a/../{{id}}/", {"id": "x"}, "https://a.example/a/../x/"),
        ("HTTPS://A.example:443", {}, "https://a.example/"),
        ("http://A.example:8080/x", {}, "http://a.example:8080/x"),
        ("http://[::1]:8080/x", {}, "http://[::1]:8080/x"),
        ("{{url}}/health", {"url": "https://a.example"}, "https://a.example/health"),
        ("{{url}}/health", {"url": "https://a.example/"}, "https://a.example/health"),
        ("{{url}}/health", {"url": "HTTP://A.example:8080/base//"}, "http://a.example:8080/base/health"),
        (
            "{{url}}/{{id}}?q={{url}}",
            {"url": "http://a.example", "id": "/"},
            "http://a.example/%2F?q=http%3A%2F%2Fa.example",
        ),
        ("{{url}}?q={{q}}", {"url": "http://a.example/b", "q": "?"}, "http://a.example/b?q=%3F"),
        ("{{url}}", {"url": "http://[::1]:81/x"}, "http://[::1]:81/x"),
        ("{{url}}", {"url": "http://a.example"}, "http://a.example/"),
    ],
)
def test_a_value_is_encoded_for_its_place(template: str, values: dict[str, Any], url: str) -> None:
    assert filled(template, **values) == url


@pytest.mark.parametrize("template", ["https://a.example/x/{{id}}/y", "https://a.example/x/{{id}}"])
@pytest.mark.parametrize("value", ["", ".", "..", "../..", "../etc", "a/..", "a/../b", "./a", "..\\a", "a\\.."])
def test_a_value_that_would_climb_or_vanish_is_refused(template: str, value: str) -> None:
    with pytest.raises(RefusedError, match="'id' would change the address"):
        filled(template, id=value)


@pytest.mark.parametrize(
    ("template", "value"), [("https://a.example/{{id}}.", "."), ("https://a.example/%2e{{id}}", ".")]
)
def test_dots_that_add_up_are_refused(template: str, value: str) -> None:
    with pytest.raises(RefusedError, match="'id' would change the address"):
        filled(template, id=value)


@pytest.mark.parametrize(
    "value",
    [
        "a.example",
        "//a.example",
        "/x",
        "",
        "ftp://a.example",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "gopher://a.example",
        "https:/a.example",
        "https://",
        "https:///x",
        "https://user@a.example",
        "https://user:password@a.example",
        "https://good.example@127.0.0.1",
        "https://a.example?x=1",
        "https://a.example/?",
        "https://a.example#f",
        "https://a.example\\@b.example",
        "https://a.example\\.b.example",
        "https://a.example/x\\y",
        "https://a.example/a b",
        "https://a.example\t/x",
        "https://a.example\r\nHost: b",
        " https://a.example",
        "https://a.example:0",
        "https://a.example:65536",
        "https://a.example:8080:9090",
        "https://a.example:x",
        "https://[::1",
        "https://::1",
        "https://a%2eexample",
        "https://a_b c",
        "https://1.2.3.4.5",
        7,
        None,
        ["https://a.example"],
    ],
)
def test_an_origin_that_is_more_or_less_than_an_origin_is_refused(value: Any) -> None:
    with pytest.raises(RefusedError, match="'url' must be scheme://host"):
        filled("{{url}}/health", url=value)


@pytest.mark.parametrize("template", ["{{url}}/health", "https://a.example/{{url}}", "https://a.example/?q={{url}}"])
def test_a_missing_parameter_is_named(template: str) -> None:
    with pytest.raises(ToolError, match="'url' is missing"):
        filled(template)


@pytest.mark.parametrize("template", ["{{url}}/health", "https://a.example/{{url}}", "https://a.example/?q={{url}}"])
@pytest.mark.parametrize(("value", "why"), [("a\0b", "null byte"), ("x" * (LONGEST_VALUE + 1), "characters long")])
def test_null_bytes_and_over_long_values_are_refused(template: str, value: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        filled(template, url=value)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ToolError, match="surrogate"):
        filled("https://a.example/{{id}}", id="\ud800")


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("", "it is empty"),
        ("/health", "begins with http:// or https://"),
        ("a.example/x", "begins with http:// or https://"),
        ("//a.example/x", "begins with http:// or https://"),
        ("ftp://a.example/", "does not begin with http"),
        ("file:///etc/passwd", "does not begin with http"),
        ("https:///x", "is no host name"),
        ("https://user:pass@a.example/", "user info"),
        ("https://a b.example/", "blanks and control"),
        ("https://a.example/a b", "blanks and control"),
        ("https://a.example:99999/", "is no host with an optional port"),
        ("https://1.2.3.4.5/", "no IPv4 address"),
        ("https://{{url}}/x", r"\{\{url\}\} stands in the user info, host or port"),
        ("https://{{name}}.example/x", r"\{\{name\}\} stands in the user info, host or port"),
        ("https://a.example{{id}}/x", r"\{\{id\}\} stands in the user info, host or port"),
        ("https://a.example:{{id}}/x", r"\{\{id\}\} stands in the user info, host or port"),
        ("https://{{name}}:{{id}}@a.example/x", r"\{\{name\}\} stands in the user info, host or port"),
        ("https://{{name}}@a.example/x", r"\{\{name\}\} stands in the user info, host or port"),
        ("{{name}}://a.example/x", "a / must follow"),
        ("{{url}}{{id}}", "a / must follow"),
        ("{{url}}health", "a / must follow"),
        ("{{url}}.example/x", "a / must follow"),
        ("{{url}}#x", "a / must follow"),
        ("x{{url}}/health", "begins with http:// or https://"),
        ("https://a.example/#{{id}}", "a fragment"),
        ("https://a.example/x#y", "a fragment"),
        ("https://a.example/?q={{q}}#y", "a fragment"),
        ("https://a.example/{{idd}}", r"\{\{idd\}\} is no property of the inputSchema; did you mean \{\{id\}\}\?"),
        ("https://a.example/{{zzz}}", "there are: url, id, q, name"),
        ("https://a.example/{{id", "never closed"),
        ("https://a.example/{{}}", "empty placeholder"),
        ("https://a.example/${TOKEN}", "secrets belong in headers"),
        ("https://a.example/?t=${TOKEN}", "secrets belong in headers"),
    ],
)
def test_a_template_that_could_lead_anywhere_is_a_load_error(template: str, why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        load_url(template, NAMES)


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@given(value=ANY_TEXT)
def test_no_value_changes_the_structure_of_an_address(value: str) -> None:
    try:
        url = filled("https://a.example:8443/x/{{id}}/y?a={{id}}&b=1", id=value)
    except RefusedError:
        assert not value or "." in value
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "a.example:8443", "")
    before, segment, after = parts.path.removeprefix("/").split("/")
    assert (before, unquote(segment), after) == ("x", value, "y")
    assert parse_qsl(parts.query, keep_blank_values=True) == [("a", value), ("b", "1")]


@given(value=ANY_TEXT)
def test_an_origin_is_an_http_origin_or_refused(value: str) -> None:
    for text in (value, f"http://{value}", f"https://a.example{value}"):
        try:
            url = load_url("{{url}}/health", NAMES).fill_url({"url": text})
        except RefusedError:
            continue
        assert url.scheme in {"http", "https"}
        assert url.path.endswith("/health")
        assert url.query is None
        assert parse_url(str(url)) == url


def test_arguments_become_a_query() -> None:
    pairs = query_pairs(
        {"a": "x y", "b": [1, "two", None, [3]], "c": {"d": "ü"}, "e": True, "f": 1.5, "g": [], "h": None}
    )
    url = Url(scheme="https", host="a.example", port=443).with_query(pairs)
    assert url.query == ("a=x%20y&b=1&b=two&b=null&b=%5B3%5D&c=%7B%22d%22%3A%22%C3%BC%22%7D&e=true&f=1.5&h=null")


def test_a_query_is_added_to_the_one_that_is_there() -> None:
    assert str(parse_url("http://a.example/x?y=1").with_query([("z", "2&")])) == "http://a.example/x?y=1&z=2%26"
    assert str(parse_url("http://a.example/x?").with_query([("z", "2")])) == "http://a.example/x?z=2"
    assert str(parse_url("http://a.example/x?y").with_query([])) == "http://a.example/x?y"


@pytest.mark.parametrize("value", ["a\0b", "x" * (LONGEST_VALUE + 1), ["ok", "a\0b"]])
def test_a_query_takes_no_null_bytes_and_no_over_long_values(value: Any) -> None:
    with pytest.raises(ToolError):
        query_pairs({"a": value})
