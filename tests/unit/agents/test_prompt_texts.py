"""Filling in a prompt, and finding the JSON in an answer."""

from __future__ import annotations

import json
from time import process_time

import pytest

from toolstead.agents.prompt_answer import LARGEST_ANSWER, NoJsonError, find_json
from toolstead.agents.prompt_template import LONGEST_PROMPT, LongPromptError, fill_template, find_placeholders


def test_values_are_inserted_as_text_and_never_as_template() -> None:
    values = {
        "a": "{{b}} \\1 \\g<0> {{ a }}",
        "b": "two",
        "n": 1.5,
        "none": None,
        "list": [1, "x"],
        "object": {"é": {}},
    }
    template = "{{a}}|{{ b }}|{{n}}|{{none}}|{{list}}|{{object}}|{{missing}}|{{  b}}|{b}|{{b}|{{b\n}}|{{b}}"
    expected = [values["a"], "two", "1.5", "null", '[1,"x"]', '{"é":{}}', "{{missing}}"]
    assert fill_template(template, values).split("|") == [*expected, "{{  b}}", "{b}", "{{b}", "{{b\n}}", "two"]
    assert find_placeholders(template) == ["a", "b", "n", "none", "list", "object", "missing"]


def test_a_prompt_that_would_be_too_long_is_refused_before_it_is_built() -> None:
    half = "x" * (LONGEST_PROMPT // 2)
    assert len(fill_template("{{a}}{{b}}", {"a": half, "b": half[10:]})) == LONGEST_PROMPT - 10
    with pytest.raises(LongPromptError, match="more than 2,097,152 characters"):
        fill_template("{{a}}{{a}}", {"a": half})
    with pytest.raises(LongPromptError):
        fill_template("{{a}}" * 30_000, {"a": "x" * 1_000_000})


FENCE = "```"
FOUND = {
    "whole": (' \n{"a": [1, 2.5, "x"]}\n', {"a": [1, 2.5, "x"]}),
    "a bare value": ('"just text"', "just text"),
    "a number that is whole": ("12345678901234567890123", 12345678901234567890123),
    "fence": (f'Of course:\n{FENCE}json\n{{"a": 1}}\n{FENCE}\nDone.', {"a": 1}),
    "indented fence": (f"  {FENCE}\n  [1]\n  {FENCE}", [1]),
    "the first good one of several": (f"{FENCE}\nls\n{FENCE}\n{FENCE}json\n[2]\n{FENCE}\n{FENCE}\n[3]\n{FENCE}", [2]),
    "fence before prose": (f"[see below]\n{FENCE}\n[4]\n{FENCE}", [4]),
    "prose around": ('The result {as asked} is {"a": {"b": []}}. [Done]', {"a": {"b": []}}),
    "a fence that is not closed": (f'{FENCE}json\n{{"a": 1}}\n', {"a": 1}),
    "a fence in one line": (f'{FENCE}{{"a": 1}}{FENCE}', {"a": 1}),
}


def test_json_is_found_in_the_whole_answer_in_a_fence_and_between_sentences() -> None:
    for name, (answer, value) in FOUND.items():
        assert find_json(answer) == value, name


REFUSED = {
    "nothing": ("", "Expecting value"),
    "words": ("I cannot do that.", "Expecting value"),
    "NaN": ('{"a": NaN}', "NaN is no JSON value"),
    "NaN in prose": ('Here: {"a": [-Infinity]} you are', "-Infinity is no JSON value"),
    "NaN in a fence": (f"{FENCE}\n[NaN]\n{FENCE}", "NaN is no JSON value"),
    "a number without end": ('{"a": 1e999}', "1e999 is too large"),
    "half a character": ('{"a": "\\ud800"}', "surrogates not allowed"),
    "an unfinished array": ('[{"a": 1}, {"a": 2}', "Expecting"),
    "an unfinished object in prose": ('Look: {"all": [{"a": 1}], "b": ', "Expecting"),
    "deep": ("[" * 100_000 + "]" * 100_000, "recursion"),
    "deep in prose": ("Look: " + '{"a":' * 100_000, "recursion"),
    "too long": ("1" * (LARGEST_ANSWER + 1), "1,048,577 characters, more than 1,048,576"),
}


def test_what_is_no_json_is_refused_with_the_reason_and_no_piece_of_it_is_taken() -> None:
    for name, (answer, reason) in REFUSED.items():
        with pytest.raises(NoJsonError) as refused:
            find_json(answer)
        assert reason in str(refused.value), name
    assert find_json(json.dumps("x" * (LARGEST_ANSWER - 2))) == "x" * (LARGEST_ANSWER - 2)


@pytest.mark.parametrize(
    "piece",
    [
        "{},",
        "[",
        "{",
        '["x",',
        '{"',
        f"{FENCE}\nx\n{FENCE}\n",
        f"{FENCE}a\n",
        " ",
        "`",
        "\t\n",
        "{x",
        "[1,",
        '{"a":{},',
    ],
    ids=repr,
)
def test_the_time_to_look_grows_no_faster_than_the_answer(piece: str) -> None:
    def look(size: int) -> float:
        """The best of some tries: what else the machine does only adds to it."""
        answer, taken = ("[" + piece * size)[:size] + "x", []
        for _ in range(3):
            started = process_time()
            with pytest.raises(NoJsonError):
                find_json(answer)
            taken.append(process_time() - started)
        return min(taken)

    look(1000)
    short, long = look(60_000), look(960_000)
    assert long < 0.02 + 80 * short, "16 times the text: 256 times the time would be quadratic"
