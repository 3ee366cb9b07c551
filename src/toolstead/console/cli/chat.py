"""`toolstead chat`: a conversation with an agent, line by line, on any terminal or from a pipe."""

from __future__ import annotations

import asyncio
import re
import signal
from dataclasses import dataclass, field
from typing import Any

import click

from toolstead.app.client import SteadClient
from toolstead.concurrency.termination import take_signals
from toolstead.console.cli.ask import (
    answer_options,
    check_choice,
    find_thread_id,
    mention_open_tasks,
    perform_run,
)
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    echo_text,
    examples,
    run_with_client,
    table_width,
    terminal_width,
    url_option,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.console.cli.message_reader import MessageReader
from toolstead.console.cli.run_output import RunOutput, render_answerer
from toolstead.console.cli.thread_choice import describe_thread, find_answerer, find_thread
from toolstead.console.cli.threads import render_threads
from toolstead.errors import ToolsteadError
from toolstead.nearest_names import suggest
from toolstead.orchestrator.ids import Ids

HISTORY = "chat_history"
"""The file in the data folder that keeps what was typed."""
COMMANDS = {
    "/help": "this",
    "/tools": "the tools that can be called here",
    "/model [NAME]": "which model answers; with a name, that one from now on",
    "/agent [NAME]": "which agent answers; with a name, that one from now on",
    "/new": "begin another conversation",
    "/threads [ID]": "the last conversations; with an id, continue that one",
    "/quit": "leave; so do /exit and Ctrl-D",
}
_WITH_NAME = frozenset(word.split()[0] for word in COMMANDS if word.endswith("]"))
_WORDS = frozenset(word.split()[0] for word in COMMANDS)
_LEAVING = frozenset({"/quit", "/exit"})
_COMMAND = re.compile(r"(/[a-z]+)(?: +(\S+))? *")
_SLIP = re.compile(r"/[a-z]+(?: +\S+)? *")
_KEYS = (
    "A line is a message. One that ends with a backslash goes on in the next line; several lines that are pasted in are"
    " one message where the terminal marks pasted text. Ctrl-C ends the answer that is on its way; what is typed"
    " meanwhile is sent after it. Anything else that begins with a slash goes to the model as typed, and so does a"
    " command with a space before it."
)
_INTERRUPTED = 130
_MOST_LISTED = 10


@click.command(
    "chat",
    epilog=examples("toolstead chat", "toolstead chat -c", "toolstead chat --agent reviewer -m sonnet"),
)
@answer_options
@url_option
@common_options
def chat(invocation: CommandContext, *, url: str | None, goes_on: bool, thread: str | None, **given: Any) -> int:
    """Talk with an agent, line by line: /help says how, Ctrl-D leaves.

    The running server of this project answers; without one, this command does. From a pipe, each line is a message and
    only answers go to stdout; exit status 1 when one of them failed.
    """
    check_choice(goes_on=goes_on, thread=thread)

    async def talk(client: SteadClient) -> int:
        thread_id = await find_thread_id(client, goes_on=goes_on, thread=thread)
        # Between a turn and the next prompt nothing is there to be interrupted.
        before = signal.signal(signal.SIGINT, _ignore_signal)
        reader = MessageReader(invocation.find_places().data / HISTORY, commands=sorted(_WORDS))
        try:
            return await Chat(client=client, reader=reader, options=given, thread_id=thread_id).talk()
        finally:
            reader.close()
            signal.signal(signal.SIGINT, before)

    return run_with_client(invocation, url, talk, owns_output=False)


def _ignore_signal(_number: int, _frame: object) -> None:
    """Do nothing; a handler of Python's own lets the event loop's handlers replace it and come back to it."""


@dataclass(slots=True, kw_only=True)
class Chat:
    """A conversation between a person and an agent.

    Attributes:
        client: The stead that answers.
        reader: Gives what the person types.
        options: The agent, the model and the runtime that were named; None leaves the choice to the thread.
        thread_id: The present thread; None before the first message.
    """

    client: SteadClient
    reader: MessageReader
    options: dict[str, Any]
    thread_id: str | None = None
    _header: str = ""
    _failed: bool = False
    _has_asked: bool = False
    _ids: Ids = field(default_factory=Ids)

    async def talk(self) -> int:
        """Answer until the person leaves; return the exit status."""
        if self.reader.is_terminal:
            click.echo("Type a message. /help lists commands, Ctrl-D leaves.", err=True)
        await self._name_answerer()
        while True:
            try:
                text = await self.reader.read_message()
            except EOFError:
                return self._leave(FAILED if self._failed and not self.reader.is_terminal else DONE)
            except KeyboardInterrupt:
                return self._leave(_INTERRUPTED)
            if text.rstrip(" ") in _LEAVING:
                return self._leave(DONE)
            if text.strip():
                await self._take_message(text)

    async def _name_answerer(self) -> None:
        """Say who answers. Where nothing can, a person may still choose another model; a pipe may not."""
        answerer = await find_answerer(self.client, self.options, self.thread_id)
        try:
            await self.client.check_agent(**answerer.wanted)
        except ToolsteadError as error:
            if not self.reader.is_terminal:
                raise
            self._show_error(error)
            return
        if self.reader.is_terminal:
            model = "" if answerer.runtime == "scripted" else answerer.model
            self._header = render_answerer(answerer.agent, answerer.runtime, model, answerer.why)
            echo_text(self._header, err=True, kind="dim")
            if self.client.url is not None:
                echo_text(f"by the server at {self.client.url}", err=True, kind="dim")

    def _show_error(self, error: Exception) -> None:
        self._failed = True
        text = f"toolstead: {error}"
        if self.reader.is_terminal:
            lines = (click.wrap_text(line, terminal_width() - 1, "", "  ") for line in text.split("\n"))
            text = "\n".join(lines)
        echo_text(text, err=True, kind="bad")

    def _leave(self, status: int) -> int:
        if self.reader.is_terminal:
            goes_on = "; `toolstead chat -c` continues" if self._has_asked else ""
            click.echo(paint_text(f"left{goes_on}", "dim"), err=True)
        return status

    async def _take_message(self, text: str) -> None:
        """Obey a command, or ask the agent; a failure leaves the conversation as it is."""
        command = read_command(text)
        try:
            if command is None:
                if not self._refuse_slip(text):
                    await self._ask(text)
            else:
                await self._obey(*command)
        except ToolsteadError as error:
            self._show_error(error)
        if self.reader.is_terminal:
            click.echo(err=True)  # the next prompt stands apart

    def _refuse_slip(self, text: str) -> bool:
        """Whether it is nearly a command, which is not sent: a person is shown which one, and how it is sent."""
        word = text.split(maxsplit=1)[0]
        if self.reader.is_terminal and _SLIP.fullmatch(text) and (hint := suggest(word, sorted(_WORDS))):
            line = f"{word} is no command, and was not sent; {hint} With a space before it, it is sent as it is"
            echo_text(click.wrap_text(line, terminal_width() - 1, "", "  "), err=True, kind="warning")
            return True
        return False

    async def _ask(self, text: str) -> None:
        """Ask the agent. Ctrl-C ends the run and not the conversation."""
        self.thread_id = self.thread_id or self._ids.new_id("thread")
        answerer = await find_answerer(self.client, self.options, self.thread_id)
        output = RunOutput(
            url=self.client.url,
            answerer=answerer,
            known_header=self._header,
            names_thread=False,
            model_option="/model NAME",
        )
        work = perform_run(self.client, output, text, thread_id=self.thread_id, **self.options)
        running = asyncio.create_task(work, name="toolstead-chat-turn")
        try:
            with take_signals(running.cancel, (signal.SIGINT,)):
                run = await running
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if this is not None and this.cancelling():  # the whole command is to end
                raise
            click.echo("interrupted", err=True)
            return
        finally:
            self._header = output.header
        self._has_asked = True
        self._failed |= output.show_end(run) != DONE
        if "delegate.started" in output.kinds:
            await mention_open_tasks(self.client, run["threadId"])

    async def _obey(self, word: str, name: str | None) -> None:
        """Carry out a command."""
        match word:
            case "/help":
                width = max(map(len, COMMANDS))
                for command, what in COMMANDS.items():
                    click.echo(f"  {command.ljust(width)}  {what}", err=True)
                click.echo(click.wrap_text(_KEYS, terminal_width()), err=True)
            case "/tools":
                rows = [(tool["name"], tool["description"]) for tool in await self.client.list_tools()]
                self._print_lines(render_table(("TOOL", "DESCRIPTION"), rows, width=table_width()))
            case "/model":
                await self._choose_model(name)
            case "/agent":
                await self._choose_agent(name)
            case "/new":
                self.thread_id = None
                click.echo("a new conversation begins", err=True)
            case _:
                await self._choose_thread(name)

    async def _choose_model(self, name: str | None) -> None:
        """Take another model, once it is known that it can be asked; or say which one answers."""
        chosen = self.options if name is None else {**self.options, "model": name}
        answerer = await find_answerer(self.client, chosen, self.thread_id)
        await self.client.check_agent(**answerer.wanted)
        if name is not None:
            self.options["model"] = name
            echo_text(f"model: {name} from now on", err=True)
            return
        model = answerer.model or f"the choice of {answerer.runtime}"
        echo_text(f"model: {model} ({answerer.why or 'the settings'})", err=True)

    async def _choose_agent(self, name: str | None) -> None:
        agents = await self.client.list_agents()
        known = [agent["name"] for agent in agents]
        if name is None:
            rows = [(agent["name"], agent["description"]) for agent in agents]
            self._print_lines(render_table(("AGENT", "DESCRIPTION"), rows, width=table_width()))
        elif name not in known:
            hint = suggest(name, known, otherwise=f"there are: {', '.join(known)}")
            echo_text(f"no agent {name!r}; {hint}", err=True, kind="bad")
            return
        else:
            self.options["agent"] = name
            echo_text(f"agent: {name} from now on", err=True)
            return
        answerer = await find_answerer(self.client, self.options, self.thread_id)
        echo_text(f"agent: {answerer.agent} ({answerer.agent_why})", err=True)

    async def _choose_thread(self, name: str | None) -> None:
        if name is not None:
            found = await find_thread(self.client, name)
            self.thread_id = found["id"]
            echo_text(f"continues {describe_thread(found)}", err=True)
            return
        found = await self.client.list_threads(_MOST_LISTED, own=True, roots=True)
        self._print_lines(render_threads(found, with_project=False) if found else ["there are none yet"])

    def _print_lines(self, lines: list[str]) -> None:
        """What is no answer goes to stderr."""
        for line in lines:
            click.echo(line, err=True)


def read_command(text: str) -> tuple[str, str | None] | None:
    """The command that a message is, with the name after it; None for a message to the model.

    Only what is a command as a whole is one: `/help me` is a message.
    """
    found = _COMMAND.fullmatch(text)
    if found is None or found[1] not in _WORDS or (found[2] is not None and found[1] not in _WITH_NAME):
        return None
    return found[1], found[2]
