"""Agents' files that are wrong in every way: each is read or refused in a moment, in little memory."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.attack.harness import Attack, TooSlowError, bounded_work, own_memory
from tests.attack.mutations import Mutator
from toolstead.agents.agent_file import AgentReader, LoadedAgent
from toolstead.types.agent import AgentScope

MOST_OWN_MEMORY = 50 << 20
LARGEST = 300_000
READER = AgentReader(
    model_problem=lambda model: "" if model in ("opus", "gemini-2.5-pro") else f"there is no model {model!r}",
    runtimes=("kernel", "claude", "codex"),
    own_tools=("Read", "Grep", "Bash"),
)
SCOPES: tuple[AgentScope, ...] = ("user", "project", "claude")
DOCUMENTS: list[dict[str, Any]] = [
    {
        "name": "full",
        "description": "Does: all of it.",
        "model": "gemini-2.5-pro",
        "runtime": "kernel",
        "tools": [
            "git-*",
            "Read",
            {
                "name": "sum",
                "description": "Sums up.",
                "prompt": "Sum up:\n\n{{text}} in {{words}} words",
                "parameters": {
                    "text": {"type": "string", "description": "What.", "required": True},
                    "words": {"type": "integer", "default": 100, "minimum": 1},
                },
                "result_schema": {"type": "object", "properties": {"bullets": {"type": "array"}}},
                "tools": ["web_*"],
                "cache": True,
            },
        ],
        "disallowed_tools": ["web_fetch"],
        "agents": ["helper"],
        "max_turns": 5,
        "limits": {"max_depth": 2, "run_timeout": 1.5, "cost_budget": 0.5},
        "result_schema": {
            "type": "object",
            "$defs": {"a": {"pattern": "^a+$"}},
            "properties": {"a": {"$ref": "#/$defs/a"}},
        },
        "gates": [{"command": "pytest -q", "timeout": 300}, {"files": ["a.md"]}],
    },
    {
        "name": "schemas",
        "tools": [
            {
                "name": "ask",
                "prompt": "{{q}}",
                "input_schema": {"type": "object", "properties": {"q": {"anyOf": [{"const": 1}, {"type": "string"}]}}},
            }
        ],
    },
    {
        "name": "Code Reviewer",
        "description": "Use it: now",
        "tools": "Read, Bash(git:*), mcp__toolstead__x",
        "color": "red",
    },
]
PIECES = (
    *(
        "&a ",
        "*a",
        "&a [*a]",
        "!!python/object:os.system ",
        "!x ",
        "<<: *a\n",
        "? ",
        "? [a]\n: b\n",
        "- ",
        "-",
        ": ",
        ":",
    ),
    *("|\n", ">\n", "|2\n", ">-\n", "'", '"', "\\", '"\\U0011ffff"', '"\\ud800"', '"\\x"', "#", " #", "%YAML 1.1\n"),
    *("%TAG ! tag:x,2000:\n", "---\n", "--- x\n", "...\n", "\t", " ", "  ", "\n", "\r", "\r\n", "\x00", "\x07", "\x85"),
    *("\u2028", "\ufeff", "\u202e", "\u200b", "😀", "{", "}", "[", "]", ",", "{{", "}}", "{{text}}", "@", "`", "~"),
    *("null", "yes", "no", "on", ".inf", "-.inf", ".nan", "1e999", "0x" + "f" * 50, "0o777", "1_000", "9" * 400, "007"),
    *("2026-01-31", "12:30:45", "=", "<example>", "name: ", "tools:\n", "description: |\n  a: b\n", "model: inherit\n"),
)


def make_file(chance: Random, mutator: Mutator) -> bytes:
    """An agent's file with something wrong in it."""
    roll = chance.random()
    if roll < 0.35:  # the structure is changed; JSON is YAML too
        text = mutator.document(chance.choice(DOCUMENTS))[:LARGEST].decode("utf-8", "replace")
        if chance.random() < 0.5:
            text = _write_as_yaml(text) or text
    else:
        text = yaml.safe_dump(
            chance.choice(DOCUMENTS), sort_keys=False, default_flow_style=chance.choice((None, False))
        )
    for _ in range(chance.choice((0, 1, 1, 2, 5, 20))):
        text = _change_text(chance, text)
    body = chance.choice(("", "Body.\n", "{{x}}\n---\n", "\u200b", "x" * 1_000))
    opening, closing = chance.choices(
        (("---\n", "\n---\n"), ("---\n", ""), ("", ""), ("\ufeff---  \r\n", "\r\n--- \r\n")), weights=(90, 3, 2, 5)
    )[0]
    data = f"{opening}{text}{closing}{body}"[:LARGEST].encode("utf-8", "replace")
    if chance.random() < 0.03 and data:
        at = chance.randrange(len(data))
        data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    return data


def _write_as_yaml(text: str) -> str | None:
    """A JSON text as blocks of YAML; None where it is no JSON, or too deep to be written."""
    try:
        return yaml.safe_dump(json.loads(text), sort_keys=False)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def _change_text(chance: Random, text: str) -> str:
    """A text with one change: a piece put in or repeated, lines swapped, doubled, cut or indented."""
    at = chance.randrange(len(text) + 1)
    match chance.randrange(7):
        case 0 | 1:
            return text[:at] + chance.choice(PIECES) + text[at:]
        case 2:
            return text[:at] + chance.choice(PIECES) * chance.choice((10, 100, 1_000, 20_000)) + text[at:]
        case 3:
            return text[:at] + text[at + chance.choice((1, 1, 10, 100)) :]
        case _:
            lines = text.split("\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            match chance.randrange(4):
                case 0:
                    lines[one], lines[other] = lines[other], lines[one]
                case 1:
                    lines.insert(one, lines[other])
                case 2:
                    lines[one] = chance.choice((" ", "  ", "\t", "- ", "? ")) * chance.choice((1, 2, 100)) + lines[one]
                case _:
                    del lines[one:other]
            return "\n".join(lines)


async def attack(attack: Attack) -> None:
    """Read so many files, each under a bound of processor time; memory is measured around reading, not making."""
    mutator = Mutator(attack.chance, longest=LARGEST // 8)
    READER.read(Path("warm.md"), b"---\nresult_schema: {pattern: '(?=a)'}\n---\n", "user")  # imports are no growth
    grown = most = 0
    for _ in range(attack.count):
        if attack.is_over:
            attack.note("the time was over before the count")
            break
        data = make_file(attack.chance, mutator)
        scope = attack.chance.choice(SCOPES)
        before = own_memory()
        _read(attack, data, scope)
        grown += own_memory() - before
        most = max(most, grown)
    attack.check("memory bounded", most < MOST_OWN_MEMORY, f"grew by {most >> 20} MB")
    attack.note(f"grew by at most {most >> 20} MB")


def _read(attack: Attack, data: bytes, scope: AgentScope) -> None:
    what = f"read as {scope}"
    try:
        with bounded_work():
            loaded = READER.read(Path("tried.md"), data, scope)
    except TooSlowError as slow:
        place = traceback.extract_tb(slow.__traceback__)[-1]
        attack.fail(what, f"more than 1 s of processor time, in {place.name}, {place.filename}:{place.lineno}", data)
    except Exception:  # noqa: BLE001 - whatever it raises is the fault that is looked for
        attack.fail(what, traceback.format_exc(limit=-2)[-400:], data)
    else:
        attack.check(what, not (reason := find_fault(loaded, data)), reason, data)


def find_fault(loaded: LoadedAgent, data: bytes) -> str:
    """What is wrong with an answer; empty when it holds."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    if loaded.agent is None and not loaded.findings:
        return "no agent, and no finding that says why"
    if loaded.agent is not None and any(finding.severity == "error" for finding in loaded.findings):
        return "an agent in spite of an error"
    for finding in loaded.findings:
        if not finding.message.isprintable() or not 1 <= (finding.line or 0) <= lines or (finding.column or 0) < 1:
            return f"a finding that cannot be shown or is in no line: {finding}"
    return ""
