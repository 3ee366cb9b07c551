"""Checks a tool's definition and prepares it for calls: `Tool` in, `RegisteredTool` out."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from typing import Any

import msgspec

from toolstead.errors import DefinitionError, DuplicateToolError, SchemaError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.field_check import explain_no_description, is_async
from toolstead.schema.compiled import (
    CompiledSchema,
    Documents,
    compile_input_schema,
    compile_schema,
    schema_from_parameters,
)
from toolstead.schema.visible import Kind, Part, escape_unseen, find_hidden, first_unseen, hides_nothing
from toolstead.types.tool import Annotations, Problem, Provenance, ToolInfo

NAME = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 16_384

logger = logging.getLogger(__name__)


class RegisteredTool:
    """A tool with its schemas compiled: everything a call needs, decided once.

    Attributes:
        answers_text: Short text is a valid answer: no output schema, no limit of its own.
        ignores_meta: The handler never looks at its meta, so none is built for it.
        position: Finds the line and column of its definition; called only when the tool is quarantined.
    """

    __slots__ = ("answers_text", "context", "ignores_meta", "info", "input", "output", "position", "tool")

    def __init__(
        self,
        *,
        tool: Tool,
        info: ToolInfo,
        context: PluginContext,
        input_schema: CompiledSchema,
        output_schema: CompiledSchema | None,
    ) -> None:
        self.tool = tool
        self.info = info
        self.context = context
        self.input = input_schema
        self.output = output_schema
        self.answers_text = output_schema is None and tool.max_output is None
        self.ignores_meta: bool = getattr(tool.handler, "ignores_meta", False)
        self.position: Callable[[], tuple[int, int] | None] = _no_file

    def as_stale(self) -> RegisteredTool:
        """The same tool, marked as the last good version of something that became bad."""
        return RegisteredTool(
            tool=self.tool,
            info=msgspec.structs.replace(self.info, stale=True),
            context=self.context,
            input_schema=self.input,
            output_schema=self.output,
        )

    def refuse_name(self, holder: str, *, find_position: bool = True) -> Problem:
        """The problem of a tool whose name has a holder, with its position unless that would take too long."""
        error = DuplicateToolError(tool=self.info.name, holder=holder)
        line, column = (self.position() if find_position else None) or (None, None)
        return Problem(
            source=self.info.provenance.origin,
            tool_name=self.info.name,
            message=f"{error.field}: {error.reason}",
            line=line,
            column=column,
        )

    def same_as(self, other: RegisteredTool) -> bool:
        """Whether a caller would see and get the same."""
        is_equal = self.tool == other.tool and self.info == other.info
        return is_equal and _encode_schemas(self.info) == _encode_schemas(other.info)

    def is_listed_as(self, other: RegisteredTool) -> bool:
        """Whether a list of tools shows the same: a stale tool, or another handler, is not seen there."""
        mine, theirs = self.info, other.info
        is_equal = (mine.name, mine.title, mine.description, mine.annotations) == (
            theirs.name,
            theirs.title,
            theirs.description,
            theirs.annotations,
        )
        return is_equal and _encode_schemas(mine) == _encode_schemas(theirs)


def _no_file() -> None:
    """A tool that is written in no file."""


def define_tool(
    tool: Tool, provenance: Provenance, context: PluginContext, *, documents: Documents | None = None
) -> RegisteredTool:
    """Check a tool and compile its schemas.

    Raises:
        DefinitionError: A field is bad; it says which, and what would be right.
    """
    if isinstance(tool, list | tuple):
        raise DefinitionError(
            tool=f"<{type(tool).__name__}>",
            field="tool",
            reason="give the tools themselves, not a list: register(*tools)",
        )
    if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] - definitions come from people
        raise DefinitionError(
            tool=escape_unseen(str(getattr(tool, "__name__", tool))[:80]),
            field="tool",
            reason="a Tool is needed; put @tool above the function, or build Tool(name=…, …)",
        )
    _check_name(tool.name)
    if not isinstance(tool.description, str) or not tool.description.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise DefinitionError(tool=tool.name, field="description", reason=explain_no_description(tool))
    if len(tool.description) > LONGEST_DESCRIPTION:
        raise DefinitionError(
            tool=tool.name,
            field="description",
            reason=f"{len(tool.description):,} characters; at most {LONGEST_DESCRIPTION:,}",
        )
    _check_handler(tool)
    _check_limits(tool)
    _check_visible(tool, provenance)
    schema = tool.schema
    if tool.parameters is not None:
        if schema is not None:
            raise DefinitionError(tool=tool.name, field="parameters", reason="give `schema` or `parameters`, not both")
        schema = schema_from_parameters(tool.parameters, tool=tool.name)
    compiled = compile_input_schema(schema, tool=tool.name, documents=documents)
    output = None
    if tool.output_schema is not None:
        output = compile_schema(tool.output_schema, tool=tool.name, field="output_schema", documents=documents)
    for warning in compiled.warnings:
        logger.warning("tool %r (%s): %s", tool.name, provenance.origin, escape_unseen(warning))
    return assemble_tool(tool, provenance, context, input_schema=compiled, output_schema=output)


def assemble_tool(
    tool: Tool,
    provenance: Provenance,
    context: PluginContext,
    *,
    input_schema: CompiledSchema,
    output_schema: CompiledSchema | None,
) -> RegisteredTool:
    """Put together a tool whose fields were checked already and whose schemas are compiled."""
    info = ToolInfo(
        name=tool.name,
        description=tool.description,
        provenance=provenance,
        input_schema=input_schema.document,
        output_schema=output_schema.document if output_schema is not None else None,
        annotations=tool.annotations,
        title=tool.title,
    )
    return RegisteredTool(tool=tool, info=info, context=context, input_schema=input_schema, output_schema=output_schema)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise DefinitionError(tool=escape_unseen(str(name)[:80]), field="name", reason="a name is needed")
    if not NAME.fullmatch(name):
        reason = first_unseen(name, "name") or "only letters, digits, `_` and `-` are allowed, such as `list-todos`"
        raise DefinitionError(tool=escape_unseen(name[:80]), field="name", reason=reason)
    if len(name) > LONGEST_NAME:
        raise DefinitionError(
            tool=name[:80],
            field="name",
            reason=f"{len(name)} characters; at most {LONGEST_NAME}, the limit of model APIs",
        )


def _check_handler(tool: Tool) -> None:
    handler: Any = tool.handler
    if not is_async(handler):
        raise DefinitionError(
            tool=tool.name, field="handler", reason="an `async def` with (ctx, input, meta) is needed"
        )
    # The signature of the call, not of what is wrapped: a decorator may take other arguments.
    signature = inspect.signature(handler, follow_wrapped=False)
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise DefinitionError(
            tool=tool.name,
            field="handler",
            reason=f"it is called with (ctx, input, meta), but takes {escape_unseen(str(signature))}",
        ) from None


def _check_limits(tool: Tool) -> None:
    given: Any = tool  # definitions come from people
    timeout, most, title = given.timeout, given.max_output, given.title
    checks = (
        ("timeout", timeout is None or (_is_number(timeout) and timeout > 0), f"seconds above 0, not {timeout!r}"),
        ("max_output", most is None or (_is_number(most, int) and most >= 1), f"bytes above 0, not {most!r}"),
        ("annotations", isinstance(given.annotations, Annotations), "an Annotations(…) is needed"),
        ("title", title is None or isinstance(title, str), f"text is needed, not {title!r}"),
    )
    for field, is_right, reason in checks:
        if not is_right:
            raise DefinitionError(tool=tool.name, field=field, reason=reason)


def _check_visible(tool: Tool, provenance: Provenance) -> None:
    """Refuse characters that a person cannot see in the definition but a model would read.

    Check the schemas before they are compiled, because the compiler's errors quote them unescaped.
    """
    texts: tuple[tuple[str, str | None, Kind], ...] = (
        ("plugin name", provenance.plugin_name, "name"),
        ("agent name", provenance.agent_name, "name"),
        ("description", tool.description, "prose"),
        ("title", tool.title, "name"),
    )
    for field, text, kind in texts:
        if text is not None and (reason := first_unseen(text, kind)) is not None:
            raise DefinitionError(tool=tool.name, field=field, reason=reason)
    documents: tuple[tuple[str, Any, Part], ...] = (
        ("schema", tool.schema, "schema"),
        ("parameters", tool.parameters, "schemas"),
        ("output_schema", tool.output_schema, "schema"),
    )
    for field, document, part in documents:
        if document is not None and not hides_nothing(document):
            _refuse_hidden(tool.name, field, document, part)


def _refuse_hidden(tool: str, field: str, document: Any, part: Part) -> None:
    for hidden in find_hidden(document, part=part):
        where = f"the name of {hidden.pointer}" if hidden.is_key else hidden.pointer
        raise SchemaError(tool=tool, field=field, reason=f"{where}: {hidden.reason}", path=hidden.path)


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds or (int, float)) and not isinstance(value, bool)


def _encode_schemas(info: ToolInfo) -> bytes:
    """What is shown, as JSON: `true` and `1` are equal in Python, and the order of keys is not seen there."""
    return msgspec.json.encode((info.input_schema, info.output_schema))
