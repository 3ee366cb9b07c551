"""Values as text: what may stand in a command, and what may not."""

from __future__ import annotations

import pytest

from toolstead.errors import ToolError
from toolstead.tools.handlers.shell_argv import Parameters, build_argv, load_template
from toolstead.tools.handlers.template import checked_text, cut_template, fill_template, value_text

pytestmark = pytest.mark.promise("R8")

REFUSED = {
    "a null byte": "a\0b",
    "at most 10,000 are allowed": "x" * 10_001,
    "half of a surrogate pair": "a\ud800b",
    "surrogate pair; give whole characters": "\udc80",
}


@pytest.mark.parametrize("says", REFUSED)
@pytest.mark.parametrize("template", ["t {{x}}", "t '{{x}}'", "t a{{x}}", "t --o={{x}}", "t -- {{x}}"])
def test_what_no_program_can_be_given_is_refused_wherever_it_stands(says: str, template: str) -> None:
    loaded = load_template(template, Parameters(names=["x"]))
    with pytest.raises(ToolError, match="'x'") as refused:
        build_argv(loaded.script[0].pipeline[0], {"x": REFUSED[says]}, loaded.parameters)
    assert says in str(refused.value)
    with pytest.raises(ToolError, match="'x'"):
        fill_template(cut_template("<{{x}}>"), {"x": REFUSED[says]}, longest=10_000)


def test_a_value_keeps_its_characters() -> None:
    for text in ("", "é", "e\u0301", "\u202e\u200b", "\U0010ffff", "\ufeff", "{{x}}", "\n\t\r", "x" * 10_000):
        assert checked_text("x", text) == text
        assert value_text(text) == text
    assert value_text({"a": [1, None, True, "é", 1.5]}) == '{"a":[1,null,true,"é",1.5]}'
