"""What every driver in Python stands on: what is tried and expected, and how a driver says how it went.

A driver runs in its client's environment, so nothing but the standard library may be imported here. Its one
argument is a file that says where the server is; for each check it writes one line of JSON to stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

STOCK = {"items": [{"sku": "AB-1", "count": 2}, {"sku": "CD-22", "count": 3}]}
BAD_STOCK = {"items": [{"sku": "wrong", "count": 2}]}
POINTER = "/items/0/sku"
ORDER = {**STOCK, "payment": {"kind": "card", "number": "7"}, "speed": "fast"}
TREE = {"root": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}}
UNION = {"phone": "555"}
FIXED = {"lab__echo", "lab__stock", "say-word"}
SECONDS = 30
LIST_CHANGED = "notifications/tools/list_changed"


class PartlyError(Exception):
    """Something works in part; the text says what does not."""


class UntriedError(Exception):
    """Something cannot be tried; the text says why."""


class Answer(NamedTuple):
    """What a call gave."""

    is_error: bool
    text: str
    kinds: tuple[str, ...] = ()


class Connection:
    """A connected client. What a client cannot do is left as it is here."""

    heard: list[str] | None = None
    """The methods of the notifications that it heard, or None where it passes none on."""

    async def tools(self) -> dict[str, Any]:
        """The tools with their schemas, as it would show them to a model."""
        raise NotImplementedError

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool."""
        raise NotImplementedError

    async def follow(self, name: str) -> list[str]:
        """Call a tool; the progress that was seen, such as `1/4`."""
        raise UntriedError("it shows no progress")

    async def call_by_hand(self, name: str, arguments: Mapping[str, Any]) -> Callable[[], Awaitable[None]]:
        """Begin a call; what is returned cancels it as the protocol says, not as the client does."""
        raise UntriedError("it has no way")

    async def talk(self, prompt: str) -> str:
        """Ask an agent with a scripted model; its answer."""
        raise NotImplementedError

    async def prompts(self) -> int:
        """How many prompts it lists."""
        raise UntriedError("it lists none")

    async def resources(self) -> int:
        """How many resources it lists."""
        raise UntriedError("it lists none")

    async def list_anew(self) -> None:
        """Do what the client needs to list the tools again."""

    def spell(self, name: str) -> str:
        """A tool's name as this client has it."""
        return name


class AgentConnection(Connection):
    """An agent whose scripted model calls a tool, with known arguments, when it is asked to use it."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        return Answer(False, await self.talk(f"use {name}"))


def expect(condition: object, otherwise: object) -> None:
    """Fail with a text unless a condition holds."""
    if not condition:
        raise AssertionError(str(otherwise)[:400])


class Probe:
    """Runs checks, and reports each."""

    def __init__(self) -> None:
        self.stage: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        self.is_stdio = self.stage["transport"] == "stdio"
        self.variant: str = self.stage["variant"]
        self.command, *self.arguments = self.stage["command"]
        self._reported = {"close"}

    def wants(self, *names: str) -> bool:
        """Whether any of these checks is to be done."""
        return not set(names).isdisjoint(self.stage["checks"])

    async def check(self, name: str, run: Callable[[], Awaitable[object]], seconds: float = SECONDS) -> None:
        """Run one check, if it is wanted, for a limited time."""
        if not self.wants(name):
            return
        try:
            noted = await asyncio.wait_for(run(), seconds)
            self.report(name, "W", noted if isinstance(noted, str) else "")
        except PartlyError as partly:
            self.report(name, "P", str(partly))
        except UntriedError as untried:
            self.report(name, "-", str(untried))
        except TimeoutError:
            self.report(name, "F", f"nothing within {seconds:g} s")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a group of errors may hold a cancellation
            text = describe_error(error)
            if name in {"prompts", "resources"} and "method not found" in text.lower():
                self.report(name, "-", "the server offers none")
                return
            traceback.print_exc()
            self.report(name, "F", text)

    def report(self, name: str, verdict: str, note: str = "") -> None:
        """Report how a check went."""
        self._reported.add(name)
        print(json.dumps({"check": name, "verdict": verdict, "note": note[:4000]}), flush=True)

    def run(self, run: Callable[[], Awaitable[None]], close: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run the checks, then the one of closing; when the first end in an error, what they left out has failed.

        Args:
            run: Connects, runs the checks and closes.
            close: Connects, leaves a call alone and closes.
        """
        # `asyncio.run` would wait for calls that were left alone in other threads.
        try:
            asyncio.new_event_loop().run_until_complete(run())
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what was seen of it
            traceback.print_exc()
            for name in self.stage["checks"]:
                if name not in self._reported:
                    self.report(name, "F", describe_error(error))
        if close is not None:
            asyncio.new_event_loop().run_until_complete(self.check("close", close))
        os._exit(0)

    def drop_tool(self) -> None:
        """Put the new tool's file among the others."""
        source, target = self.stage["hot"]
        shutil.copy(source, target)

    async def log_has(self, line: str, seconds: float = 5) -> bool:
        """Whether the tools note this line, now or soon."""
        for _ in range(int(seconds * 20)):
            log = Path(self.stage["log"])
            if log.exists() and line in log.read_text(encoding="utf-8").splitlines():
                return True
            await asyncio.sleep(0.05)
        return False

    async def run_checks(self, connection: Connection) -> None:
        """Run every check that needs no more than a connection."""
        checks = Checks(self, connection)
        await self.check("shape", checks.try_shape)
        for name in ("list", "call", "errors", "nested", "union", "progress", "image", "ask", "sample"):
            await self.check(name, getattr(checks, f"try_{name}"))
        for name in ("prompts", "resources", "reload", "cancel"):
            await self.check(name, getattr(checks, f"try_{name}"))


class Checks:
    """The checks over a connection."""

    def __init__(self, probe: Probe, connection: Connection) -> None:
        self._probe = probe
        self._connection = connection

    async def try_list(self) -> None:
        """The tools are there."""
        names = set(await self._connection.tools())
        expect(names >= {self._connection.spell(name) for name in FIXED}, sorted(names))

    async def try_shape(self) -> str:
        """The only tool, as a model would be shown it."""
        return json.dumps(await self._connection.tools(), default=str)

    async def try_call(self) -> None:
        """A plugin's tool and one from a file answer."""
        await self._expect_text("lab__echo", {"text": "hi"}, "echo: hi")
        await self._expect_text("say-word", {"word": "yes"}, "said yes")

    async def try_errors(self) -> str | None:
        """Bad arguments are explained."""
        answer = await self._connection.call("lab__stock", BAD_STOCK)
        if POINTER in answer.text:
            return None if answer.is_error else "as text"
        expect("sku" in answer.text, answer)
        raise PartlyError(f"it refuses them itself: {answer.text}")

    async def try_nested(self) -> None:
        """Nested and recursive schemas arrive, and calls with them go through."""
        tools = await self._connection.tools()
        shown = json.dumps(
            [tools.get(self._connection.spell(name)) for name in ("lab__order", "lab__tree")], default=str
        )
        await self._expect_text("lab__order", ORDER, "5 pieces by card")
        await self._expect_text("lab__tree", TREE, "depth 3")
        if '"children"' not in shown or '"number"' not in shown:
            raise PartlyError(f"it calls them, and shows only {shown}")

    async def try_union(self) -> None:
        """A tool with a choice at the top level is there."""
        tools = await self._connection.tools()
        expect(self._connection.spell("lab__union") in tools, f"not listed; {sorted(tools)}")
        await self._expect_text("lab__union", UNION, "reached by phone")

    async def try_progress(self) -> str:
        """All steps are seen."""
        seen = await self._connection.follow("lab__slow")
        if 0 < len(seen) < 4:
            raise PartlyError(f"{len(seen)} of 4")
        expect(len(seen) == 4, f"{len(seen)} of 4: {seen}")
        return "4 of 4"

    async def try_image(self) -> None:
        """An image arrives as one; with an agent, whoever plays its model has to say so."""
        answer = await self._connection.call("lab__picture", {})
        if isinstance(self._connection, AgentConnection):
            raise UntriedError(answer.text)
        expect("image" in answer.kinds, answer)

    async def try_ask(self) -> None:
        """A tool asks the client's person."""
        await self._expect_text("lab__ask", {}, "Ada")

    async def try_sample(self) -> None:
        """A tool asks the client's model."""
        await self._expect_text("lab__think", {}, "thought: seven")

    async def try_prompts(self) -> str:
        """Prompts are listed."""
        return f"{await self._connection.prompts()} listed"

    async def try_resources(self) -> str:
        """Resources are listed."""
        return f"{await self._connection.resources()} listed"

    async def try_reload(self) -> str:
        """A tool that comes meanwhile is heard of, or listed."""
        connection = self._connection
        self._probe.drop_tool()
        for _ in range(50):
            if connection.heard is not None and LIST_CHANGED in connection.heard:
                break
            await asyncio.sleep(0.1)
        is_heard = connection.heard is not None and LIST_CHANGED in connection.heard
        if "hot" not in await connection.tools():
            await connection.list_anew()
            expect("hot" in await connection.tools(), f"not listed; heard {connection.heard}")
            await self._expect_text("hot", {}, "hot indeed")
            raise PartlyError("only after it was told to list anew")
        await self._expect_text("hot", {}, "hot indeed")
        if connection.heard is not None and not is_heard:
            raise PartlyError("listed on request, but list_changed was not heard")
        return "heard" if is_heard else "listed on request"

    async def try_cancel(self) -> None:
        """A call that is given up ends in the tool too."""
        task = asyncio.ensure_future(self._connection.call("lab__wait", {"tag": "task"}))
        expect(await self._probe.log_has("began task", 10), "it never began")
        task.cancel()
        await asyncio.wait([task], timeout=5)
        if await self._probe.log_has("cancelled task", 3):
            return
        try:
            cancel = await self._connection.call_by_hand("lab__wait", {"tag": "told"})
        except UntriedError:
            raise AssertionError("the tool runs on") from None
        expect(await self._probe.log_has("began told"), "the second one never began")
        await cancel()
        expect(await self._probe.log_has("cancelled told"), "not even with notifications/cancelled")
        raise PartlyError("only when notifications/cancelled is sent by hand")

    async def _expect_text(self, name: str, arguments: Mapping[str, Any], text: str) -> None:
        answer = await self._connection.call(self._connection.spell(name), arguments)
        if "did not declare" in answer.text:
            raise UntriedError("it does not declare that it can")
        expect(text in answer.text and not answer.is_error, answer)


def describe_error(error: BaseException) -> str:
    """The innermost of errors that came together, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]
