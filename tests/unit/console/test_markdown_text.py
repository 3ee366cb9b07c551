from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolstead.console.cli.markdown_text import MarkdownPainter

BOLD, LINE, DIM, CODE, OFF = "\x1b[1m", "\x1b[4m", "\x1b[2m", "\x1b[36m", "\x1b[0m"


def paint(*pieces: str) -> str:
    painter = MarkdownPainter()
    painted = "".join(map(painter.paint_piece, pieces)) + painter.paint_rest()
    return painted.replace(f"{OFF}{CODE}", "")  # code that comes in pieces is painted in pieces


def test_headings_lists_bold_words_code_and_quotes_get_a_look() -> None:
    text = "# Title\n## Part\n- one **bold** word\n  * `code` here\n> said\n```py\nx = **y\n- z\n```\nend"
    assert paint(text).splitlines() == [
        f"{BOLD}{LINE}Title{OFF}",
        f"{BOLD}Part{OFF}",
        f"• one {BOLD}bold{OFF} word",
        f"  • {CODE}code{OFF} here",
        f"{DIM}│{OFF} said",
        f"{DIM}```py{OFF}",
        f"{CODE}x = **y{OFF}",
        f"{CODE}- z{OFF}",
        f"{DIM}```{OFF}",
        "end",
    ]


def test_what_is_no_whole_mark_stays_as_it_stands() -> None:
    for text in (
        "2 ** 3",
        "a**b",
        "**open",
        "`open",
        "*one* _two_",
        "#hash",
        "-5",
        "---",
        "* ",
        "``",
        "****",
        "a\n\n\nb\n",
    ):
        assert paint(text) == text.replace("* ", "• ") if text == "* " else paint(text) == text


@given(st.text(alphabet="ab `*#->\n~", max_size=60), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_the_pieces_in_which_a_text_comes_make_no_difference(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    rest = text
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    assert paint(*pieces) == paint(text)
