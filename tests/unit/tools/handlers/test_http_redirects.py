"""Which request follows a redirect: the method, the headers and the body, as browsers do it or stricter."""

from __future__ import annotations

import pytest

from toolstead.errors import RefusedError
from toolstead.tools.handlers.http_client import OutgoingRequest, follow_redirect
from toolstead.tools.handlers.http_url import parse_url

pytestmark = pytest.mark.promise("R8")

SECRET = {"Authorization": "Bearer x"}


def request(method: str = "GET", url: str = "https://a.example/x", body: bytes | None = None) -> OutgoingRequest:
    return OutgoingRequest(method=method, url=parse_url(url), headers=SECRET, body=body)


@pytest.mark.parametrize(
    ("status", "method", "becomes"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "DELETE", "GET"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (301, "HEAD", "HEAD"),
        (303, "HEAD", "HEAD"),
        (303, "GET", "GET"),
        (307, "POST", "POST"),
        (308, "PATCH", "PATCH"),
        (307, "GET", "GET"),
    ],
)
def test_the_method_changes_as_in_a_browser(status: int, method: str, becomes: str) -> None:
    body = None if method in {"GET", "HEAD"} else b"{}"
    then = follow_redirect(request(method, body=body), status, "/y")
    assert then.method == becomes
    assert then.body == (body if becomes == method else None)
    assert then.headers == SECRET
    assert str(then.url) == "https://a.example/y"


@pytest.mark.parametrize(
    "location", ["https://b.example/", "https://a.example:8443/", "https://sub.a.example/", "//b.example/"]
)
def test_headers_stay_behind_at_another_origin(location: str) -> None:
    assert follow_redirect(request(), 302, location).headers == {}


def test_headers_that_stayed_behind_do_not_come_back() -> None:
    there = follow_redirect(request(), 302, "https://b.example/")
    assert follow_redirect(there, 302, "https://a.example/").headers == {}


def test_headers_stay_behind_from_http_to_https() -> None:
    assert follow_redirect(request(url="http://a.example/"), 301, "https://a.example/").headers == {}


@pytest.mark.parametrize("location", ["http://a.example/", "http://b.example/", "http://a.example:443/"])
def test_from_https_to_http_is_refused(location: str) -> None:
    with pytest.raises(RefusedError, match="from https to http"):
        follow_redirect(request(), 302, location)


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("location", ["https://b.example/", "https://a.example:8443/"])
def test_a_body_is_not_taken_to_another_origin(status: int, location: str) -> None:
    with pytest.raises(RefusedError, match="a body is not sent on"):
        follow_redirect(request("POST", body=b"{}"), status, location)


def test_a_body_is_taken_from_http_to_https_of_the_same_host() -> None:
    then = follow_redirect(request("POST", "http://a.example/x", b"{}"), 308, "https://a.example/x")
    assert (then.method, then.body, then.headers) == ("POST", b"{}", {})
    with pytest.raises(RefusedError, match="a body is not sent on"):
        follow_redirect(request("POST", "http://a.example:8080/x", b"{}"), 308, "https://a.example/x")


@pytest.mark.parametrize(
    "location",
    [
        "ftp://b.example/",
        "https://u@b.example/",
        "https://u:p@127.0.0.1/",
        "javascript:alert(1)",
        "http://[::1",
        "http:///x",
    ],
)
def test_a_redirect_to_no_http_address_is_refused(location: str) -> None:
    with pytest.raises(RefusedError, match=r"a\.example redirects to an address that is refused"):
        follow_redirect(request(), 302, location)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/y", "http://a.example/y"),
        ("y?z=1#f", "http://a.example/b/y?z=1"),
        ("../y", "http://a.example/y"),
        ("//b.example/y", "http://b.example/y"),
        ("http://B.example:80/", "http://b.example/"),
        ("https://b.example/ü y", "https://b.example/%C3%BC%20y"),
        ("/\\b.example", "http://a.example/%5Cb.example"),
        ("", "http://a.example/b/c?d"),
    ],
)
def test_a_redirect_leads_where_a_browser_would_go(location: str, url: str) -> None:
    assert str(follow_redirect(request(url="http://a.example/b/c?d"), 302, location).url) == url
