"""From template and values to arguments: one word stays one argument, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.errors import ToolError
from toolstead.tools.handlers.shell_argv import MOST_WORDS, Parameters, build_argv, load_template, suspicious_parameters
from toolstead.tools.handlers.template import TemplateError

pytestmark = pytest.mark.promise("R2")


def argv(template: str, arguments: dict[str, Any], **parameters: Any) -> list[str]:
    loaded = load_template(template, Parameters(names=["x", "y"], **parameters))
    return build_argv(loaded.script[0].pipeline[0], arguments, loaded.parameters)


@pytest.mark.parametrize(
    ("template", "arguments", "expected"),
    [
        ("t {{x}}", {"x": "a b; c | d $(e) `f` 'g' \"h\" \\ \n *"}, ["t", "a b; c | d $(e) `f` 'g' \"h\" \\ \n *"]),
        ("t '{{x}}'", {"x": "it's"}, ["t", "it's"]),
        ('t "{{x}}"', {"x": 'say "hi"'}, ["t", 'say "hi"']),
        ("t pre{{x}}mid{{y}}post", {"x": " ", "y": ";"}, ["t", "pre mid;post"]),
        ("t {{x}}", {"x": ""}, ["t", ""]),
        ("t {{x}} {{y}}", {"x": 1.5, "y": True}, ["t", "1.5", "true"]),
        ("t {{x}}", {"x": None}, ["t", "null"]),
        ("t {{x}}", {"x": {"k": [1, "ü"]}}, ["t", '{"k":[1,"ü"]}']),
        ("t {{x}}", {"x": ["a b", 1, None, ["n"]]}, ["t", "a b", "1", "null", '["n"]']),
        ("t '{{x}}'", {"x": ["a", "b"]}, ["t", "a", "b"]),
        ("t {{x}}", {"x": []}, ["t"]),
        ("t --in={{x}}", {"x": ["a", "b"]}, ["t", '--in=["a","b"]']),
        ("t {{x}} end", {}, ["t", "end"]),
        ("t {{x}}", {"x": "{{y}}", "y": "never"}, ["t", "{{y}}"]),
        ("'A=1' {{x}}", {"x": "a"}, ["A=1", "a"]),
    ],
)
def test_values_fill_words_and_never_make_new_ones(
    template: str, arguments: dict[str, Any], expected: list[str]
) -> None:
    assert argv(template, arguments) == expected


@pytest.mark.parametrize("template", ["t '{{x}}'", 't "{{x}}"', "t a{{x}}", "t --x={{x}}", "t {{x}}{{y}}"])
def test_a_missing_value_that_cannot_be_dropped_names_the_parameter_and_suggests_a_default(template: str) -> None:
    with pytest.raises(ToolError, match=r"'x' is missing.*\"default\" for 'x'"):
        argv(template, {"y": "1"})


@pytest.mark.promise("R8")
@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ("t {{x}}", {"x": "-rf"}),
        ("t {{x}}", {"x": "--help"}),
        ("t {{x}}", {"x": "-"}),
        ("t '{{x}}'", {"x": "-e"}),
        ("t {{x}}", {"x": ["a", "-b"]}),
        ("t {{x}}{{y}}", {"x": "", "y": "-b"}),
        ("t {{x}}{{y}}", {"x": "-", "y": "b"}),
        ("t {{x}}", {"x": -5}),
        ("t {{x}} -- a", {"x": "-v"}),
    ],
)
def test_a_value_never_becomes_an_option(template: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="would read as an option"):
        argv(template, arguments)


@pytest.mark.parametrize(
    ("template", "arguments", "allowed", "expected"),
    [
        ("t -- {{x}}", {"x": "-rf"}, [], ["t", "--", "-rf"]),
        ("t {{x}}", {"x": "-rf"}, ["x"], ["t", "-rf"]),
        ("t -n{{x}}", {"x": "-5"}, [], ["t", "-n-5"]),
        ("t --n={{x}}", {"x": "-5"}, [], ["t", "--n=-5"]),
        ("t a{{x}}", {"x": "-5"}, [], ["t", "a-5"]),
    ],
)
def test_a_dash_is_fine_where_it_cannot_be_an_option_or_the_author_allows_it(
    template: str, arguments: dict[str, Any], allowed: list[str], expected: list[str]
) -> None:
    assert argv(template, arguments, allow_leading_dash=allowed) == expected


@pytest.mark.promise("R8")
def test_a_parameter_that_may_begin_with_a_dash_does_not_vouch_for_its_neighbour() -> None:
    with pytest.raises(ToolError, match="'y' makes an argument that begins with a dash"):
        argv("t {{x}}{{y}}", {"x": "", "y": "-b"}, allow_leading_dash=["x"])
    assert argv("t {{x}}{{y}}", {"x": "-", "y": "b"}, allow_leading_dash=["x"]) == ["t", "-b"]


@pytest.mark.promise("R8")
def test_null_bytes_and_long_values_are_refused() -> None:
    with pytest.raises(ToolError, match="null byte"):
        argv("t {{x}}", {"x": "a\0b"})
    with pytest.raises(ToolError, match="10,001 characters long; at most 10,000"):
        argv("t {{x}}", {"x": "a" * 10_001})
    assert argv("t {{x}}", {"x": "a" * 10_000})[1] == "a" * 10_000
    with pytest.raises(ToolError, match="arguments; give fewer"):
        argv("t {{x}}", {"x": ["a"] * (MOST_WORDS + 1)})


def test_characters_that_a_shell_would_act_on_are_found_in_values_and_in_no_sign_that_makes_them_json() -> None:
    arguments = {"plain": "a-b_c.d/e", "list": ["a", ["b"], 1], "odd": "a;b", "odd-list": ["a", ["$(b)"]], "number": 1}
    assert suspicious_parameters(arguments) == ["odd", "odd-list"]


def test_only_the_first_commands_of_a_script_are_given_the_text_for_stdin() -> None:
    parameters = Parameters(names=["x"], required=["x"])
    load_template("cat; true | sh", parameters, stdin_slots=["x"])
    for template in ("cat | sh", "cat | cat | sh; true"):
        with pytest.raises(TemplateError, match="sh runs what comes through the pipe"):
            load_template(template, parameters, stdin_slots=["x"])


def test_an_optional_placeholder_after_an_option_needs_a_default_because_dropping_it_would_shift_the_options() -> None:
    with pytest.raises(TemplateError, match=r"is optional and follows '-C'.*shift the options"):
        argv("t -C {{x}} run", {})
    for parameters in ({"required": ["x"]}, {"with_default": ["x"]}):
        assert argv("t -C {{x}} run", {"x": "d"}, **parameters) == ["t", "-C", "d", "run"]
    assert argv("t -- {{x}}", {}) == ["t", "--"]
    assert argv("t -C '{{x}}'", {"x": "d"}) == ["t", "-C", "d"]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("t {{z}}", "{{z}} is no property of the inputSchema; there are: x, y"),
        ("A=1 t", 'set variables with "env"'),
        ("! t", "'!' is no program"),
        ("'' t", "'' is no program"),
    ],
)
def test_other_mistakes_are_told_when_the_file_is_loaded(template: str, said: str) -> None:
    with pytest.raises(TemplateError) as caught:
        argv(template, {})
    assert said in str(caught.value)


def test_what_teams_write_most_passes_every_check() -> None:
    parameters = Parameters(names=["x", "y"], required=["x"])
    for template in (
        "rg -n --max-count {{x}} -e {{x}} -- {{x}}",
        "git -C services/a log --oneline -n {{x}} --author={{y}} -- {{x}}",
        "docker compose -f a.yml logs --tail {{x}} {{y}}",
        "kubectl get pods -n {{x}}",
        "sort -- {{x}} | uniq -c | head -n {{x}}",
        "deployctl rollout {{x}} --env={{y}} || true",
    ):
        load_template(template, parameters)
