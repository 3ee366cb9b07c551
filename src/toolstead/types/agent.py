"""Agents: who answers, with which model and tools, inside which limits. Pure data; `agents/` reads it from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from toolstead.types.sent import SentStruct
from toolstead.types.tool import JSONSchema

AgentScope = Literal["builtin", "user", "project", "claude"]
"""Where an agent comes from: this package, the user's folder, the project's `.toolstead/agents` or `.claude/agents`."""

Severity = Literal["error", "warning", "note"]
"""An error keeps the file out; a warning is probably a mistake; a note says what is not used here."""

MAIN = "main"
DELEGATE_NAME = r"^[a-z0-9_\-]+$"
"""The names that `delegate_agent` takes: fewer than an agent's file may have."""
VALIDATOR = "toolstead/validator"
"""The built-in agent that reviews results; no file can define one of this name."""


class AgentLimits(SentStruct, frozen=True, kw_only=True):
    """Limits of an agent's own, named like those of `[limits]`; None leaves a limit to the settings.

    Attributes:
        max_depth: How deep a tree of runs may be; the root is 0.
        max_fanout: Children of one run.
        max_descendants: Runs below a root.
        run_timeout: Seconds that a run may take.
        token_budget: Tokens that a run may use.
        cost_budget: USD that a run may spend.
    """

    max_depth: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_fanout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_descendants: Annotated[int, msgspec.Meta(ge=0)] | None = None
    run_timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    token_budget: Annotated[int, msgspec.Meta(ge=0)] | None = None
    cost_budget: Annotated[float, msgspec.Meta(ge=0)] | None = None


NO_LIMITS = AgentLimits()


class PromptTool(SentStruct, frozen=True, kw_only=True):
    """A tool that is a prompt: a call runs a child agent with the filled-in prompt, and its answer is the result.

    Attributes:
        name: Its name; only its own agent sees it.
        description: What it does, for the model.
        prompt: The template: `{{param}}` is replaced by the argument.
        input_schema: JSON Schema of its arguments.
        model: The child's model; empty for that of the calling run.
        result_schema: JSON Schema of the child's answer; None when any text will do.
        tools: Narrows what the child sees, as names or patterns; None for all that the agent may see.
        cache: Whether an answer is reused for equal arguments.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"prompt"})
    optional: ClassVar[frozenset[str]] = frozenset({"model", "result_schema", "tools", "cache"})

    name: str
    description: str
    prompt: str
    input_schema: JSONSchema
    model: str = ""
    result_schema: JSONSchema | None = None
    tools: tuple[str, ...] | None = None
    cache: bool = False


class Agent(SentStruct, frozen=True, kw_only=True):
    """An agent as its file defines it; what it leaves open comes from the settings.

    Attributes:
        name: Its name: letters, digits, `_` and `-`.
        description: When to use it, for people and for other agents.
        instructions: The body of its file; empty for the built-in instructions.
        model: Its model; empty for the settings' one.
        runtime: Its runtime; empty for the settings' one.
        tools: Names or patterns of the tools that it may use; None for all of them.
        disallowed_tools: Names or patterns of tools that it may not use.
        agents: Whom it may delegate to; None for the settings' list, empty for nobody.
        max_turns: Requests to the model that one run may make; None for the settings' number.
        limits: Its own limits.
        result_schema: JSON Schema that the result of a task delegated to it must fit.
        gates: Commands and files that a task delegated to it must pass.
        custom_tools: Its tools that are prompts.
        scope: Where it comes from.
        origin: Its file, or what else defines it.
        stale: True when its file became bad and this is the last good version.
        lines: The line of each key of its frontmatter, counted from 1; of an item of a list as `tools.git-status`.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"instructions", "lines"})
    optional: ClassVar[frozenset[str]] = frozenset({"result_schema", "stale"})

    name: str
    description: str = ""
    instructions: str = ""
    model: str = ""
    runtime: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None
    max_turns: Annotated[int, msgspec.Meta(ge=1)] | None = None
    limits: AgentLimits = NO_LIMITS
    result_schema: JSONSchema | None = None
    gates: tuple[Mapping[str, Any], ...] = ()
    custom_tools: tuple[PromptTool, ...] = ()
    scope: AgentScope = "builtin"
    origin: str = "toolstead"
    stale: bool = False
    lines: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])


class Finding(SentStruct, frozen=True, kw_only=True):
    """What a check found in an agent's file.

    Attributes:
        severity: `error`, `warning` or `note`.
        source: The file.
        message: What is wrong, and what would be right.
        line: The line, counted from 1.
        column: The column, counted from 1.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"line", "column"})

    severity: Severity
    source: str
    message: str
    line: Annotated[int, msgspec.Meta(ge=0)] | None = None
    column: Annotated[int, msgspec.Meta(ge=0)] | None = None


class EffectiveValue(SentStruct, frozen=True, kw_only=True):
    """One value that an agent runs with.

    Attributes:
        key: Its name in the frontmatter.
        value: What is in effect.
        origin: What sets it: a file with its line, the environment, `--set`, or `default`; of a runtime that nothing
            sets, why it is chosen.
        overrode: What the settings would have said instead, with its origin; empty when the agent's file says nothing.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"overrode"})

    key: str
    value: Any
    origin: str
    overrode: str = ""
