"""Catching everything is for isolation boundaries; they are all listed here, each with its reason.

Cleaning up and raising the same again catches nothing, and is free.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import dotted, module_name, parsed, shown, source_files

BOUNDARIES = {
    "toolstead.adapters.claude.connection": "the SDK raises bare exceptions for what can happen to a program",
    "toolstead.adapters.http.application": "the top frame: a crash is an answer with an id, and a traceback in the log",
    "toolstead.adapters.mcp.fast_path.calls": "an answer that cannot be encoded is an error of its own, and logged",
    "toolstead.adapters.mcp.stdio": "whatever ends the SDK's side ends the conversation, and is raised there",
    "toolstead.adapters.storage.writer": "a write that fails, however, fails alone; its neighbours are committed",
    "toolstead.agents.catalogue": "a file that makes the reader fail is kept out alone, and the rest loads",
    "toolstead.app.database": "a background owner: deleting old events is tried again, whatever it met",
    "toolstead.app.prompt_files": "a file that makes the reader fail is kept out alone, and the rest loads",
    "toolstead.app.python_file": "a file is its author's own code; a server that has good tools of it keeps these",
    "toolstead.app.watching": "a background watcher: a change that could not be applied is logged, the next reported",
    "toolstead.concurrency.suspended_coroutine": "whatever is thrown into a tool or a hook is its own to see",
    "toolstead.console.cli.completing": "a shell that completes shows nothing of what fails; the command itself will",
    "toolstead.concurrency.worker_threads": "whatever a function raises in its thread is raised where it was called",
    "toolstead.delegation.gates": "a gate may meet anything; it is unknown then, never passed, and the others run",
    "toolstead.delegation.delegation": "work on a task may meet anything; it is taken up again, and logged",
    "toolstead.delegation.sweep": "a background owner: a look at the database that failed is tried again",
    "toolstead.invoker.runtime_calls": "a session is foreign code: whatever it raises ends its turn, and only that",
    "toolstead.invoker.step_recorder": "recording never makes a run fail: a step that cannot be written is left out",
    "toolstead.orchestrator.approvals": "asking a person may meet anything; whatever it is refuses the call",
    "toolstead.orchestrator.commands": "a background owner: a look at the database that failed is tried again",
    "toolstead.orchestrator.feed": "a background owner: a look at the database that failed is tried again",
    "toolstead.orchestrator.journal": "a background owner: an event that cannot be stored is left out alone, and named",
    "toolstead.orchestrator.performer": "a run may meet anything; it gets its end, the log the traceback",
    "toolstead.plugins.client_calls": "a prompt or a resource that crashes is an error of its own, with an id",
    "toolstead.plugins.decorator": "annotations are the author's own code, run when they are resolved",
    "toolstead.plugins.hook_call": "a hook may raise anything; it is named and counted, and the rest goes on",
    "toolstead.plugins.background": "a background owner: work that fails degrades its plugin, and ends nothing else",
    "toolstead.plugins.definition": "the definition is its author's own code, run to be looked at",
    "toolstead.plugins.health": "the text of an exception is made by its author's own code",
    "toolstead.plugins.isolated": "a parser may raise anything on what it is given; the call that gave it fails alone",
    "toolstead.plugins.plugin_instance": "the plugin loader: a plugin's own code may raise anything; it fails alone",
    "toolstead.plugins.host": "plugins are started and ended whatever becomes of those who are told of their tools",
    "toolstead.plugins.settings": "the classes of settings are their authors' own code",
    "toolstead.tools.dispatch": "a handler may raise anything; the model gets an id, the log the traceback",
    "toolstead.tools.gates": "a gate may raise anything; the call is refused",
    "toolstead.tools.sources.json_files": "a file that makes the loader fail is set aside alone, and the rest loads",
    "toolstead.tools.registry": "a source may raise anything; it is set aside alone, and the rest loads",
}
BROAD = {"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"}


def _catches_everything(tree: ast.Module) -> Iterator[int]:
    """The lines where a handler, or `suppress`, catches everything."""
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler() if _only_cleans_up(node):
                pass
            case ast.ExceptHandler(type=None):
                yield node.lineno
            case ast.ExceptHandler(type=ast.Tuple(elts=caught)) if BROAD & {dotted(kind) for kind in caught}:
                yield node.lineno
            case ast.ExceptHandler(type=ast.expr() as kind) if dotted(kind) in BROAD:
                yield node.lineno
            case ast.Call(func=function, args=kinds) if dotted(function).endswith("suppress"):
                if BROAD & {dotted(kind) for kind in kinds}:
                    yield node.lineno
            case _:
                pass


def _only_cleans_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler always ends by raising the same again."""
    leaves = (ast.Return, ast.Break, ast.Continue)
    match handler.body[-1]:
        case ast.Raise(exc=None):
            return not any(isinstance(node, leaves) for statement in handler.body for node in ast.walk(statement))
        case _:
            return False


def test_everything_is_caught_only_at_isolation_boundaries() -> None:
    stray = [
        shown(path, line)
        for path in source_files()
        if module_name(path) not in BOUNDARIES
        for line in _catches_everything(parsed(path))
    ]
    assert not stray, f"catch what you foresee, or add the module and its reason to BOUNDARIES: {stray}"


def test_every_listed_boundary_still_is_one() -> None:
    catching = {module_name(path) for path in source_files() if any(_catches_everything(parsed(path)))}
    assert not set(BOUNDARIES) - catching, "these catch everything no longer: take them off the list"


@pytest.mark.parametrize(
    "handler",
    [
        "try:\n    f()\nexcept:\n    g()",
        "try:\n    f()\nexcept Exception as e:\n    g()",
        "try:\n    f()\nexcept (KeyError, BaseException):\n    g()",
        "try:\n    f()\nexcept* Exception:\n    g()",
        "with contextlib.suppress(Exception):\n    f()",
        "try:\n    f()\nexcept BaseException:\n    if g():\n        raise",
        "while f():\n  try:\n    g()\n  except BaseException:\n    if h():\n      break\n    raise",
        "try:\n    f()\nexcept Exception as e:\n    raise ValueError from e",
    ],
)
def test_every_way_to_catch_everything_is_seen(handler: str) -> None:
    assert list(_catches_everything(ast.parse(handler)))


@pytest.mark.parametrize(
    "handler",
    [
        "try:\n    f()\nexcept (KeyError, ValueError):\n    g()",
        "try:\n    f()\nexcept:\n    g()\n    raise",
    ],
)
def test_catching_what_is_foreseen_and_cleaning_up_are_fine(handler: str) -> None:
    assert not list(_catches_everything(ast.parse(handler)))
