"""Scripts in files: what is read, and how a bad one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolstead.adapters.scripted import script_file
from toolstead.adapters.scripted.script import ScriptedCall
from toolstead.adapters.scripted.script_file import parse_script
from toolstead.errors import ScriptError
from toolstead.testing import ScriptedRuntime, load_script
from toolstead.types.run import Usage


def problem(text: str) -> str:
    with pytest.raises(ScriptError) as refused:
        parse_script(text, source="s.yaml")
    return str(refused.value)


def test_every_field_is_read(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(
        "\ufeff- when: ^a+$\n  say: hé\n  call: [{tool: t, input: {a: [1, 2.5, true, null, x], b: {}}}]\n  fail: nope\n"
        "  hang: 1.5\n  delay: 2\n  lose: 3\n  rotate: true\n  usage: {inputTokens: 1, outputTokens: 2, cost: 0.5}\n",
        encoding="utf-8",
    )
    script = load_script(path)
    (turn,) = script.turns
    assert script.source == str(path)
    assert turn.when is not None
    assert (turn.when.pattern, turn.say, turn.fail, turn.hang, turn.delay) == ("^a+$", "hé", "nope", 1.5, 2)
    assert turn.call == (ScriptedCall(tool="t", input={"a": [1, 2.5, True, None, "x"], "b": {}}),)
    assert (turn.lose, turn.rotate) == (3, True)
    assert turn.usage == Usage(input_tokens=1, output_tokens=2, cost=0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.yaml: a script is a list of turns such as `- say: Hello`, not nothing"),
        ("[]", "s.yaml:1:1: a script is a list of turns such as `- say: Hello`, not an empty list"),
        ("say: x", "s.yaml:1:1: a script is a list of turns such as `- say: Hello`, not a mapping"),
        ("- hello", "s.yaml:1:3: turn 1: a turn is a mapping with some of when, say, call, fail, hang, delay, lose"),
        ("- say: a\n- sya: b", "s.yaml:2:3: turn 2: 'sya' is no field of a turn; there are when, say, call"),
        ("- say: a\n  say: b", "s.yaml:2:3: turn 1: say: this field stands here a second time"),
        ("- when: a", "s.yaml:1:3: turn 1: it does nothing; needed is one of say, call"),
        ("- say: yes", "s.yaml:1:8: turn 1: say: text is needed, not 'yes'; put it in quotes"),
        ("- say: 42", "s.yaml:1:8: turn 1: say: text is needed, not '42'; put it in quotes"),
        ("- say: [a]", "s.yaml:1:8: turn 1: say: text is needed, not a list"),
        ("- when: '('\n  say: x", "s.yaml:1:9: turn 1: when: '(' is no regular expression: missing )"),
        ("- call: t", "s.yaml:1:9: turn 1: call: a list of calls such as `[{tool: name, input: {}}]` is needed"),
        ("- call: []", "s.yaml:1:9: turn 1: call: a list of calls such as"),
        ("- call: [{input: {}}]", "s.yaml:1:10: turn 1: call.0: `tool`, the name of the tool, is missing"),
        ("- call: [{tool: t, inptu: {}}]", "s.yaml:1:20: turn 1: call.0: 'inptu' is no field of a call"),
        ("- call: [{tool: t, input: [1]}]", "turn 1: call.0.input: a mapping such as `{path: a.txt}` is needed"),
        ("- call: [{tool: t, input: {a: 2020-01-01}}]", "call.0.input.a: '2020-01-01' is no JSON value; put it in"),
        ("- call: [{tool: t, input: {a: 2020-13-01}}]", "call.0.input.a: '2020-13-01' is no JSON value"),
        ("- call: [{tool: t, input: {a: .nan}}]", "call.0.input.a: '.nan' is no JSON value"),
        ("- call: [{tool: t, input: {a: !x y}}]", "call.0.input.a: 'y' is no JSON value"),
        ("- call: [{tool: t, input: {1: 2}}]", "call.0.input: a name must be text, not '1'; put it in quotes"),
        ("- call: [{tool: t, input: {a: 1, a: 2}}]", "call.0.input: 'a' stands here a second time"),
        ("- hang: -1", "turn 1: hang: a number of seconds from 0 to 86,400 is needed, not '-1'"),
        ("- delay: .inf", "turn 1: delay: a number of seconds from 0 to 86,400 is needed, not '.inf'"),
        ("- lose: maybe", "turn 1: lose: true, or how many times, from 0 to 1,000,000 is needed, not 'maybe'"),
        ("- rotate: 1", "turn 1: rotate: true or false is needed, not '1'"),
        ("- usage: {tokens: 1}", "turn 1: usage: 'tokens' is no field of usage; there are inputTokens"),
        ("- usage: {inputTokens: 1.5}", "turn 1: usage.inputTokens: a whole number from 0"),
        ("- say: 'a", "s.yaml:1:10: no YAML: found unexpected end of stream"),
        ("- say: \0", "s.yaml: no YAML: unacceptable character"),
        ("- a: 1\n  <<: {say: x}", "s.yaml:1:3: turn 1: 'a' is no field of a turn"),
    ],
)
def test_a_bad_script_is_refused_with_its_place_and_field(text: str, said: str) -> None:
    assert said in problem(text)


def test_every_problem_is_named_up_to_a_number() -> None:
    with pytest.raises(ScriptError) as refused:
        parse_script("- {x: 1}\n- {y: 2}\n")
    assert len(refused.value.problems) == 2
    with pytest.raises(ScriptError) as refused:
        parse_script("- {x: 1}\n" * 100)
    assert len(refused.value.problems) == 20


@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
def test_a_script_nested_without_end_is_refused_and_ends_nobodys_process(opening: str) -> None:
    assert "nested deeper than 64 levels here" in problem(opening * 200_000)


def test_aliases_that_unfold_without_end_are_refused() -> None:
    lines = ["- call: [{tool: t, input: {a0: &a0 [x, x]}}]"]
    lines += [f"- call: [{{tool: t, input: {{a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]}}}}]" for n in range(1, 12)]
    assert "aliases unfold to more than 100,000 values" in problem("\n".join(lines))
    assert "aliases unfold" in problem("- call: [{tool: t, input: &a {b: *a}}]")


def test_a_script_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_file, "LARGEST", 100)
    path = tmp_path / "s.yaml"
    path.write_text("- say: " + "é" * 100, encoding="utf-8")
    with pytest.raises(ScriptError, match="larger than 100 bytes"):
        load_script(path)


def test_a_file_that_is_not_there_or_no_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"missing\.yaml: the script cannot be read: No such file"):
        load_script(tmp_path / "missing.yaml")
    path = tmp_path / "s.yaml"
    path.write_bytes(b"- say: a\n- say: \xff\n")
    with pytest.raises(ScriptError, match=r"s\.yaml:2: this is no UTF-8 text"):
        load_script(path)


def test_a_runtime_takes_yaml_text_as_well_as_a_script() -> None:
    assert ScriptedRuntime("- say: hi").name == "scripted"
    with pytest.raises(ScriptError):
        ScriptedRuntime("- sya: hi")
