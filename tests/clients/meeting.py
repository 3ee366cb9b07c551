"""One client meets the server: its environment, a stage, a driver that is bounded in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import machine
from tests.clients.bridges import BRIDGES, open_bridge
from tests.clients.environments import CACHE, node_modules_with, python_with
from tests.clients.programs import PIXEL, PROGRAMS, meet_inspector, meet_program
from tests.clients.results import Outcome, to_outcomes
from tests.clients.script import write_script
from tests.clients.stage import Stage, open_stage
from tests.clients.table import CLIENTS, Client
from tests.programs.running import running
from toolstead.testing import Captured, ScriptedModels, scripted_models

DRIVERS = Path(__file__).parent / "drivers"
SECONDS = 240
WITH_ALL = ("nested",)
"""The checks for which no tool is left out."""


async def meet(name: str, transport: str) -> dict[str, Outcome]:
    """Meet a client over a transport.

    Raises:
        InstallError: It cannot be installed.
    """
    client = CLIENTS[name]
    folder = await asyncio.to_thread(_install, name, client)
    parts = [client.checks]
    if client.blocked:
        parts = [[check for check in client.checks if (check in WITH_ALL) == alone] for alone in (False, True)]
    outcomes: dict[str, Outcome] = {}
    for number, checks in enumerate(parts):
        home = CACHE / "homes" / f"{name}-{transport}-{number}"
        blocked = () if number else client.blocked
        async with scripted_models(write_script(client.prefix)) as models:
            if client.driver in BRIDGES:
                outcomes |= await _meet_behind(client, folder, home, transport, models)
                continue
            async with open_stage(home, transport, blocked=blocked) as stage:
                outcomes |= await _meet_on_stage(client, folder, stage, checks, models)
            bodies = [request.body for request in models.requests]
            (home / "requests.json").write_text(json.dumps(bodies), encoding="utf-8")
    return outcomes


async def show_only(client: Client, name: str, stage: Stage) -> Outcome:
    """The tools of a stage as a client would show them to its model.

    Raises:
        InstallError: It cannot be installed.
    """
    folder = await asyncio.to_thread(_install, name, client)
    async with scripted_models(write_script()) as models:
        return (await _drive(_driver_command(folder, client), client, stage, ["shape"], models))["shape"]


async def _meet_behind(
    client: Client, folder: Path, home: Path, transport: str, models: ScriptedModels
) -> dict[str, Outcome]:
    """Meet a bridge. It is named by what its own client speaks; the server speaks the other one."""
    other = "http" if transport == "stdio" else "stdio"
    behind = CLIENTS["ts-sdk-1"]
    command = _driver_command(await asyncio.to_thread(_install, "ts-sdk-1", behind), behind)
    async with open_stage(home, other) as stage, open_bridge(client.driver, folder, stage) as bridged:
        return await _drive(command, behind, bridged, client.checks, models)


async def _meet_on_stage(
    client: Client, folder: Path, stage: Stage, checks: Sequence[str], models: ScriptedModels
) -> dict[str, Outcome]:
    if client.driver == "inspector":
        return await meet_inspector(folder, stage, checks)
    if client.driver in PROGRAMS:
        return await meet_program(client, folder, stage, models, checks)
    found = await _drive(_driver_command(folder, client), client, stage, checks, models)
    return judge_requests(found, models.requests) if client.api else found


def judge_requests(outcomes: Mapping[str, Outcome], requests: Sequence[Captured]) -> dict[str, Outcome]:
    """What an agent did, judged by what its model received, where only that tells."""
    sent = [json.dumps(request.body) for request in requests]
    judged = dict(outcomes)
    if "image" in judged and judged["image"].verdict == "-":
        arrived = any(PIXEL in body for body in sent)
        judged["image"] = Outcome(verdict="W") if arrived else Outcome(verdict="F", note="no image reached the model")
    if judged.get("nested", Outcome(verdict="-")).verdict == "W" and not any("children" in body for body in sent):
        judged["nested"] = Outcome(verdict="P", note="the schema did not reach the model")
    return judged


def _install(name: str, client: Client) -> Path:
    """The folder of a client's environment; for a program that the tests bring along, one that need not exist."""
    if client.python:
        return python_with(name, client.python).parent.parent
    if client.node:
        return node_modules_with(name, client.node).parent
    return CACHE / "environments" / name


def _driver_command(folder: Path, client: Client) -> list[str]:
    """What runs a driver, but for the file that tells it where the server is."""
    if client.python:
        return [str(folder / "bin" / "python"), str(DRIVERS / client.driver)]
    for path in DRIVERS.glob("*.mjs"):  # a module finds packages beside itself only
        (folder / path.name).write_bytes(path.read_bytes())
    return [str(machine.node()), str(folder / client.driver)]


async def _drive(
    command: Sequence[str], client: Client, stage: Stage, checks: Sequence[str], models: ScriptedModels
) -> dict[str, Outcome]:
    """Run a driver to its end, or to the end of its time; what it did not report has failed."""
    told = stage.home / "stage.json"
    more = {"checks": list(checks), "variant": client.variant, "models": models.url}
    told.write_text(json.dumps(stage.to_json(**more)), encoding="utf-8")
    errors, output = stage.home / "driver.txt", b""
    ending = "the driver ended without a word about it"
    async with running(
        [*command, str(told)], errors=errors, cwd=stage.project, env={**stage.environ, **models.environ()}
    ) as program:
        assert program.process.stdout is not None
        reading = asyncio.create_task(_read_lines(program.process.stdout))
        try:
            await asyncio.wait_for(asyncio.shield(reading), SECONDS)
        except TimeoutError:
            ending = f"the driver was stopped after {SECONDS} s"
        last = program.stderr.strip().splitlines()[-1:]
    output = await reading  # its end is the end of the program
    (stage.home / "driver-said.txt").write_bytes(output)
    found = to_outcomes(output.decode(errors="replace"))
    missing = Outcome(verdict="F", note=": ".join([ending, *last])[:500])
    return {check: found.get(check, missing) for check in checks}


async def _read_lines(stream: asyncio.StreamReader) -> bytes:
    return await stream.read()
