"""Agent files with one mistake each: where it is, and what the message says would be right."""

from __future__ import annotations

from typing import NamedTuple


class BadFile(NamedTuple):
    """A bad file.

    Attributes:
        text: The whole file.
        line: The line of the finding.
        column: Its column.
        says: What the message has in it.
        severity: An error keeps the file out.
        scope: Where the file comes from.
    """

    text: str
    line: int
    column: int
    says: tuple[str, ...]
    severity: str = "error"
    scope: str = "user"


def make_file(frontmatter: str, body: str = "Be brief.\n") -> str:
    return f"---\nname: tester\ndescription: Tests.\n{frontmatter}---\n{body}"


def make_tool(lines: str) -> str:
    """A file with a custom tool; its lines begin in line 6, indented by four."""
    indented = "".join(f"    {line}\n" for line in lines.splitlines())
    return make_file(f"tools:\n  - name: sum\n{indented}")


GOOD_TOOL = 'description: Sums up.\nprompt: "Sum: {{text}}"\nparameters: {text: {type: string}}\n'

BAD_FILES: dict[str, BadFile] = {
    # the file and its frontmatter
    "no frontmatter": BadFile("Be brief.\n", 1, 1, ("begins with frontmatter", "`---`")),
    "no end": BadFile("---\nname: tester\nBe brief.\n", 1, 1, ("has no end", "a line `---`")),
    "a list": BadFile("---\n- name: tester\n---\nx\n", 2, 1, ("lines such as `name: reviewer`",)),
    "a tab": BadFile(make_file("limits:\n\tmax_depth: 1\n"), 5, 1, ("a tab cannot indent; use spaces",)),
    "a colon": BadFile(make_file("model: gemini: fast\n"), 4, 14, ("second `: `", "put the whole value in quotes")),
    "an open quote": BadFile(make_file('model: "gemini\n'), 4, 8, ("quote that begins here has no end",)),
    "an open list": BadFile(make_file("tools: [a, b\n"), 4, 8, ("no `]`",)),
    "a bare star": BadFile(make_file("tools: [*]\n"), 4, 9, ("begins with `*`", "needs quotes")),
    "a bare at": BadFile(make_file("model: @fast\n"), 4, 8, ("begins with `@`", "needs quotes")),
    "indentation": BadFile(make_file("limits:\n    max_depth: 1\n  max_fanout: 1\n"), 6, 3, ("indent it like",)),
    "an escape": BadFile(make_file('model: "a\\qb"\n'), 4, 10, ("backslash begins an escape", "single quotes")),
    "a tag": BadFile(make_file("model: !!python/name:os.system x\n"), 4, 8, ("tag", "remove it")),
    "a duplicate": BadFile(make_file("model: a\nmodel: b\n"), 5, 1, ("`model` is a duplicate key", "remove one")),
    "a merge": BadFile(make_file("limits: &x {max_depth: 1}\nresult_schema:\n  <<: *x\n"), 6, 3, ("write the keys",)),
    "a missing anchor": BadFile(make_file("tools: [*all]\n"), 4, 9, ("repeats nothing", "needs quotes")),
    "a second document": BadFile(make_file("--- x\n"), 4, 1, ("second YAML document",)),
    "a huge number": BadFile(make_file("max_turns: 99999999999999999999999\n"), 4, 12, ("too large", "quotes")),
    "not a number": BadFile(make_file("max_turns: .nan\n"), 4, 12, ("no JSON value",)),
    "a bare template": BadFile(make_tool("prompt: {{text}}\n"), 6, 14, ("needs quotes",)),
    "a control character": BadFile(make_file("model: a\x07b\n"), 4, 9, ("U+0007", "remove it")),
    # keys and their kinds
    "an unknown key": BadFile(make_file("modle: x\n"), 4, 1, ("`modle` is no key of an agent", "`model`")),
    "camel case": BadFile(make_file("maxTurns: 3\n"), 4, 1, ("did you mean `max_turns`?",)),
    "a bad name": BadFile("---\nname: Code Reviewer\n---\nx\n", 2, 7, ("letters, digits", "write `code-reviewer`")),
    "a long name": BadFile(f"---\nname: {'a' * 65}\n---\nx\n", 2, 7, ("65 characters; at most 64",)),
    "a number as name": BadFile("---\nname: 1.0\n---\nx\n", 2, 7, ("text is needed, not number 1.0", "in quotes")),
    "an empty key": BadFile(make_file("model:\n"), 4, 7, ("not nothing", "remove the key")),
    "a description as list": BadFile("---\nname: t\ndescription: [a]\n---\nx\n", 3, 14, ("text is needed",)),
    "tools as text": BadFile(make_file("tools: Read, Grep\n"), 4, 8, ("a list such as [git-status, web_*]",)),
    "tools with a blank": BadFile(make_file("tools: [git status]\n"), 4, 9, ("`git-*` is needed", "git status")),
    "a number among tools": BadFile(make_file("tools: [a, 7]\n"), 4, 12, ("tools.1: text is needed", "in quotes")),
    "agents as text": BadFile(make_file("agents: helper\n"), 4, 9, ("a list such as [researcher, reviewer]",)),
    "turns of zero": BadFile(make_file("max_turns: 0\n"), 4, 12, ("a whole number of at least 1",)),
    "turns as text": BadFile(make_file('max_turns: "3"\n'), 4, 12, ("a whole number of at least 1", 'string "3"')),
    "an unknown limit": BadFile(make_file("limits:\n  max_deepth: 1\n"), 5, 3, ("`max_deepth`", "`max_depth`")),
    "a limit of half": BadFile(make_file("limits: {max_depth: 0.5}\n"), 4, 21, ("limits.max_depth: a whole number",)),
    "limits as list": BadFile(make_file("limits: [1]\n"), 4, 9, ("a mapping such as {max_depth: 2",)),
    "no time": BadFile(make_file("limits: {run_timeout: 0}\n"), 4, 23, ("a number above 0",)),
    "an unknown model": BadFile(make_file("model: gpd-5\n"), 4, 8, ("model: no such model",)),
    "an unknown runtime": BadFile(make_file("runtime: cladue\n"), 4, 10, ("no `cladue`", "`claude`", "codex")),
    "a bad schema": BadFile(
        make_file("result_schema:\n  type: object\n  properties:\n    a: {type: strin}\n"),
        *(7, 9, ('result_schema.properties.a.type: "strin" is no JSON type', "string")),
    ),
    "a flag as required": BadFile(
        make_file("result_schema:\n  properties:\n    a:\n      type: string\n      required: true\n"),
        *(8, 7, ("a list of names beside `properties`",)),
    ),
    "a foreign reference": BadFile(
        make_file('result_schema: {$ref: "https://example.org/x.json"}\n'), 4, 16, ("never fetched", "$defs")
    ),
    "a gate with both": BadFile(make_file("gates: [{command: x, files: [y]}]\n"), 4, 9, ("either {command:",)),
    "a gate of another key": BadFile(
        make_file("gates: [{command: x, time: 3}]\n"), 4, 22, ("`time` is no key of a gate", "`timeout`")
    ),
    "a gate of files with time": BadFile(make_file("gates: [{files: [y], timeout: 3}]\n"), 4, 22, ("only a command",)),
    "a gate for a shell": BadFile(make_file("gates: [{command: a && b}]\n"), 4, 19, ("no shell is started", "`&&`")),
    "a gate with an open quote": BadFile(make_file('gates: [{command: a "b}]\n'), 4, 19, ("quotes do not match",)),
    "a gate outside the folder": BadFile(make_file("gates: [{files: [a, ../b]}]\n"), 4, 21, ("leads out of",)),
    "a gate of no files": BadFile(make_file("gates: [{files: []}]\n"), 4, 17, ("name at least one",)),
    # custom tools
    "a tool without a name": BadFile(make_file("tools:\n  - prompt: x\n"), 5, 5, ("needs a `name`",)),
    "a tool without a prompt": BadFile(make_tool("description: x\n"), 5, 5, ("needs a `prompt`", "{{text}}")),
    "an unknown key of a tool": BadFile(make_tool(GOOD_TOOL + "modle: x\n"), 9, 5, ("`modle`", "mean `model`?")),
    "two tools of one name": BadFile(
        make_tool(GOOD_TOOL).replace("---\nBe", "  - {name: sum, description: d, prompt: p}\n---\nBe"),
        *(9, 6, ("has a custom tool `sum` already",)),
    ),
    "parameters and input_schema": BadFile(
        make_tool(GOOD_TOOL + "input_schema: {type: object}\n"), 9, 5, ("`parameters` or `input_schema`, not both",)
    ),
    "a parameter as text": BadFile(
        make_tool("description: d\nprompt: x {{n}}\nparameters:\n  n: number\n"), 9, 7, ("{type: number} is needed",)
    ),
    "an unknown type": BadFile(
        make_tool("description: d\nprompt: x {{n}}\nparameters:\n  n: {type: strng}\n"),
        *(9, 17, ("one of string, number", "did you mean 'string'?")),
    ),
    "required as yes": BadFile(
        make_tool("description: d\nprompt: x {{n}}\nparameters:\n  n: {type: string, required: yes}\n"),
        *(9, 35, ("parameters.n.required: true or false is needed", '"yes"')),
    ),
    "parameters that are no object": BadFile(
        make_tool("description: d\nprompt: x\ninput_schema: {type: array}\n"), 8, 20, ('must be "object"',)
    ),
    "a cache of yes": BadFile(make_tool(GOOD_TOOL + "cache: yes\n"), 9, 12, ("cache: true or false is needed",)),
    "a bad model of a tool": BadFile(make_tool(GOOD_TOOL + "model: gpd\n"), 9, 12, ("tools.0.model: no such model",)),
    # what a reader cannot see
    "hidden in the description": BadFile(
        '---\nname: t\ndescription: "a\\u202eb"\n---\nx\n', 3, 14, ("U+202E RIGHT-TO-LEFT OVERRIDE", "remove it")
    ),
    "hidden in the body": BadFile(make_file("", "One.\nTwo \u200bthree.\n"), 6, 5, ("U+200B", "instructions")),
    "hidden in a schema": BadFile(
        make_file('result_schema: {description: "a\\u200bb"}\n'), 4, 17, ("result_schema.description", "U+200B")
    ),
    # what is probably a mistake, and keeps nothing out
    "a place without a parameter": BadFile(
        make_tool("description: d\nprompt: |\n  Sum up:\n  now {{txt}}\nparameters: {text: {type: string}}\n"),
        *(9, 11, ("`{{txt}}` has no parameter", "did you mean `{{text}}`?"), "warning"),
    ),
    "a parameter without a place": BadFile(
        make_tool('description: d\nprompt: "{{a}}"\nparameters:\n  a: {type: string}\n  b: {type: string}\n'),
        *(10, 7, ("`b` has no place", "{{b}}"), "warning"),
    ),
    "a default that does not fit": BadFile(
        make_tool('description: d\nprompt: "{{a}}"\nparameters: {a: {type: boolean, default: no}}\n'),
        *(8, 17, ("default",), "warning"),
    ),
    "a tool without a description": BadFile(make_tool("prompt: x\n"), 5, 5, ("no description",), "warning"),
    "no description": BadFile("---\nname: t\n---\nx\n", 2, 1, ("no `description`", "when to use"), "warning"),
    "no body": BadFile("---\ndescription: d\n---\n", 3, 1, ("no instructions", "built-in"), "warning"),
    "a key of Claude Code": BadFile(make_file("color: red\n"), 4, 1, ("`color`", "no effect"), "warning"),
    # what is not used here
    "a tool of Claude Code": BadFile(make_file("tools: [Read]\n"), 4, 9, ("Claude Code's own tool",), "note"),
    # files of Claude Code
    "an unknown key there": BadFile(
        make_file("descripton: x\n"), 4, 1, ("`descripton`", "`description`"), "warning", "claude"
    ),
    "two spellings": BadFile(
        make_file("maxTurns: 3\nmax_turns: 3\n"), 5, 1, ("another spelling", "remove one"), "error", "claude"
    ),
    "a name with a blank there": BadFile(
        "---\nname: Code Reviewer\ndescription: d\n---\nx\n", 2, 7, ("called `code-reviewer` here",), "note", "claude"
    ),
}
