"""One tool file: whatever is in it, nothing is raised, and what is wrong is said where it stands."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flows.tool_files import DOCUMENT, content, shell, tool
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http import HttpHandler
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.sources import json_text
from toolstead.tools.sources.json_file import FileReader, LoadedFile
from toolstead.tools.sources.json_report import DEEPEST, LARGEST_FILE, LONGEST_MESSAGE, MOST_NAMES, MOST_PROBLEMS
from toolstead.tools.sources.json_text import Outline
from toolstead.types.tool import Annotations

pytestmark = pytest.mark.promise("R4")

READER = FileReader(Surroundings(root=Path("/"), environ={}), GuardedClient)
GOOD = shell("good", "echo {{text}}", "text")


def read(text: str | bytes) -> LoadedFile:
    return READER.read(Path("/tools/x.json"), text.encode() if isinstance(text, str) else text)


def said(text: str | bytes) -> list[str]:
    """Each problem as `line:column tool message`."""
    problems = read(text).problems
    assert all(problem.source == "/tools/x.json" for problem in problems)
    return [f"{p.line}:{p.column} {p.tool_name or '-'} {p.message}" for p in problems]


# the text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1 - the file is empty; a tool file looks like"),
        (" \n ", "1:1 - the file is empty; a tool file looks like"),
        (
            '{"name": "x",\n "tools": [1, 2,]}',
            "2:16 - not valid JSON: remove this comma: nothing follows it before `]`",
        ),
        ('{"name": "x",\n}', "1:13 - not valid JSON: remove this comma: nothing follows it before `}`"),
        ('{"name": "x" "tools": []}', "1:14 - not valid JSON: a comma is missing before '\"'"),
        ('{"a": [1 2]}', "1:10 - not valid JSON: a comma is needed here, not '2'"),
        (
            '{"a": [\n 1}',
            "2:3 - not valid JSON: a comma or ']' is needed here, not '}': the list that begins at 1:7 is",
        ),
        ('{"name" "x"}', "1:9 - not valid JSON: a colon is needed between a name and its value"),
        ("{'name': 'x'}", '1:2 - not valid JSON: texts and names stand in double quotes ("), not in single ones'),
        ("{\"name\": 'x'}", '1:10 - not valid JSON: texts and names stand in double quotes ("), not in single ones'),
        ("{name: 1}", "1:2 - not valid JSON: a name in double quotes is needed here, not 'n'"),
        ('{"a": 1, // why\n "b": 2}', "1:10 - not valid JSON: JSON has no comments; remove it"),
        ('# tools\n{"a": 1}', "1:1 - not valid JSON: JSON has no comments; remove it"),
        ('{"a": True}', "1:7 - not valid JSON: write true, in small letters"),
        ('{"a": None}', "1:7 - not valid JSON: write null"),
        ('{"a": NaN}', "1:7 - not valid JSON: NaN is no JSON value; leave it out, or write null"),
        ('{"ü": -Infinity}', "1:8 - not valid JSON: Infinity is no JSON value"),
        ('{"a": 1e999}', "1:7 - not valid JSON: 1e999 is too large for a number"),
        ('{"a": 01}', "1:8 - not valid JSON: a comma is needed here, not '1'"),
        ('{"a": "x\\ud800"}', "1:9 - not valid JSON: \\ud800 is half of a character"),
        ('{"a": "\\ude00 \\ud83d\\ude00"}', "1:8 - not valid JSON: \\ude00 is half of a character"),
        ('{"a": "one\ntwo"}', '1:11 - not valid JSON: a line break in a text is written as \\n; or a " is missing'),
        ('{"a": "one\ttwo"}', '1:11 - not valid JSON: a tab in a text is written as \\t; or a " is missing'),
        ('{"a": "C:\\dir"}', "1:10 - not valid JSON: a backslash in a text is written twice"),
        ('{"a": "x}', '1:7 - not valid JSON: this text is never closed; a " is missing'),
        ('{"name": "x",\n "tools": [\n', "2:12 - not valid JSON: the file ends in the middle; close what is open"),
        ('{"name": "x"}\n{"name": "y"}', "2:1 - not valid JSON: the JSON ended before this; remove what follows"),
        ("name: x", "1:1 - not valid JSON: a value is needed here"),
        ("[]", '1:1 - a tool file is a JSON object such as {"name": "my-tools", "tools": […]}, not array of 0 items'),
        ("\n 5", "2:2 - a tool file is a JSON object"),
        (b'{"name": "caf\xe9"}', "1:14 - not UTF-8: byte 0xe9; save the file as UTF-8"),
        (b'{"a":\n "\xc3\xbc\xff"}', "2:4 - not UTF-8: byte 0xff"),
        ("{}".encode("utf-16"), "1:1 - the file is written in UTF-16; save it as UTF-8"),
        ('{"a": ' + "9" * 5_000 + "}", "1:1 - not valid JSON: Exceeds the limit"),
        ("[" * 100_000, f"1:{DEEPEST + 1} - nested deeper than {DEEPEST} levels here"),
        ('{"tools": ' + "[" * 600 + "]" * 600 + "}", f"1:{DEEPEST + 10} - nested deeper than {DEEPEST} levels here"),
        (b" " * (LARGEST_FILE + 1), "1:1 - the file is larger than 1,048,576 bytes; split it into several"),
        (
            '{"a": {' + ",".join(f'"{number}":0' for number in range(MOST_NAMES)) + "}}",
            "1:1 - the file has 50,001 names, at most 50,000 are read; split it into several",
        ),
        ('{"tools": "' + r"\"" * 400_000, '1:11 - not valid JSON: this text is never closed; a " is missing'),
        ('{"a": [' + "1." + "1" * 500_000 + ", 1e999]}", "1:500012 - not valid JSON: 1e999 is too large for a number"),
        ('{"name": "x", "tools": [],\n "tools": []}', "2:2 - tools: duplicate name"),
    ],
)
def test_a_text_that_is_no_json_says_what_to_type_where(text: str | bytes, expected: str) -> None:
    loaded, (problem,) = read(text), said(text)
    assert problem.startswith(expected)
    assert (loaded.tools, loaded.examples) == ((), {})


def test_a_byte_order_mark_is_no_fault_and_is_not_counted() -> None:
    assert len(read(b"\xef\xbb\xbf" + DOCUMENT.encode()).tools) == 2
    assert said(b'\xef\xbb\xbf{"name": "x", "tools": [5]}') == ["1:25 - tools.0: expected object, got number 5"]
    assert said(b'\xef\xbb\xbf{"a": NaN}')[0].startswith("1:7 - not valid JSON: NaN")


def test_a_name_that_stands_twice_inside_a_tool_spoils_that_tool_alone() -> None:
    text = content(shell("bad", "true"), GOOD).replace('"description":', '"name": "twice",\n      "description":', 1)
    loaded = read(text)
    assert [tool.info.name for tool in loaded.tools] == ["good"]
    assert said(text) == ["6:7 twice name: duplicate name; remove one of the two"]


def test_names_that_stand_twice_in_the_first_of_two_lists_are_reported_too() -> None:
    text = '{"name": "x", "tools": [{"name": "a", "name": "b"}], "tools": []}'
    assert [line.split(" - ")[1].split(":")[0] for line in said(text)] == ["tools.0.name", "tools"]


# the tools


def broken(**changes: Any) -> str:
    """A file with a bad tool and a good one; a value of None takes the key away."""
    bad = {**shell("bad", "echo {{text}}", "text"), **changes}
    return content({key: value for key, value in bad.items() if value is not None}, GOOD)


def handled(type: str, properties: Any = None, **handler: Any) -> str:
    return broken(
        handler={"type": type, **handler}, inputSchema={"type": "object", "properties": properties or {"text": {}}}
    )


def property_(schema: Any) -> str:
    return broken(inputSchema={"type": "object", "properties": {"text": schema}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (broken(description=None), '"description" is missing (what it does, for the model)'),
        (broken(description=""), "description: it is empty; needed: what it does, for the model"),
        (broken(inputSchema=None), '"inputSchema" is missing (JSON Schema of the arguments)'),
        (broken(handler=None), '"handler" is missing (how it runs, such as {"type": "shell", "command": "rg {{pat'),
        (broken(handler="rg"), 'handler: expected object, got string "rg" (how it runs, such as'),
        (broken(handler={}), 'handler: "type" is missing (one of shell, http, file-read)'),
        (
            broken(handler={"type": "bash"}),
            'handler.type: expected one of ["shell", "http", "file-read"], got string "b',
        ),
        (broken(extra=1), '"extra" is not allowed here; allowed: name, description, inputSchema, handler'),
        (broken(input_schema={}), '"input_schema" is not allowed here; did you mean "inputSchema"?'),
        (
            broken(annotations={"readOnly": True}),
            'annotations: "readOnly" is not allowed here; did you mean "readOnlyH',
        ),
        (broken(inputSchema={"type": "array"}), 'inputSchema.type: arguments are an object, so it must be "object"'),
        (property_({"type": "strin"}), 'inputSchema.properties.text.type: "strin" is no JSON type; one of string, num'),
        (property_("string"), 'inputSchema.properties.text: a schema such as {"type": "string"} is needed, not string'),
        (
            property_({"required": True}),
            'required: a list of names is needed, beside "properties": "required": ["text"',
        ),
        (broken(inputSchema={"required": "text"}), 'inputSchema.required: a list of names is needed: ["text"]'),
        (property_({"pattern": "("}), 'inputSchema.properties.text.pattern: string "(" is no regular expression'),
        (property_({"$ref": "#/$defs/x"}), '.text.$ref: "#/$defs/x" leads nowhere; the names under "$defs" are: none'),
        (property_({"$ref": "http://e.org/x"}), "properties.text.$ref: refers to http://e.org/x, and references are n"),
        (broken(outputSchema={"type": "objet"}), 'outputSchema.type: "objet" is no JSON type; one of string, number'),
        (handled("shell"), 'handler: "command" is missing (program and arguments, with {{parameters}}; no shell'),
        (handled("shell", command=""), "handler.command: it is empty; needed: program and arguments"),
        (handled("shell", command=["ls"]), "handler.command: expected string, got array of 1 items (program and argu"),
        (handled("shell", command="ls", timeout="5s"), 'handler.timeout: expected integer, got string "5s" (milliseco'),
        (handled("shell", command="ls", timeOut=5), 'handler: "timeOut" is not allowed here; did you mean "timeout"?'),
        (handled("shell", command="ls", url="x"), 'handler: "url" is not allowed here; allowed: type, command, timeou'),
        (
            handled("shell", command="rg {{txt}}"),
            "handler.command: {{txt}} is no property of the inputSchema; did you ",
        ),
        (
            handled("shell", command="rg {{q}}"),
            "handler.command: {{q}} is no property of the inputSchema; there are: t",
        ),
        (handled("shell", command="{{text}} -v"), "handler.command: {{text}} stands where its value would run as code"),
        (handled("shell", command="head -n {{text}}"), "handler.command: {{text}} is optional and follows '-n'"),
        (handled("shell", command="echo {{text"), "handler.command: `{{` is never closed; a placeholder looks like"),
        (handled("shell", command="ls \0"), "handler.command: in "),
        (handled("shell", command="cat", stdin="{{txt}}"), "handler.stdin: {{txt}} is no property of the inputSchema"),
        (handled("shell", command="cat", stdin="{{"), "handler.stdin: `{{` is never closed"),
        (handled("shell", command="sh", stdin="{{text}}"), 'handler.stdin: {{text}} in "stdin" would run as code: sh'),
        (handled("shell", command="ls", cwd="{{text}}"), "handler.cwd: a placeholder may not stand here"),
        (handled("shell", command="ls", cwd="a\0"), 'handler.cwd: in "a\\u{0}", \\u{0} is U+0000 NULL'),
        (handled("shell", command="ls", env={"A": "{{text}}"}), "handler.env.A: a placeholder may not stand here"),
        (handled("shell", command="ls", env={"A": 5}), "handler.env.A: expected string, got number 5"),
        (
            handled("shell", command="ls", env={"A B": ""}),
            "handler.env.A B: no name of a variable: letters, digits and",
        ),
        (handled("shell", command="ls", env={"A": "${A"}), "handler.env.A: a ${…} that names no variable; write it as"),
        (
            handled("shell", command="ls", env={"TOOLSTEAD_CALL": ""}),
            "handler.env.TOOLSTEAD_CALL: set by toolstead itself",
        ),
        (handled("shell", command="ls", allowScript=["txt"]), "handler.allowScript: 'txt' is no property of the input"),
        (handled("http"), 'handler: "url" is missing (the address, with {{parameters}})'),
        (handled("http", url="example.org"), "handler.url: 'example.org': an address begins with http:// or https://"),
        (handled("http", url="http://x/{{q}}"), "handler.url: {{q}} is no property of the inputSchema"),
        (
            handled("http", url="http://x", method="get"),
            'handler.method: expected one of ["GET", "POST", "PUT", "PATCH"',
        ),
        (handled("http", url="http://x", headers={"Host": "y"}), "handler.headers: 'Host' is set by toolstead itself"),
        (handled("http", url="http://x", headers={"A": "{{text}}"}), "handler.headers.A: a placeholder may not stand"),
        (handled("http", url="http://x", allowedHosts=["http://y"]), "handler.allowedHosts: "),
        (handled("file-read"), 'handler: "basePath" is missing (the folder it reads from; relative to the project'),
        (handled("file-read", basePath="."), 'inputSchema: a file-read tool needs a property "path" with "type": "str'),
        (
            handled("file-read", {"path": {"type": "string"}}, basePath="."),
            '"path" must be in "required", or have a "d',
        ),
        (
            handled("file-read", {"path": {"type": "string"}}, basePath="{{path}}"),
            "handler.basePath: a placeholder may",
        ),
        (broken(examples=[{}]), 'examples.0: "input" is missing (the arguments of the call)'),
        (broken(examples=[{"input": {}}]), 'examples.0.input: "text" is missing'),
        (broken(examples=[{"input": {"text": 5}}]), "examples.0.input.text: expected string, got number 5"),
        (broken(examples=[{"input": {"text": "-x"}}]), "begins with a dash ('-x')"),
        (
            broken(examples=[{"input": {"text": ""}, "expect": 5}]),
            "examples.0.expect: expected string or object, got nu",
        ),
        (broken(examples=[{"input": {"text": ""}, "expect": {}}]), "examples.0.expect: {} has less than 1 property"),
        (
            broken(examples=[{"input": {"text": ""}, "expect": {"schema": {"type": "strin"}}}]),
            'examples.0.expect.schema.type: "strin" is no JSON type',
        ),
    ],
)
def test_a_bad_tool_is_set_aside_alone_and_its_field_and_what_is_allowed_are_said(text: str, expected: str) -> None:
    loaded = read(text)
    assert [tool.info.name for tool in loaded.tools] == ["good"]
    assert any(expected in problem.message for problem in loaded.problems), said(text)
    lines = text.splitlines()
    for problem in loaded.problems:
        assert problem.tool_name == "bad"
        assert problem.line is not None
        assert problem.column is not None
        assert 4 <= problem.line < len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1])


def test_a_problem_points_at_the_very_value_and_a_wrong_key_at_the_key() -> None:
    text = handled("shell", command="echo {{oops}}", timeout=5)
    (problem,) = read(text).problems
    assert text.splitlines()[(problem.line or 0) - 1][(problem.column or 0) - 1 :].startswith('"echo {{oops}}"')
    text = handled("shell", command="echo", tmeout=5)
    (problem,) = read(text).problems
    assert text.splitlines()[(problem.line or 0) - 1][(problem.column or 0) - 1 :].startswith('"tmeout": 5')


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "list todos",
            "4:15 list todos name: only letters, digits, _ and - are allowed, such as list-todos, got string",
        ),
        ("", '4:15 - tools.0.name: only letters, digits, _ and - are allowed, such as list-todos, got string ""'),
        (5, "4:15 - tools.0.name: expected string, got number 5"),
        ("x" * 65, f"4:15 {'x' * 65} name: expected at most 64 characters, got 65"),
        ("naïve", '4:15 naïve name: only letters, digits, _ and - are allowed, such as list-todos, got string "naïve"'),
    ],
)
def test_a_bad_name_says_what_names_are_made_of(name: Any, expected: str) -> None:
    text = json.dumps({"name": "x", "tools": [{**GOOD, "name": name}]}, indent=2)
    assert said(text)[0].startswith(expected.replace("4:15", "5:15"))


def test_a_name_that_a_file_has_twice_is_held_by_the_first() -> None:
    loaded = read(content(GOOD, {**GOOD, "description": "The second."}))
    assert [tool.info.description for tool in loaded.tools] == ["The tool good."]
    assert [problem.message for problem in loaded.problems] == ["name: this file has a tool of this name already"]
    assert (loaded.problems[0].line, loaded.problems[0].tool_name) == (24, "good")


def test_a_tool_without_a_name_is_named_by_its_number() -> None:
    assert said('{"name": "x", "tools": [{"description": "y"}, 5]}')[:2] == [
        '1:25 - tools.0: "name" is missing (letters, digits, _ and -, such as list-todos)',
        '1:25 - tools.0: "inputSchema" is missing (JSON Schema of the arguments)',
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tools": []}', ['1:1 - "name" is missing (the collection\'s name)']),
        ('{"name": "x"}', ['1:1 - "tools" is missing (a list of tools)']),
        ('{"name": "x", "tools": {}}', ["1:24 - tools: expected array, got an empty object (a list of tools)"]),
        ('{"name": "x", "tools": [], "vers": 1}', ['1:28 - "vers" is not allowed here; did you mean "version"?']),
        ('{"name": 5, "tools": []}', ["1:10 - name: expected string, got number 5 (the collection's name)"]),
    ],
)
def test_a_file_of_another_shape_says_what_a_tool_file_has(text: str, expected: list[str]) -> None:
    assert said(text) == expected


def test_several_wrong_keys_are_several_problems_each_with_its_place() -> None:
    text = content({**GOOD, "handler": {"type": "shell", "command": "ls", "tmeout": 1, "cmd": 2}})
    lines = [problem.line for problem in read(text).problems]
    assert len(set(lines)) == 2


def test_a_wrong_key_does_not_hide_what_is_wrong_with_the_template() -> None:
    tool = shell("bad", "ls {{foldr}} > out", "folder")
    tool["handler"]["okstatus"] = [0]
    tool["descripton"] = tool.pop("description")
    allowed = shell("allowed", "sh -c {{script}}", "script")
    allowed["handler"]["allowscript"] = ["script"]

    found = [line.partition(" ")[2] for line in said(json.dumps({"name": "x", "tools": [tool, allowed]}))]

    assert [line.partition(",")[0].partition(" (")[0] for line in found] == [
        'bad "description" is missing',
        'bad "descripton" is not allowed here; did you mean "description"?',
        'bad handler: "okstatus" is not allowed here; did you mean "okStatus"?',
        "bad handler.command: redirection",
        "bad handler.command: {{foldr}} is no property of the inputSchema; did you mean 'folder'?",
        'allowed handler: "allowscript" is not allowed here; did you mean "allowScript"?',
    ]


def test_a_file_full_of_faults_is_reported_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    located: list[Any] = []
    locate_value = Outline.locate_value

    def counted(*arguments: Any, **options: Any) -> Any:
        located.append(arguments)
        return locate_value(*arguments, **options)

    monkeypatch.setattr(Outline, "locate_value", counted)
    loaded = read(content(*({"name": f"t{number}"} for number in range(1_000)), GOOD))
    assert [tool.info.name for tool in loaded.tools] == ["good"]
    assert len(loaded.problems) == MOST_PROBLEMS + 1
    assert loaded.problems[-1].message == "2,950 more problems; fix these first"
    assert len(located) == MOST_PROBLEMS  # each costs a count of the lines before it


def test_each_part_of_a_file_is_walked_once_for_all_its_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = 0
    skip_value = json_text._skip_value

    def counted(text: str, at: int) -> int:
        nonlocal skipped
        skipped += 1
        return skip_value(text, at)

    monkeypatch.setattr(json_text, "_skip_value", counted)
    loaded = read(content(*({"name": f"t{number}"} for number in range(1_000))))
    assert len(loaded.problems) == MOST_PROBLEMS + 1
    assert skipped < 1_100  # a thousand tools, and the few values around and inside those that are shown


def test_many_bad_examples_and_defaults_are_reported_within_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    bad = {"type": "string", "default": 5}
    schema = {"type": "object", "properties": {f"p{number}": bad for number in range(200)}}
    examples = [{"input": {"p0": number}} for number in range(1_000)]
    with caplog.at_level(logging.WARNING):
        handler = {"type": "shell", "command": "echo {{p0}}"}
        loaded = read(content({**GOOD, "inputSchema": schema, "handler": handler, "examples": examples}))
    assert len(loaded.problems) == 5
    assert len(caplog.messages) == MOST_PROBLEMS + 1
    assert caplog.messages[-1] == "/tools/x.json: tool 'good': 150 more defaults do not fit"


@pytest.mark.parametrize("name", ["7", "007"])
def test_a_fault_below_a_name_of_digits_is_explained(name: str) -> None:
    [problem] = read(
        content({**GOOD, "inputSchema": {"type": "object", "properties": {name: {"type": "strin"}}}})
    ).problems
    assert '"strin" is no JSON type' in problem.message


def test_a_message_that_names_thousands_of_things_is_shortened() -> None:
    schema = {"type": "object", "properties": {f"p{number}": {} for number in range(10_000)}}
    [problem] = read(content({**GOOD, "inputSchema": schema})).problems
    assert problem.message.startswith(
        "handler.command: {{text}} is no property of the inputSchema; there are: p0, p1, "
    )
    assert len(problem.message) == LONGEST_MESSAGE


def test_a_default_that_does_not_fit_is_warned_of_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        loaded = read(property_({"type": "string", "default": 5}))
    assert len(loaded.tools) == 2
    assert caplog.messages == [
        "/tools/x.json:12:24: tool 'bad': the default 5 does not fit its own schema and is not filled in"
    ]


def test_what_a_good_file_says_is_what_its_tools_are() -> None:
    hints = {"title": "Say it", "readOnlyHint": True, "openWorldHint": False}
    example = {"input": {"text": "hi"}, "expect": {"contains": "hi"}}
    given = {**GOOD, "annotations": hints, "outputSchema": {"type": "object"}, "examples": [example]}
    loaded = read(content(given, name="mine"))
    (found,) = loaded.tools
    assert loaded.problems == ()
    assert found.info.to_json() == {
        "name": "good",
        "description": "The tool good.",
        "source": "plugin",
        "pluginName": "mine",
        "origin": "/tools/x.json",
        "inputSchema": GOOD["inputSchema"],
        "outputSchema": {"type": "object"},
    }
    assert found.info.title == "Say it"
    assert found.info.annotations == Annotations(read_only=True, open_world=False)
    assert [example.input for example in loaded.examples["good"]] == [{"text": "hi"}]
    assert (found.tool.timeout, found.tool.max_output, found.tool.progress) == (30.0, None, False)


def test_limits_are_read_in_milliseconds_and_bytes() -> None:
    limited = shell("limited", "ls", timeout=1_500, maxOutput=2_048, stream=True)
    http = tool("http", {"type": "http", "url": "http://x/"})
    first, second = read(content(limited, http)).tools
    assert (first.tool.timeout, first.tool.max_output, first.tool.progress) == (1.5, 2_048, True)
    assert isinstance(second.tool.handler, HttpHandler)
    assert second.tool.handler.config.timeout == 10.0


# whatever is in it


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(seed=st.integers(), junk=JUNK)
def test_whatever_is_put_anywhere_into_a_good_file_nothing_is_raised(seed: int, junk: Any) -> None:
    document = json.loads(DOCUMENT)
    chosen = random.Random(seed)
    node: Any = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = chosen.choice(keys)
        if not isinstance(node[key], dict | list) or not node[key] or chosen.random() < 0.3:
            node[key] = junk
            break
        node = node[key]
    text = json.dumps(document, indent=chosen.choice([None, 1]))
    loaded = read(text)
    if loaded.problems:
        lines = text.splitlines()
        for problem in loaded.problems:
            assert problem.message
            assert 1 <= (problem.line or 0) <= len(lines)


@given(at=st.integers(0, len(DOCUMENT)), inserted=st.binary(max_size=3), cut=st.integers(0, 20))
def test_whatever_bytes_are_put_into_a_good_file_nothing_is_raised(at: int, inserted: bytes, cut: int) -> None:
    data = DOCUMENT.encode()
    loaded = read(data[:at] + inserted + data[at + cut :])
    assert all(problem.line and problem.column for problem in loaded.problems)
