"""Hostile values through shell tools of a real server: each arrives exactly or is refused, and nothing else runs.

The programs print their arguments, each ended by a null byte. Whatever ran besides would leave a file in the folder
that the values name, or in the project.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.attack.corpora import commands_of_programs, naughty_strings
from tests.attack.harness import Attack, Target, TooSlowError, bounded_work, serving, share_work, watched
from tests.e2e.hostile_values import by_hand, generated
from tests.e2e.test_shell_injection import SHOW, TEMPLATES
from tests.flows.tool_files import shell, tool
from toolstead import validate_tool_file

AT_ONCE = 6
EFFECTS: list[tuple[str, Any]] = [
    ("vi {{x}}", "+call writefile(['a'],'MARK')|qa!"),
    ("vim -es -u NONE {{x}}", "+call writefile(['a'],'MARK')|qa!"),
    ("ex {{x}}", "+!touch MARK"),
    ("ed {{x}}", "!touch MARK"),
    ("git {{x}}", ["-c", "alias.zz=!touch MARK", "zz"]),
    ("git {{x}} && git status", ["config", "core.fsmonitor", "touch MARK; false"]),
    ("git config {{x}} {{y}} && git status", ["core.fsmonitor", "touch MARK; false"]),
    ("git -c {{x}} status", "core.fsmonitor=touch MARK; false"),
    ("git bisect {{x}}", ["run", "touch", "MARK"]),
    ("git grep {{x}}", ["-Otouch MARK", "a"]),
    ("setarch -R {{x}}", ["touch", "MARK"]),
    ("setarch x86_64 {{x}}", ["touch", "MARK"]),
    ("env {{x}}", ["touch", "MARK"]),
    ("nice {{x}}", ["touch", "MARK"]),
    ("timeout 5 {{x}}", ["touch", "MARK"]),
    ("find . {{x}}", ["-fprint", "MARK"]),
    ("git log {{x}}", "--output=MARK"),
    ("tar -cf /dev/null {{x}}", ["--checkpoint=1", "--checkpoint-action=exec=touch MARK", "."]),
    ("echo {{x}} | xargs find", ". -maxdepth 0 -exec touch MARK ;"),
    ("echo {{x}} | xargs tar -cf /dev/null", ". --checkpoint=1 '--checkpoint-action=exec=touch MARK'"),
    ("echo {{x}} | xargs sort", "/dev/null -o MARK"),
    ("cat {{x}} | xargs sort", "WORDS"),
    ("perl script.pl {{x}}", "touch MARK|"),
    ("awk {{x}} /dev/null", 'BEGIN{system("touch MARK")}'),
    ("sed -n {{x}} script.pl", "w MARK"),
    ("python3 {{x}}", ["-c", "open('MARK','w')"]),
    ("choom -n 0 {{x}}", ["touch", "MARK"]),
    ("ssh-agent {{x}}", ["touch", "MARK"]),
]
"""Programs that run what they are given, and a value that makes them: refused when loaded, or when called."""
_MANY = {"type": "array", "items": {"type": "string"}}


async def attack(attack: Attack) -> None:
    """Every value in one place, or in every place where the count allows it."""
    canary = attack.folder / "canary"
    canary.mkdir()
    ways = commands_of_programs(attack)
    _count_templates(attack, ways)
    values = [*naughty_strings(attack), *(code for codes in ways.values() for code in codes)]
    values = [value.replace("/bin/sh", f"touch {canary}/corpus") for value in values]
    values += [*by_hand(canary), *generated(canary, max(attack.count - len(values), 200), attack.seed)]
    attack.chance.shuffle(values)
    tools = [
        *(shell(name, template.command, "x", "y") for name, template in TEMPLATES.items()),
        tool("array", {"type": "shell", "command": f"{SHOW} {{{{xs}}}} end"}, {"xs": _MANY}),
        shell("text", "cat", "x", stdin="{{x}}"),
    ]
    places = [*TEMPLATES, "array", "text"]
    jobs = [(places[number % len(places)], value) for number, value in enumerate(values[: attack.count])]
    async with serving(attack.folder / "server", "tools.max_output=4194304", tools=tools) as target:
        before, here = target.memory, set(target.project.rglob("*"))
        async with watched(attack, target):
            await share_work(jobs, lambda job: _try(attack, target, *job), at_once=AT_ONCE)
        appeared = [*canary.iterdir(), *(set(target.project.rglob("*")) - here)]
        attack.check("no file appeared", not appeared, f"appeared: {appeared[:5]}")
        await target.check_end(attack, before=before)
    await _try_effects(attack)


async def _try_effects(attack: Attack) -> None:
    """Each template in a tool of its own; what loads is called with the value."""
    folder = attack.folder / "effects"
    marks = attack.folder / "marks"
    marks.mkdir()
    tools: list[Any] = []
    inputs: list[Any] = []
    for number, (command, value) in enumerate(EFFECTS):
        words = json.loads(json.dumps(value).replace("MARK", str(marks / str(number))))
        two = "{{y}}" in command
        inputs.append({"x": words[0], "y": words[1]} if two else {"x": words})
        kinds = {name: _MANY if isinstance(given, list) else {"type": "string"} for name, given in inputs[-1].items()}
        tools.append(tool(f"effect{number}", {"type": "shell", "command": command, "timeout": 5_000}, kinds))
    async with serving(folder, tools=tools) as target:
        project = target.project
        _make_repository(project, folder)
        (project / "script.pl").write_text("while (<>) { print }\n", encoding="utf-8")
        words = next(number for number, (_, value) in enumerate(EFFECTS) if value == "WORDS")
        (project / "WORDS").write_text(f"-o {marks / str(words)} {os.devnull}\n", encoding="utf-8")
        listed = {one["name"] for one in (await target.ask("GET", "/api/tools")).json["tools"]}
        for number, (command, _) in enumerate(EFFECTS):
            what = "programs that run their values: refused, or no effect"
            if f"effect{number}" not in listed:
                attack.hold(what)
                continue
            await target.call(f"effect{number}", inputs[number])
            ran = (marks / str(number)).exists()
            why = f"{command!r} runs {inputs[number]}".replace(str(marks), "…")
            attack.check(what, not ran, why, json.dumps({"tool": tools[number], "input": inputs[number]}))
        target.check_log(attack)


def _make_repository(project: Path, home: Path) -> None:
    (project / ".git").rmdir()
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=False, env={**os.environ, "HOME": str(home)})


async def _try(attack: Attack, target: Target, place: str, value: str) -> None:
    if attack.is_over:
        return
    given: Any = {"array": {"xs": ["a", value]}, "text": {"x": value}}.get(place, {"x": value, "y": "plain"})
    body = json.dumps({"input": given}).encode()
    reply = await target.call(place, given)
    what = f"{place}: exact or refused"
    if reply.status == 400:  # half a character is no JSON
        held = any("\ud800" <= character <= "\udfff" for character in value)
        attack.check(what, held, f"status 400: {reply.body[:200]!r}", body)
        return
    if reply.status != 200:
        attack.fail(what, f"status {reply.status}: {reply.body[:200]!r}", body)
        return
    answer = reply.json
    said = "".join(part.get("text", "") for part in answer["content"])
    if answer["isError"]:
        known = ("begins with a dash", "null byte", "characters long", "more than", "must be")
        attack.check(what, any(text in said for text in known), f"an error that is no refusal: {said[:200]!r}", body)
        return
    if place == "text":
        wanted = value
    elif place == "array":
        wanted = f"begin\0a\0{value}\0end\0"
    else:
        wanted = TEMPLATES[place].prints(value, "plain")
    attack.check(what, said == wanted, f"arrived as {said[:150]!r}, not {wanted[:150]!r}", body)


def _count_templates(attack: Attack, ways: dict[str, list[str]]) -> None:
    """How many of the known ways to a shell are refused with a placeholder in the program's place: a yardstick."""
    refused = loaded = 0
    open_programs: set[str] = set()
    for program, codes in ways.items():
        for code in codes:
            if "/bin/sh" not in code:
                continue
            try:
                with bounded_work(5):
                    verdict = validate_tool_file(
                        {"name": "a", "tools": [shell("a", code.replace("/bin/sh", "{{x}}"), "x")]}
                    )
            except TooSlowError:
                attack.fail("templates of known ways load in a moment", "more than 5 s of processor time", code)
                continue
            attack.hold("templates of known ways load in a moment")
            refused, loaded = refused + (not verdict.valid), loaded + verdict.valid
            if verdict.valid:
                open_programs.add(program)
    if refused or loaded:
        some = ", ".join(sorted(open_programs)[:60])
        attack.note(f"known ways to a shell with {{{{x}}}} as the program: {refused} refused, {loaded} load ({some})")
