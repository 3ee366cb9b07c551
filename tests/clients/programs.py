"""Programs for people: agents on a terminal, each with a scripted model, and the MCP Inspector's command line.

A program is started once with a prompt that makes its model use every tool; what its model received says what
works. A second start is interrupted in the middle of a call.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests import machine
from tests.clients.results import Outcome
from tests.clients.stage import Stage
from tests.clients.table import Client
from tests.e2e.captured import results_of
from tests.programs.running import running
from toolstead.adapters.codex.program import write_models
from toolstead.testing import Captured, ScriptedModels

SECONDS = 150
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAA"
"""How the picture of the fixtures begins, in base64."""
_EXPECTED = {
    "call": ("echo: hi", "said yes"),
    "errors": ("/items/0/sku",),
    "nested": ("5 pieces by card", "depth 3"),
    "union": ("reached by phone",),
    "reload": ("hot indeed",),
    "ask": ("answered",),
    "sample": ("thought",),
}
_ORDER = {
    "items": [{"sku": "AB-1", "count": 2}, {"sku": "CD-22", "count": 3}],
    "payment": {"kind": "card", "number": "7"},
}
_TREE = {"root": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}}
_REFUSALS = {
    "ask": re.compile(r"this client cannot be asked: ([^\"\\\n]*)"),
    "sample": re.compile(r"this client's model cannot be used: ([^\"\\\n]*)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a program is started.

    Attributes:
        command: The program with its arguments, but for the prompt, which comes last.
        environ: What it needs in its environment.
    """

    command: Sequence[str]
    environ: Mapping[str, str]


Prepare = Callable[[Path, Stage, ScriptedModels, str], Start]
"""Writes a program's settings into the stage's home: from its environment, the stage, the models, the variant."""


def _node(folder: Path, name: str) -> list[str]:
    return [str(machine.node()), str(folder / "node_modules" / ".bin" / name)]


def _prepare_claude(folder: Path, stage: Stage, models: ScriptedModels, variant: str) -> Start:
    environ = {
        **models.environ(),
        "CLAUDE_CONFIG_DIR": str(stage.home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(stage.home / "tmp"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        **({} if variant == "as added" else {"MCP_CONNECTION_NONBLOCKING": "0"}),
    }
    (stage.home / "tmp").mkdir(exist_ok=True)
    claude = str(machine.claude())
    target = ["--transport", "http", "toolstead", stage.url] if stage.url else ["toolstead", "--", *stage.command]
    add = [claude, "mcp", "add", "--scope", "user", *target]
    surroundings = {**stage.environ, **environ}
    subprocess.run(add, cwd=stage.project, env=surroundings, capture_output=True, timeout=SECONDS, check=True)
    return Start(command=[claude, "--allowedTools", "mcp__toolstead", "-p"], environ=environ)


def _prepare_codex(folder: Path, stage: Stage, models: ScriptedModels, variant: str) -> Start:
    home = stage.home / ".codex"
    home.mkdir(exist_ok=True)
    environ = {**models.environ(), "CODEX_HOME": str(home)}
    catalogue = write_models(machine.codex(), home, {**stage.environ, **environ})
    settings: dict[str, Any] = {
        "model_catalog_json": str(catalogue),  # in its own list models write programs, in which our tools are hidden
        "model": "gpt-6.1-sol",
        "model_provider": "lab",
        "model_providers.lab.name": "lab",
        "model_providers.lab.base_url": f"{models.url}/v1",
        "model_providers.lab.wire_api": "responses",
        "model_providers.lab.env_key": "OPENAI_API_KEY",
        "model_providers.lab.supports_websockets": False,
        "features.plugins": False,
        "features.apps": False,
        "features.remote_plugin": False,
        "features.skill_mcp_dependency_install": False,
        "mcp_servers.toolstead.default_tools_approval_mode": "approve",
    }
    if variant != "as added":
        settings["mcp_servers.toolstead.required"] = True
    if stage.url:
        settings["mcp_servers.toolstead.url"] = stage.url
    else:
        settings["mcp_servers.toolstead.command"] = stage.command[0]
        settings["mcp_servers.toolstead.args"] = list(stage.command[1:])
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (home / "config.toml").write_text(text)
    return Start(command=[str(machine.codex()), "exec", "--skip-git-repo-check"], environ=environ)


def _prepare_gemini(folder: Path, stage: Stage, models: ScriptedModels, variant: str) -> Start:
    server: dict[str, Any] = {"httpUrl": stage.url}
    if not stage.url:
        server = {"command": stage.command[0], "args": list(stage.command[1:]), "env": {"HOME": str(stage.home)}}
    settings = {
        "mcpServers": {"toolstead": {**server, "trust": True}},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (stage.home / ".gemini").mkdir(exist_ok=True)
    (stage.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    environ = {**models.environ(), "GEMINI_API_KEY": "any", "GEMINI_CLI_NO_RELAUNCH": "true"}
    options = ["--model", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust", "--prompt"]
    return Start(command=[*_node(folder, "gemini"), *options], environ=environ)


def _prepare_opencode(folder: Path, stage: Stage, models: ScriptedModels, variant: str) -> Start:
    server: dict[str, Any] = {"type": "remote", "url": stage.url, "enabled": True}
    if not stage.url:
        server = {"type": "local", "command": list(stage.command), "enabled": True}
    able = {"tool_call": True, "attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "lab",
        "options": {"baseURL": f"{models.url}/v1", "apiKey": "any"},
        "models": {"scripted": {"name": "scripted", **able}},
    }
    config = {"mcp": {"toolstead": server}, "provider": {"lab": provider}, "permission": "allow", "autoupdate": False}
    path = stage.home / "opencode.json"
    path.write_text(json.dumps(config))
    environ = {
        **models.environ(),
        "OPENCODE_CONFIG": str(path),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }
    program = str(folder / "node_modules" / ".bin" / "opencode")
    return Start(command=[program, "run", "--model", "lab/scripted"], environ=environ)


def _prepare_llm(folder: Path, stage: Stage, models: ScriptedModels, variant: str) -> Start:
    server: dict[str, Any] = {"type": "http", "url": stage.url}
    if not stage.url:
        server = {
            "type": "stdio",
            "command": stage.command[0],
            "args": list(stage.command[1:]),
            "env": {"HOME": str(stage.home), "PATH": stage.environ["PATH"]},
        }
    for name, text in {
        ".llm-tools-mcp/mcp.json": json.dumps({"mcpServers": {"toolstead": server}}),
        "llm/extra-openai-models.yaml": json.dumps(
            [
                {
                    "model_id": "scripted",
                    "model_name": "scripted",
                    "api_base": f"{models.url}/v1",
                    "supports_tools": True,
                    "vision": True,
                }
            ]
        ),
    }.items():
        path = stage.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    environ = {**models.environ(), "LLM_USER_PATH": str(stage.home / "llm")}
    options = ["-m", "scripted", "-T", "MCP", "--cl", "30", "--no-stream"]
    return Start(command=[str(folder / "bin" / "llm"), *options], environ=environ)


PROGRAMS: Mapping[str, Prepare] = MappingProxyType(
    {
        "claude": _prepare_claude,
        "codex": _prepare_codex,
        "gemini": _prepare_gemini,
        "opencode": _prepare_opencode,
        "llm": _prepare_llm,
    }
)


async def meet_inspector(folder: Path, stage: Stage, checks: Sequence[str]) -> dict[str, Outcome]:
    """Start the Inspector's command line once for each check."""
    target = [stage.url] if stage.url else list(stage.command)
    program = [*_node(folder, "mcp-inspector"), "--cli", *target, "--method"]
    call = ["tools/call", "--tool-name"]
    order, tree = (json.dumps(value) for value in (_ORDER["payment"], _TREE["root"]))
    items = json.dumps(_ORDER["items"])
    started = {
        "list": (["tools/list"], "lab__echo"),
        "call": ([*call, "lab__echo", "--tool-arg", "text=hi"], "echo: hi"),
        "errors": ([*call, "lab__stock", "--tool-arg", 'items=[{"sku": "wrong", "count": 2}]'], "/items/0/sku"),
        "nested": ([*call, "lab__tree", "--tool-arg", f"root={tree}"], "depth 3"),
        "union": ([*call, "lab__union", "--tool-arg", "phone=home"], "reached by phone"),
        "image": ([*call, "lab__picture"], PIXEL),
        "prompts": (["prompts/list"], '"prompts"'),
        "resources": (["resources/list"], '"resources"'),
    }
    found: dict[str, Outcome] = {}
    for check in checks:
        arguments, expected = started[check]
        said, error = await _run(Start(command=[*program, *arguments], environ={}), stage)
        found[check] = Outcome(verdict="W" if expected in said else "F", note="" if expected in said else error or said)
    order_said, _ = await _run(
        Start(
            command=[*program, *call, "lab__order", "--tool-arg", f"items={items}", "--tool-arg", f"payment={order}"],
            environ={},
        ),
        stage,
    )
    if "5 pieces by card" not in order_said:
        found["nested"] = Outcome(verdict="F", note=order_said[-400:])
    return found


async def meet_program(
    client: Client, folder: Path, stage: Stage, models: ScriptedModels, checks: Sequence[str]
) -> dict[str, Outcome]:
    """Start a program, let its model use every tool, and judge by what that received."""
    start = await asyncio.to_thread(PROGRAMS[client.driver], folder, stage, models, client.variant)
    if client.variant == "as added":
        return {"list": await _try_first_requests(start, stage, models)}
    said, error = await _run(start, stage, "please do everything")
    outcomes = judge_model(models.requests, checks, error or said[-300:])
    if "cancel" in checks:
        outcomes["cancel"] = await _try_cancel(start, stage)
    return outcomes


def judge_model(requests: Sequence[Captured], checks: Sequence[str], last: str) -> dict[str, Outcome]:
    """What works, by what a model received.

    Args:
        requests: All of its requests.
        checks: What is wanted.
        last: What the program said at its end.
    """
    asked = [request for request in requests if "do everything" in json.dumps(request.body)]
    if not asked:
        return {check: Outcome(verdict="F", note=f"its model was asked nothing; {last}") for check in checks}
    bodies = [json.dumps(request.body) for request in asked]
    longest = max(asked, key=lambda request: len(results_of(request)))
    results = "\n".join(results_of(longest))
    first = next((body for body in bodies if '"properties"' in body), "")  # others, such as for a title, offer no tool
    offered = "lab__echo" in first
    found = {"list": Outcome(verdict="W" if offered else "F", note="" if offered else "not in the first request")}
    for check, texts in _EXPECTED.items():
        missing = [text for text in texts if text not in results]
        found[check] = (
            Outcome(verdict="F", note=f"no result has {missing}; {last}") if missing else Outcome(verdict="W")
        )
    if "children" not in first and found["nested"].verdict == "W":
        found["nested"] = Outcome(verdict="P", note="the recursive schema did not reach the model")
    has_image = any(PIXEL in body for body in bodies)
    found["image"] = Outcome(verdict="W" if has_image else "F", note="" if has_image else "no image reached the model")
    for check, refusal in _REFUSALS.items():
        if refused := refusal.search(results):
            verdict = "-" if "did not declare" in refused[1] else "F"
            found[check] = Outcome(verdict=verdict, note=refused[1])
    if found["ask"].verdict == "W" and "accept" not in results:
        found["ask"] = Outcome(verdict="W", note="asked; without a person it does not accept")
    return {check: found.get(check, Outcome(verdict="-", note="not tried")) for check in checks}


async def _try_first_requests(start: Start, stage: Stage, models: ScriptedModels) -> Outcome:
    """Whether our tools are in the first request to the model, when nobody waits for them."""
    offered = 0
    for number in range(3):
        before = len(models.requests)
        await _run(start, stage, f"hello {number}")
        bodies = [json.dumps(request.body) for request in models.requests[before:]]
        offered += bool(bodies) and "lab__echo" in next((body for body in bodies if f"hello {number}" in body), "")
    note = f"in the first request of {offered} of 3 runs"
    return Outcome(verdict="W" if offered == 3 else "P" if offered else "F", note=note)


async def _try_cancel(start: Start, stage: Stage) -> Outcome:
    """Interrupt the program in the middle of a call."""
    async with _running(start, stage, "please use lab__wait now") as program:
        reading = asyncio.ensure_future(program.process.communicate())
        for _ in range(600):
            if "began task" in stage.log or reading.done():
                break
            await asyncio.sleep(0.1)
        if "began task" not in stage.log:
            return Outcome(verdict="F", note="the call never began")
        os.kill(program.pid, signal.SIGINT)
        for _ in range(80):
            if "cancelled task" in stage.log:
                return Outcome(verdict="W", note="by interrupting the program")
            await asyncio.sleep(0.1)
    return Outcome(verdict="F", note="the tool runs on after the program was interrupted")


async def _run(start: Start, stage: Stage, prompt: str | None = None) -> tuple[str, str]:
    """What the program said, and why it did not end by itself."""
    async with _running(start, stage, prompt) as program:
        try:
            out, _ = await asyncio.wait_for(program.process.communicate(), SECONDS)
        except TimeoutError:
            return "", f"stopped after {SECONDS} s"
        (stage.home / "program-said.txt").write_bytes(out)
        return (out.decode(errors="replace") + program.stderr), ""


def _running(start: Start, stage: Stage, prompt: str | None) -> Any:
    command = [*start.command, *([prompt] if prompt is not None else [])]
    environ = {**stage.environ, **start.environ}
    null = asyncio.subprocess.DEVNULL
    return running(command, errors=stage.home / "driver.txt", cwd=stage.project, env=environ, stdin=null)
