"""The syntax of command templates: quoting as POSIX has it, four operators, and clear refusals."""

from __future__ import annotations

import shlex
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolstead.tools.handlers.shell_syntax import Script, Word, parse
from toolstead.tools.handlers.template import Placeholder, TemplateError

pytestmark = pytest.mark.promise("R2")


def shown(script: Script) -> str:
    """A script as text: words in brackets, slots in angle brackets, a star after quoted words."""

    def word(word: Word) -> str:
        text = "".join(f"<{piece.name}>" if isinstance(piece, Placeholder) else piece for piece in word.pieces)
        return f"[{text}]" + ("*" if word.quoted else "")

    parts: list[str] = []
    for step in script:
        pipeline = " | ".join("".join(word(item) for item in command) for command in step.pipeline)
        parts.append(pipeline if not parts else f"{step.after} {pipeline}")
    return " ".join(parts)


@pytest.mark.parametrize(
    ("template", "meaning"),
    [
        ("ls -l", "[ls][-l]"),
        ("  ls\t-l \r", "[ls][-l]"),
        ("grep -rn '{{pattern}}' {{directory}} || true", "[grep][-rn][<pattern>]*[<directory>] || [true]"),
        ("a|b|c", "[a] | [b] | [c]"),
        ("a && b || c ; d;", "[a] && [b] || [c] ; [d]"),
        ("echo 'a | b && c; d > e $f `g` * # (h)'", "[echo][a | b && c; d > e $f `g` * # (h)]*"),
        ("echo \"a | b; {{x}} 'c' *\"", "[echo][a | b; <x> 'c' *]*"),
        (r'echo "\$ \" \\ \` \n"', r'[echo][$ " \ ` \n]*'),
        (r"echo \* \; \| \$ \ ", "[echo][*]*[;]*[|]*[$]*[ ]*"),
        ("echo pre{{x}}post{{y}}", "[echo][pre<x>post<y>]"),
        ("echo {{ x }}", "[echo][<x>]"),
        ("echo a'b'\"c\"", "[echo][abc]*"),
        ("echo '' \"\"", "[echo][]*[]*"),
        ("find . -name '*.py' -exec wc -l '{}' \\;", "[find][.][-name][*.py]*[-exec][wc][-l][{}]*[;]*"),
        ("echo {a,b} a{b }", "[echo][{a,b}][a{b][}]"),
        ("echo a~b x=~", "[echo][a~b][x=~]"),
        ("tool --opt={{x}}", "[tool][--opt=<x>]"),
    ],
)
def test_a_template_is_cut_as_a_shell_would_cut_it(template: str, meaning: str) -> None:
    assert shown(parse(template)) == meaning


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("", "the command is empty"),
        ("   ", "the command is empty"),
        ("ls > out", "redirection (`>`)"),
        ("cat < in", 'give the text with "stdin"'),
        ("cat <<EOF", "redirection (`<`)"),
        ("ls 2>&1", "redirection (`>`)"),
        ("ls *.py", "globs (`*`)"),
        ("ls a?", "globs (`?`)"),
        ("ls [ab]", "globs (`[`)"),
        ("echo $HOME", "variables and substitution (`$`)"),
        ('echo "$HOME"', "variables and substitution (`$`)"),
        ("echo $(id)", "variables and substitution (`$`)"),
        ("echo `id`", "substitution (`)"),
        ('echo "`id`"', "substitution (`)"),
        ("(ls)", "subshells (`(`)"),
        ("ls)", "subshells (`)`)"),
        ("ls # comment", "comments (`#`)"),
        ("sleep 5 &", "background jobs (`&`)"),
        ("a & b", "background jobs (`&`)"),
        ("a |& b", "`|&` is not supported"),
        ("ls\nid", "a line break"),
        ("~/bin/x", "`~` is not expanded"),
        ("| a", "missing before `|`"),
        ("a |", "missing after `|`"),
        ("a && ", "missing after `&&`"),
        ("a || | b", "missing before `|`"),
        ("a ; ; b", "missing before `;`"),
        ("a;;b", "missing between `;` and `;`"),
        ("echo 'a", "single quote (') is never closed"),
        ('echo "a', 'double quote (") is never closed'),
        ("echo a\\", "a backslash at the end"),
        ("echo {{", "`{{` is never closed"),
        ("echo '{{x'", "`{{` is never closed"),
        ("echo {{}}", "an empty placeholder"),
        ("echo {{ }}", "an empty placeholder"),
    ],
)
def test_what_only_a_shell_could_do_is_refused_with_what_to_do_instead(template: str, said: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(template)
    assert said in str(caught.value)


@given(st.lists(st.text(string.printable.replace("{", ""), min_size=1), min_size=1, max_size=6))
def test_words_quoted_for_a_shell_come_out_as_they_went_in(words: list[str]) -> None:
    (step,) = parse(shlex.join(words))
    (command,) = step.pipeline
    assert [word.literal for word in command] == words


@given(st.text("ab '\"\\|&;<>$`*?[](){}#~\n\t", max_size=30))
@example("]\\\n")
@example('a\\\nb "a\\\nb"')
def test_any_text_is_parsed_or_refused_and_what_is_parsed_agrees_with_the_standard_library(text: str) -> None:
    try:
        script = parse(text)
    except TemplateError:
        return
    ours = [word.literal for step in script for command in step.pipeline for word in command]
    if "{{" not in text:
        assert ours == shlex.split(separated(text))


def separated(text: str) -> str:
    """The same text with its operators blanked out, so that the library sees words only."""
    result, quote, at = "", "", 0
    while at < len(text):
        character = text[at]
        if character == "\\" and quote != "'":
            escaped = text[at : at + 2]
            result += "" if escaped == "\\\n" else escaped  # a line goes on, which the library does not know
            at += 2
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "|&;":
            character = " "
        result += character
        at += 1
    return result
