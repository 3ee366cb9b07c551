"""Loading an http handler: what is refused in its file, what a preview shows, and which request a call makes."""

from __future__ import annotations

import datetime
import email.utils
from typing import Any

import pytest

from tests.flows.http_internet import handler_for
from toolstead.errors import RefusedError, SettingsError, ToolError
from toolstead.tools.handlers.http import METHODS, HttpHandler, retry_after
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.handlers.template import TemplateError

pytestmark = pytest.mark.promise("R2")

CLIENT = GuardedClient()
SITE = "https://a.example/x"


def loaded(url: str = SITE, **options: Any) -> HttpHandler:
    return handler_for(CLIENT, url, **options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"method": "FETCH"}, r'"method": \'FETCH\' is no method; did you mean PATCH\?'),
        ({"method": "CONNECT"}, '"method"'),
        ({"timeout": 0}, '"timeout": a time above 0'),
        ({"timeout": float("nan")}, '"timeout"'),
        ({"url": "https://a.example/{{idd}}", "properties": ["id"]}, r'"url": \{\{idd\}\} .*\{\{id\}\}'),
        ({"headers": {"X-A": "{{id}}"}, "properties": ["id"]}, "'X-A' has a placeholder"),
        ({"headers": {"X A": "b"}}, "is not a header name"),
        ({"headers": {"X-${A}": "b"}}, "is not a header name"),
        ({"headers": {"X-A": "b\r\nX-B: c"}}, "'X-A' holds a line break"),
        ({"headers": {"X-A": "ü"}}, "beyond ASCII"),
        ({"headers": {"X-A": "a\0"}}, "'X-A' holds"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "'x-a' is given twice"),
        ({"headers": {"X-A": "${A-B}"}}, "names no environment variable"),
        ({"headers": {"X-A": "${A} ${"}}, "names no environment variable"),
        ({"headers": {"Content-Type": "text/plain"}}, "the body is JSON"),
        ({"allowed_hosts": ["http://localhost"]}, '"allowedHosts": .*without scheme|"allowedHosts": .*neither'),
        ({"allowed_hosts": ["*.corp"]}, '"allowedHosts": .*wildcard'),
        ({"hosts": ["a b"]}, r"\[tools\] allowed_hosts: "),
        (
            {"url": "{{url}}/x", "properties": ["url"], "headers": {"X-A": "${TOKEN}"}},
            r"\{\{url\}\} decides who gets it",
        ),
        ({"url": "{{url}}/x", "properties": ["url"], "headers": {"Authorization": "Bearer x"}}, "decides who gets it"),
        (
            {"url": "{{url}}/x", "properties": ["url"], "headers": {"X-A": "${T}"}, "hosts": ["a.example"]},
            "decides who",
        ),
    ],
)
def test_what_could_not_work_is_a_load_error(options: dict[str, Any], why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        loaded(**options)


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "Proxy-Authorization"])
def test_headers_that_are_not_the_tools_to_say_are_a_load_error(name: str) -> None:
    with pytest.raises(TemplateError, match="set by toolstead itself"):
        loaded(headers={name: "x"})


@pytest.mark.parametrize("method", [*METHODS, "get"])
def test_methods_are_taken_in_either_case(method: str) -> None:
    assert loaded(method=method).method == method.upper()


def test_the_method_is_post_and_the_time_ten_seconds_unless_said() -> None:
    handler = loaded()
    assert (handler.method, handler.config.timeout) == ("POST", 10.0)


@pytest.mark.parametrize(
    ("method", "input", "url", "body"),
    [
        ("POST", {"id": "7", "a": 1, "b": [1]}, "https://a.example/7", {"a": 1, "b": [1]}),
        ("POST", {"id": "7"}, "https://a.example/7", {}),
        ("PUT", {"id": "7", "a": None}, "https://a.example/7", {"a": None}),
        ("PATCH", {"id": "7"}, "https://a.example/7", {}),
        ("DELETE", {"id": "7"}, "https://a.example/7", None),
        ("DELETE", {"id": "7", "why": "x"}, "https://a.example/7", {"why": "x"}),
        (
            "GET",
            {"id": "7", "a": [1, 2], "b": {"c": 1}, "d": True},
            "https://a.example/7?a=1&a=2&b=%7B%22c%22%3A1%7D&d=true",
            None,
        ),
        ("HEAD", {"id": "7", "a": 1}, "https://a.example/7?a=1", None),
    ],
)
def test_a_preview_shows_the_request(method: str, input: dict[str, Any], url: str, body: Any) -> None:
    handler = loaded("https://a.example/{{id}}", properties=["id"], method=method)
    assert handler.preview_call(input) == {"method": method, "url": url, "headers": {}, "body": body}


def test_a_preview_masks_secrets_and_needs_none() -> None:
    handler = loaded(headers={"Authorization": "Bearer ${TOKEN}", "X-A": "b"})
    assert handler.preview_call({})["headers"] == {"Authorization": "Bearer ********", "X-A": "b"}


def test_a_preview_refuses_what_a_call_would_refuse() -> None:
    with pytest.raises(RefusedError):
        loaded("https://a.example/{{id}}", properties=["id"]).preview_call({"id": ".."})


def test_the_same_text_loads_to_an_equal_handler() -> None:
    assert loaded(headers={"X-A": "${T}"}) == loaded(headers={"X-A": "${T}"})
    assert loaded() != loaded(method="GET")


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX: y", "ü", "a\0"])
async def test_a_secret_that_no_header_can_hold_is_named_and_not_shown(value: str) -> None:
    handler = loaded(headers={"X-A": "${TOKEN}"}, environ={"TOKEN": value})
    with pytest.raises(ToolError, match="header X-A cannot be sent: TOKEN holds") as caught:
        handler._build_request({})
    assert value not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\ud800"])
async def test_arguments_that_are_no_json_are_a_sentence(value: Any) -> None:
    with pytest.raises(ToolError, match="cannot be sent as JSON"):
        loaded()._build_request({"a": value})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("120", 120), (" 7 ", 7), ("-1", None), ("1.5", None), ("soon", None), ("", None), ("٣", None)],
)
def test_retry_after_is_seconds_or_nothing(text: str, seconds: float | None) -> None:
    assert retry_after(text) == seconds


def test_retry_after_may_be_a_date() -> None:
    now = datetime.datetime.now(datetime.UTC)
    later = email.utils.format_datetime(now + datetime.timedelta(hours=1), usegmt=True)
    assert 3_500 < (retry_after(later) or 0) <= 3_600
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 -0000") == 0


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "127.0.0.1:3128", "ftp://secret:word@proxy"])
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(proxy: str) -> None:
    with pytest.raises(SettingsError, match="begins with http:// or https://") as caught:
        GuardedClient(proxy=proxy)
    assert "word" not in str(caught.value)
