"""Answers: what becomes text, JSON, an image or a sentence, and where they are cut."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator

import httpx2
import pytest

from toolstead.tools.handlers.http_answer import COUNTED, ERROR_SHOWN, read_answer
from toolstead.tools.handlers.secrets import Mask
from toolstead.types.content import Image, Text
from toolstead.types.result import ToolResult

pytestmark = pytest.mark.promise("R2")

SECRET = 'pass"word/+ü='
MASK = Mask((SECRET,))


class Stream(httpx2.AsyncByteStream):
    """A body that comes in parts, and counts how many were taken."""

    def __init__(self, *parts: bytes, endless: bool = False) -> None:
        self.parts = parts
        self.endless = endless
        self.taken = 0

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        while True:
            for part in self.parts:
                self.taken += 1
                yield part
            if not self.endless:
                return


async def answer(
    body: bytes | Stream,
    content_type: str = "text/plain",
    *,
    status: int = 200,
    limit: int = 1_000,
    mask: Mask | None = None,
    method: str = "GET",
    **headers: str,
) -> ToolResult:
    named = {"content-type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(
        status,
        headers={name: value for name, value in named.items() if value},
        stream=body if isinstance(body, Stream) else Stream(body),
        request=httpx2.Request("GET", "https://a.example/"),
    )
    return await read_answer(response, method=method, limit=limit, mask=mask or Mask())


@pytest.mark.parametrize("kind", ["application/json", "application/problem+json; charset=utf-8", "TEXT/JSON"])
async def test_json_is_text_as_it_is_and_a_value(kind: str) -> None:
    result = await answer(b'{ "a" : [1, 2.50] }', kind)
    assert result.text == '{ "a" : [1, 2.50] }'
    assert result.structured == {"a": [1, 2.5]}
    assert not result.is_error


@pytest.mark.parametrize(
    "body",
    [
        b"{not json",
        b"NaN",
        b'{"a": Infinity}',
        b'"\\ud800"',
        b"1e999",
        b"[" * 200 + b"]" * 200,
        b"[" * 400_000,
        b"\xff",
    ],
)
async def test_json_that_not_every_door_could_pass_on_is_text_alone(body: bytes) -> None:
    result = await answer(body, "application/json", limit=1_000_000)
    assert result.structured is None
    assert result.text[:50] == body.decode("utf-8", "replace")[:50]


async def test_json_with_a_byte_order_mark_is_json() -> None:
    assert (await answer(b'\xef\xbb\xbf{"a":1}', "application/json")).structured == {"a": 1}


async def test_json_above_the_limit_is_text_with_a_note_and_no_value() -> None:
    result = await answer(json.dumps(["x" * 5_000]).encode(), "application/json", limit=1_000)
    assert result.structured is None
    assert result.text.startswith('["xxx')
    assert "bytes more, left out]" in result.text


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("grün".encode(), "text/plain", "grün"),
        ("grün".encode("latin-1"), "text/plain; charset=iso-8859-1", "grün"),
        ("grün".encode("cp1252"), 'text/html; charset="windows-1252"', "grün"),
        ("日本".encode("shift_jis"), "text/plain;charset=Shift_JIS", "日本"),
        ("grün".encode("utf-16"), "text/plain; charset=utf-16", "grün"),
        ("grün".encode(), "text/plain; charset=nonsense", "grün"),
        ("grün".encode(), "text/plain; charset=punycode", "grün"),
        (b"abc", "text/plain; charset=zlib", "abc"),
        (b"a\xffb", "text/plain", "a�b"),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        (b"a: 1", "application/yaml", "a: 1"),
        (b"plain", "", "plain"),
        (b"plain", "nonsense", "plain"),
        (b"plain", "application/x-own; charset=utf-8", "plain"),
    ],
)
async def test_text_is_decoded_by_its_charset(body: bytes, kind: str, text: str) -> None:
    result = await answer(body, kind)
    assert (result.text, result.structured) == (text, None)


async def test_an_image_is_an_image() -> None:
    result = await answer(b"\x89PNG....", "image/png; charset=utf-8")
    assert result.content == (Image(data=b"\x89PNG....", mime_type="image/png"),)


async def test_an_image_just_above_the_limit_is_a_sentence_whatever_room_a_mask_needs() -> None:
    result = await answer(b"\x89" * 1_001, "image/png", limit=1_000, mask=MASK)
    assert result.content == (Text("[toolstead: image/png, 1,001 bytes: more than the 1,000 that are shown]"),)


async def test_an_image_above_the_limit_is_a_sentence() -> None:
    result = await answer(b"\x89PNG" * 500, "image/png", limit=1_000)
    assert result.content == (Text("[toolstead: image/png, 2,000 bytes: more than the 1,000 that are shown]"),)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"%PDF", "application/pdf", "application/pdf, 4 bytes"),
        (b"\0\1", "application/octet-stream; charset=utf-8", "application/octet-stream, 2 bytes"),
        (b"\0\1", "", "data without a type, 2 bytes"),
        (b"\xff\xfe", "no/such/<type>", "data without a type, 2 bytes"),
    ],
)
async def test_other_data_is_a_sentence_with_type_and_size(body: bytes, kind: str, said: str) -> None:
    assert (await answer(body, kind)).text == f"[toolstead: {said}: neither text nor an image]"


@pytest.mark.parametrize(("status", "text"), [(200, "HTTP 200 OK"), (204, "HTTP 204 No Content"), (299, "HTTP 299")])
async def test_an_answer_without_a_body_says_its_status(status: int, text: str) -> None:
    assert (await answer(b"", status=status)).text == f"{text} (no body)"


async def test_a_status_of_400_and_above_is_an_error_with_the_bodys_beginning() -> None:
    result = await answer(b'{"error": "gone"}', "application/json", status=404)
    assert result.is_error
    assert result.text == 'HTTP 404 Not Found\n{"error": "gone"}'
    assert result.structured is None
    large = await answer(b"x" * 100_000, status=500, limit=200_000)
    assert large.is_error
    assert large.text.startswith("HTTP 500 Internal Server Error\nxxx")
    assert len(large.text) < ERROR_SHOWN + 100
    assert "bytes more, left out]" in large.text


async def test_an_error_without_a_body_is_its_status_alone() -> None:
    assert (await answer(b"", status=599)).text == "HTTP 599"


async def test_head_shows_the_headers_and_no_cookies() -> None:
    result = await answer(b"", "text/html", method="HEAD", set_cookie="a=b", etag='"x"')
    assert result.text == 'HTTP 200 OK\ncontent-type: text/html\netag: "x"'
    assert (await answer(b"", method="HEAD", status=404)).is_error


@pytest.mark.parametrize("size", [1_000, 1_001, 5_000])
async def test_text_above_the_limit_keeps_its_head_and_says_how_much_is_missing(size: int) -> None:
    result = await answer(b"x" * size, limit=1_000)
    head, _, note = result.text.partition("\n")
    if size == 1_000:
        assert (head, note) == ("x" * size, "")
        return
    assert len(result.text) <= 1_000
    assert set(head) == {"x"}
    assert note == f"[toolstead: {size - len(head):,} bytes more, left out]"


async def test_an_endless_body_is_counted_up_to_a_bound_and_then_left() -> None:
    stream = Stream(b"x" * 65_536, endless=True)
    result = await answer(stream, limit=1_000)
    assert stream.taken == COUNTED // 65_536 + 1
    assert "at least 1," in result.text


async def test_the_size_the_server_said_is_believed_where_it_is_larger() -> None:
    stream = Stream(b"x" * 65_536, endless=True)
    assert "9,999,1" in (await answer(stream, limit=1_000, content_length="10000000")).text
    assert "at least" in (await answer(Stream(b"x" * 65_536, endless=True), content_length="9" * 5_000)).text


async def test_the_size_of_a_compressed_body_is_not_the_size_of_the_text() -> None:
    bomb = gzip.compress(b"x" * 5_000_000)
    result = await answer(bomb, content_encoding="gzip", content_length="900000000")
    assert "at least" in result.text


async def test_a_character_that_is_cut_in_two_is_left_out() -> None:
    result = await answer("ü".encode() * 1_000, limit=1_001)
    assert "�" not in result.text


@pytest.mark.promise("R8")
@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
@pytest.mark.parametrize(
    "spelled",
    [
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(SECRET).replace("/", "\\/"),
        '"pass\\u0022word\\u002F\\u002b\\u00FC\\u003D"',
        '"pass%22word%2F%2b%C3%bc%3D"',
    ],
)
async def test_a_secret_is_masked_however_it_is_spelled(kind: str, spelled: str) -> None:
    result = await answer(f'{{"echo": {spelled}}}'.encode(), kind, mask=MASK)
    assert result.text == '{"echo": "********"}'
    assert result.structured == ({"echo": "********"} if kind == "application/json" else None)


@pytest.mark.promise("R8")
async def test_a_secret_that_is_a_number_is_masked_in_json_too() -> None:
    result = await answer(b'{"echo": 1234567890}', "application/json", mask=Mask(("1234567890",)))
    assert result.text == '{"echo": ********}'
    assert result.structured is None


@pytest.mark.promise("R8")
@pytest.mark.parametrize("offset", range(0, 40, 3))
@pytest.mark.parametrize("status", [200, 500])
async def test_no_part_of_a_secret_is_left_where_a_text_is_cut(offset: int, status: int) -> None:
    secret = "0123456789abcdef"
    for body in (b"x" * (880 + offset) + secret.encode() * 50, (b"x" * offset) + secret.encode() * 1_000):
        result = await answer(Stream(body), status=status, limit=1_000, mask=Mask((secret,)))
        shown = result.text.partition("[toolstead")[0].removeprefix("HTTP 500 Internal Server Error")
        assert not set(shown) & set(secret), shown


@pytest.mark.promise("R8")
async def test_a_secret_in_the_headers_of_a_head_is_masked() -> None:
    result = await answer(b"", method="HEAD", etag="0123456789", mask=Mask(("0123456789",)))
    assert "etag: ********" in result.text
