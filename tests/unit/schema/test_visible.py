"""What is seen and what is not: real texts in many scripts pass, and nothing that is hidden does."""

from __future__ import annotations

import re

import pytest

from tests.flows.hidden_strings import HIDDEN, JOINED, SPACED, bits, tags
from toolstead.schema.visible import Kind, escape_unseen, find_unseen, first_unseen, is_plain

ZWNJ, ZWJ, TEXT, EMOJI = "\u200c", "\u200d", "\ufe0e", "\ufe0f"
VIRAMA = "\u094d"

SEEN_EVERYWHERE = [
    "list-todos",
    "A tool (with brackets), 100% plain: <b>&amp;</b> `code` ~ ^ | \\d+ $HOME",
    "Prüft die Größe übergroßer Äpfel – „ganz genau“.",
    "Façade, cœur, naïve, Ångström, Łódź, İstanbul",
    "Tiếng Việt: Nguyễn, đường, ngữ",
    "Tie\u0302\u0301ng Vie\u0323\u0302t",
    "Ελληνικά, Русский, Українська, Հայերեն, ქართული",
    "שלום עולם: קובץ 5",
    "שָׁלוֹם",
    "مرحبا بالعالم، ملف ٥",
    "اَلْعَرَبِيَّةُ",
    "हिन्दी में क्षमा",
    "বাংলা, தமிழ், తెలుగు, ಕನ್ನಡ, മലയാളം, සිංහල",
    "ภาษาไทย ภาษาลาว ພາສາລາວ ភាសាខ្មែរ မြန်မာ",
    "日本語のツール、ファイル。",
    "中文工具，读取文件。",
    "한국어 도구",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "አማርኛ, ꦗꦮ, ᠮᠣᠩᠭᠣᠯ, བོད་ཡིག",
    "x² ≤ √y ∑ → ∞ € ™ © ½",
    "┌─┐ ▁▂▃ ● ■",
    "⠓⠑⠇⠇⠕",
    "🚀 🎉 👍🏽 🇩🇪 🇺🇳",
    "\u0600\u0661\u0662 \u06dd\u0661",
    "\U0001fae8 and later emoji \U0001fadf \U0001faff",
    "\U0002ebf0\U000323b0",
    "replacement \ufffd",
]
SEEN_IN_PROSE = [
    "First line.\n\n\tIndented.\r\nLast.",
    "10\u202f000 € « très\u00a0bien »",
    "全角\u3000空白",
    f"\u0645\u06cc{ZWNJ}\u062e\u0648\u0627\u0647\u0645",
    f"\u06a9\u062a\u0627\u0628{ZWNJ}\u0647\u0627\u06cc \u062e\u0627\u0646\u0647{ZWNJ}\u0647\u0627",
    f"\u06a9\u0634\u0648\u0631{ZWNJ}\u0647\u0627",  # after a letter that joins to its right only
    f"\u0645\u0650\u06cc\u0652{ZWNJ}\u0634\u064e\u0648\u064e\u062f",  # with vowel signs between
    f"PDF{ZWNJ}\u0647\u0627, \u06f1\u06f0{ZWNJ}\u062a\u0627\u06cc\u06cc",
    f"\u0661\u0664\u0664\u0665 \u0647{ZWJ}.",
    f"\u0915{VIRAMA}{ZWJ}\u0937 \u0915{VIRAMA}{ZWNJ}\u0937",  # Hindi
    f"\u0936\u094d\u0930\u0940\u092e\u093e\u0928{VIRAMA}{ZWNJ} ",
    f"\u0917\u0930{VIRAMA}{ZWJ}\u092f\u094b",  # Nepali
    f"\u09b0{ZWJ}\u09cd\u09af\u09be\u09ae",  # Bengali: before the virama
    f"\u0d05\u0d35\u0d28\u0d4d{ZWJ}",  # Malayalam, older spelling
    f"\u0dc1\u0dca{ZWJ}\u0dbb\u0dd3 \u0dbd\u0d82\u0d9a\u0dcf",  # Sinhala
    f"\u0c95{ZWNJ}\u0ccd\u0cb7",  # Kannada
    f"\u1794{ZWNJ}\u17ca\u17b8",  # Khmer
    f"\u07d2{ZWNJ}\u07de \U0001e900{ZWJ}\U0001e901",  # N'Ko and Adlam
    f"\U0001f468{ZWJ}\U0001f469{ZWJ}\U0001f467{ZWJ}\U0001f466",
    f"\U0001f469\U0001f3fd{ZWJ}\U0001f680 \U0001f3f3{EMOJI}{ZWJ}\U0001f308 \U0001f3f4{ZWJ}\u2620{EMOJI}",
    f"\U0001f469\U0001f3fb{ZWJ}\u2764{EMOJI}{ZWJ}\U0001f48b{ZWJ}\U0001f468\U0001f3ff",
    f"\u2764{EMOJI}{ZWJ}\U0001f525 \U0001f9d1{ZWJ}\U0001f9d1{ZWJ}\U0001f9d2 \U0001f6b6{ZWJ}\u27a1{EMOJI}",
    f"\u26a0{EMOJI} \u2714{EMOJI} \u2139{EMOJI} \u2122{EMOJI} \u00a9{TEXT} \u25b6{TEXT} \u3030{EMOJI}",
    f"1{EMOJI}\u20e3 #{EMOJI}\u20e3 *{EMOJI}\u20e3 9\u20e3",
]
HARMLESS_IN_PROSE = [
    f"\u061f{ZWNJ}\u0647",
    f"\U0001f1e9{ZWJ}\U0001f1ea",
    f"\U0001f469{ZWNJ}\U0001f680",
    f"\u0647{ZWNJ} \u0647",
    f"\u0915{ZWJ}\u0937",
    f"e\u0301{ZWJ}a",
    f"1{TEXT}\u20e3",
    f"\u4e00{EMOJI}",
    f"\U0001f469\U0001f3fd{EMOJI}",
]
"""No word or emoji is spelt so, and no reader is misled by it."""
HIDDEN_IN_PROSE = [
    f"{ZWJ}\U0001f469",
    f"\U0001f469 {ZWJ}\U0001f680",
    f"a{EMOJI}{ZWJ}\U0001f680",
    f"\U0001f469{TEXT}{ZWJ}\U0001f680",
    f"\u0647{ZWJ}{ZWJ}\u0647",
    f"\u0647{ZWNJ}{ZWJ}\u0647",
    f"{ZWNJ}\u0647",
    f"\u0647 {ZWNJ}\u0647",
    f"a{ZWJ}b",
    f"1{EMOJI}",
    f"\u2764{EMOJI}{EMOJI}",
    f"\u2764{EMOJI}{ZWJ}{EMOJI}",
    "\u4e00\U000e0100",
    "\u4e00\ufe03",
    "\U0001f600\ufe00",
    "\u1820\u180b",
    "\U0001f3f4" + tags("gbeng\x7f"),
    "x" + tags("gbwls\x7f"),
    "\u2764" + bits("hi"),
    "\u2813\u2800\u2811",
    "a\rb",
    "a\n\rb",
    "ends with\r",
]
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What Unicode says is not drawn when nothing else is known (`Default_Ignorable_Code_Point`)."""
KINDS: tuple[Kind, ...] = ("name", "value", "prose")


def codes(text: str, kind: Kind) -> list[int]:
    return [ord(text[at]) for at in find_unseen(text, kind)]


def test_what_people_write_is_seen() -> None:
    for kind in KINDS:
        for text in SEEN_EVERYWHERE:
            assert codes(text, kind) == [], ascii(text)
            assert escape_unseen(text, kind) == text
            assert first_unseen(text, kind) is None


def test_prose_keeps_what_emoji_and_scripts_are_spelt_with() -> None:
    for text in (*SEEN_IN_PROSE, *HARMLESS_IN_PROSE):
        assert codes(text, "prose") == [], ascii(text)
        assert escape_unseen(text, "prose") == text
        assert codes(text, "name"), ascii(text)


def test_a_joiner_or_selector_that_follows_nothing_seen_is_hidden() -> None:
    for text in HIDDEN_IN_PROSE:
        assert codes(text, "prose"), ascii(text)
        assert codes(escape_unseen(text, "prose"), "prose") == []
        assert is_plain(escape_unseen(text), "name")


def test_what_is_hidden_is_found_and_shown() -> None:
    for kind in KINDS:
        for hidden in HIDDEN:
            assert hidden.text[find_unseen(hidden.text, kind)[0]] == hidden.character
            assert f" {hidden.called}, which " in str(first_unseen(hidden.text, kind))
            assert hidden.shown in escape_unseen(hidden.text, kind)
            assert is_plain(escape_unseen(hidden.text), "name")


def test_what_may_stand_in_prose_is_hidden_in_a_name() -> None:
    for given in (*JOINED, *SPACED):
        assert [codes(given.text, kind) != [] for kind in KINDS] == [True, given in JOINED, False], given.label
        assert escape_unseen(given.text) == given.text.replace(given.character, given.shown)


def test_a_finding_says_where_what_why_and_what_is_right() -> None:
    assert find_unseen("ab\u202ec\x1b", "prose") == [2, 4]
    assert first_unseen("ab\u202ec\x1b", "prose") == (
        'in "ab\\u{202e}c\\u{1b}", \\u{202e} is U+202E RIGHT-TO-LEFT OVERRIDE, which changes the order in which text '
        "is shown, and it is not the only one; remove it: right-to-left scripts are shown well without"
    )
    assert first_unseen("c\x1b", "prose") == (
        'in "c\\u{1b}", \\u{1b} is U+001B ESCAPE, which steers a terminal instead of being shown; remove it, or write '
        "what is meant"
    )


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "a\u200bb",
            "prose",
            'in "a\\u{200b}b", \\u{200b} is U+200B ZERO WIDTH SPACE, which is not shown; remove it, or',
        ),
        ("a\u200db", "prose", "which is not shown and belongs to no emoji or word here; remove it"),
        ("\u2764\ufe0f", "name", "which is not shown, and a name has only what is seen; remove it (in descriptions it"),
        ("\u2764\ufe0f", "value", "and a value has only what is seen"),
        ("a\u00a0b", "name", "which looks like a space, or like nothing; write an ordinary space, or remove it"),
        ("a\u3164b", "prose", "which looks like a space, or like nothing; write an ordinary space"),
        ("a\u2028b", "prose", "which breaks or moves the line; write an ordinary line break"),
        ("a\nb", "name", '"a\\nb", \\n is U+000A LINE FEED, which breaks or moves the line; write one line'),
        (
            "a\rb",
            "value",
            "\\r is U+000D CARRIAGE RETURN, which breaks or moves the line; write an ordinary line break",
        ),
        ("a\x01b", "prose", "\\u{1} is U+0001 CONTROL CHARACTER, which steers a terminal"),
        ("a\x9ab", "prose", "\\u{9a} is U+009A CONTROL CHARACTER, which steers a terminal"),
        ("a\ue000b", "prose", "U+E000 PRIVATE USE, which has no agreed appearance; write what is meant with assigned"),
        ("a\U000e0061b", "prose", "which is not shown and carries letters that only a machine reads; remove it"),
    ],
)
def test_the_message_fits_the_character(text: str, kind: Kind, said: str) -> None:
    message = first_unseen(text, kind)
    assert message is not None
    assert said in message


def test_every_character_that_unicode_does_not_draw_is_hidden_in_a_name() -> None:
    drawn = [hex(code) for code in range(0x110000) if IGNORABLE.match(chr(code)) and is_plain(chr(code), "name")]
    assert drawn == []


def test_what_is_told_at_once_is_what_is_told_one_by_one() -> None:
    everything = [chr(code) for code in (*range(0x21000), *range(0x2F000, 0x31000), *range(0xE0000, 0xE1000))]
    plain = "".join(character for character in everything if is_plain(character, "name"))
    assert is_plain(plain, "name")
    assert not IGNORABLE.search(plain)
    assert escape_unseen(plain + "\u200b") == plain + "\\u{200b}"
    others = [character for character in everything if not is_plain(character, "name")]
    seen_after_all = [character for character in others if not codes(character, "name")]
    assert all(re.match("[\u0600-\u08e2\U000110bd-\U000110cd\U0001f000-\U0003fffd]", each) for each in seen_after_all)
