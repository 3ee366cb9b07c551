"""Secrets are taken at the time of the call, and are in nothing that is shown, however they arrive."""

from __future__ import annotations

import base64
import itertools
import json
import random
from urllib.parse import quote

import pytest

from toolstead.errors import ToolError
from toolstead.tools.handlers.secrets import MASK, REFERENCE, Mask, MaskedStream, expand_secrets, too_short

pytestmark = pytest.mark.promise("R2")

TOKEN = "ghp_s3cr3t+t0k/n=="


def mask(*values: str) -> Mask:
    names = [f"S{number}" for number in range(len(values))]
    return Mask.mask_names(names, dict(zip(names, values, strict=True)))


def streamed(using: Mask, parts: list[bytes]) -> str:
    stream = MaskedStream(using)
    return b"".join([*(stream.filter_part(part) for part in parts), stream.filter_end()]).decode()


def test_references_are_replaced_and_an_unset_one_is_named() -> None:
    assert REFERENCE.findall("Bearer ${A} ${B_2} $C ${} ${2D} {E}") == ["A", "B_2"]
    assert expand_secrets("x${A}y${A}", {"A": "${B}", "B": "never"}) == "x${B}y${B}"
    with pytest.raises(
        ToolError, match=r"the environment variable NOPE is not set where Toolstead runs; .*export NOPE=…"
    ):
        expand_secrets("${A}${NOPE}", {"A": "1"})
    with pytest.raises(ToolError, match="EMPTY is not set"):  # an empty one is no secret
        expand_secrets("${EMPTY}", {"EMPTY": ""})


def test_short_ones_are_told_and_not_masked() -> None:
    environ = {"SHORT": "1234567", "LONG": "12345678", "EMPTY": ""}
    assert too_short(["SHORT", "LONG", "EMPTY", "UNSET"], environ) == ["SHORT"]
    assert Mask.mask_names(["SHORT", "EMPTY", "UNSET"], environ).values == ()
    assert Mask.mask_names(["LONG"], environ)("a12345678b1234567") == f"a{MASK}b1234567"


@pytest.mark.parametrize(
    "spelling",
    [
        TOKEN,
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN).replace("/", "\\/")[1:-1],
        quote(TOKEN),
        quote(TOKEN, safe=""),
        quote(TOKEN, safe="").lower(),
        "".join(f"\\u{ord(character):04x}" for character in TOKEN),
        "".join(f"%{ord(character):02X}" for character in TOKEN),
    ],
)
def test_a_secret_is_masked_in_every_spelling_of_json_and_addresses(spelling: str) -> None:
    using = mask(TOKEN)
    assert using(f"a {spelling} b {spelling}") == f"a {MASK} b {MASK}"
    for at in range(len(spelling) + 1):
        assert streamed(using, [b"a ", spelling[:at].encode(), spelling[at:].encode(), b" b"]) == f"a {MASK} b"


@pytest.mark.parametrize("secret", ["pass\tword\tlong", 'quo"ted\\back', "ümläut-€-😀-x", "line\r\nbreak-in"])
def test_secrets_with_odd_characters_are_masked_as_they_are_and_as_json(secret: str) -> None:
    using = mask(secret)
    assert using(f"<{secret}>") == f"<{MASK}>"
    for ascii_only in (True, False):
        written = json.dumps({"a": secret, "b": 1}, ensure_ascii=ascii_only)
        assert using(written) == f'{{"a": "{MASK}", "b": 1}}'


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        (["abcdefgh", "efghijkl"], "<abcdefghijkl>", f"<{MASK}>"),
        (["efghijkl", "abcdefgh"], "<abcdefghijkl>", f"<{MASK}>"),
        (["abcdefgh", "abcdefghijkl"], "<abcdefghijkl> <abcdefgh>", f"<{MASK}> <{MASK}>"),
        (["abcdefghijkl", "cdefghij"], "<abcdefghijkl>", f"<{MASK}>"),
        (["abababab"], "<abababababab>", f"<{MASK}>"),
        (["aaaaaaaa"], "<" + "a" * 100 + ">", f"<{MASK}>"),
        (["abcdefgh"], "abcdefghabcdefgh", f"{MASK}{MASK}"),
        (["********x"], "********x", MASK),
        (["short-1\nshort-2"], "<short-1\nshort-2>\n", f"<{MASK}>\n"),
        (["ab\nab\nabcd"], "ab\nab\nab\nabcd\nab\nab\n", f"ab\n{MASK}\nab\nab\n"),
        (["ab\nab\nabcd", "\nab\nabcd\nxx"], "ab\nab\nabcd\nxx", MASK),
    ],
)
def test_where_secrets_overlap_nothing_of_either_is_left(secrets: list[str], text: str, shown: str) -> None:
    using = mask(*secrets)
    assert using(text) == shown
    for size in range(1, len(text) + 1):
        parts = [text[at : at + size].encode() for at in range(0, len(text), size)]
        assert streamed(using, parts).replace(MASK * 2, MASK) == shown.replace(MASK * 2, MASK)


def test_a_secret_of_several_lines_is_masked_line_by_line_too() -> None:
    key = "-----BEGIN KEY-----\n" + "\n".join(base64.b64encode(bytes([n] * 30)).decode() for n in range(4)) + "\nend"
    using = mask(key)
    assert using(f"<{key}>") == f"<{MASK}>"
    for line in key.splitlines()[:-1]:
        assert using(f"a {line} b") == f"a {MASK} b"
    assert using("the end of it") == "the end of it"
    shown = streamed(using, [f"{line}\n".encode() for line in key.splitlines()])
    assert not any(line in shown for line in key.splitlines()[:-1])
    assert json.dumps(key)[1:-1] not in using(json.dumps({"key": key}))


def test_a_secret_that_is_no_text_is_masked_in_what_is_shown_of_it() -> None:
    secret = b"caf\xe9-secret\xff".decode("utf-8", "surrogateescape")
    shown = b"caf\xe9-secret\xff".decode("utf-8", "replace")
    assert mask(secret)(f"<{shown}>") == f"<{MASK}>"
    assert streamed(mask(secret), [b"<caf\xe9-sec", b"ret\xff>"]) == f"<{MASK}>"


def test_a_secret_in_any_pieces_is_never_shown_and_everything_else_is() -> None:
    chance = random.Random(11)
    secrets = ["s3cr3t-one", "s3cr3t-two", "one-s3cr3t"]
    using = mask(*secrets)
    for _ in range(400):
        words = [chance.choice([*secrets, "s3cr3t", "one", "-", "\n", "x", "é", "%", "\\", "s3cr3t-on", "two"])]
        words += chance.choices([*secrets, "s3cr3t", "-", "\n", "s", "s3cr3", "%", "é"], k=chance.randint(0, 12))
        text = "".join(words)
        data = text.encode()
        cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.randint(0, 8)))
        parts = [data[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(data)])]
        shown = streamed(using, parts)
        assert not any(secret in shown for secret in secrets)
        assert shown.replace(MASK, "") == using(text).replace(MASK, "")


def test_lines_are_not_held_back_longer_than_until_they_end() -> None:
    stream = MaskedStream(mask(TOKEN))
    assert stream.filter_part(b"first\nsec") == b"first\n"
    assert stream.filter_part(b"ond\n") == b"second\n"
    assert stream.filter_part(f"{TOKEN}\n".encode()) == f"{MASK}\n".encode()


def test_what_is_held_back_is_bounded() -> None:
    using = mask(TOKEN, "aaaaaaaa")
    for filler in (b"x", b"a", b"%", b"gh", b"\\u0067"):
        stream = MaskedStream(using)
        fed = 0
        for _ in range(200):
            stream.filter_part(filler * 1_000)
            fed += len(filler) * 1_000
        assert len(stream._held) <= 3 * using.longest
        stream.filter_end()


def test_a_character_that_is_never_finished_is_shown_as_such() -> None:
    assert streamed(mask(TOKEN), [b"a\xe2\x82", b"\xac b\xc3"]) == "a\u20ac b\ufffd"


def test_without_secrets_nothing_changes() -> None:
    assert Mask()("${A} ******** \\u0041 %41") == "${A} ******** \\u0041 %41"
    assert Mask().longest == 0
