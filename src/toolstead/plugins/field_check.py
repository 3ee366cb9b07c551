"""Checks of what a plugin's author wrote in one field, and the words in which a bad value is shown."""

from __future__ import annotations

import functools
import inspect
from typing import Any, cast

from toolstead.errors import PluginError
from toolstead.schema.visible import escape_unseen


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine: a function, a method, a partial, an object with an async `__call__`.

    A plain function that wraps an async one (`functools.wraps`) is believed to return its coroutine.
    """
    while isinstance(function, functools.partial):
        function = cast("Any", function.func)
    called = function if inspect.isroutine(function) else cast("Any", type(function)).__call__
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(inspect.unwrap(called))


def check_function(plugin: str, field: str, function: Any, arguments: tuple[str, ...], where: str = "") -> None:
    """Refuse what cannot be awaited, or cannot be called with these.

    Raises:
        PluginError: It is no such function.
    """
    call = f"({', '.join(arguments)})"
    if not callable(function):
        raise bad_field(plugin, field, f"{where}an `async def` with {call} is needed, not {describe_kind(function)}")
    if not is_async(function):
        raise bad_field(plugin, field, f"{where}an `async def` with {call} is needed; put `async` before its `def`")
    try:
        # The signature of the call, not of what is wrapped: a decorator may take other arguments.
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:
        return  # compiled code may have none to show
    try:
        signature.bind(*arguments)
    except TypeError:
        raise bad_field(
            plugin, field, f"{where}it is called with {call}, but takes {escape_unseen(str(signature)[:200])}"
        ) from None


def explain_no_description(tool: Any) -> str:
    """Why a tool has no description, and what to write: of a function with `@tool`, in its docstring."""
    function = getattr(tool, "function", None)
    if function is None:
        return "a sentence is needed that tells the model what it does"
    if not inspect.getdoc(function):
        return "it has no docstring; write one sentence that tells the model what it does"
    return "it is empty; begin the docstring with one sentence that tells the model what the tool does"


def describe_kind(value: Any) -> str:
    """What a value is, with its article."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


def show_value(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, str):
        return repr(escape_unseen(value[:80]))
    return repr(value) if isinstance(value, int | float | None) else describe_kind(value)


def bad_field(plugin: str, field: str, reason: str) -> PluginError:
    """The error for a field of a plugin."""
    return PluginError(plugin=plugin, field=field, reason=reason)
