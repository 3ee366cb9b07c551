"""A tool's definition, checked and made ready to be called: `Tool` in, `RegisteredTool` out."""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any

from toolyard.errors import DefinitionError
from toolyard.plugins.contract import PluginContext, Tool
from toolyard.schema.compiled import CompiledSchema, Documents, compile_input_schema, compile_schema
from toolyard.schema.parameters import schema_from_parameters
from toolyard.types.tool import Annotations, Provenance, ToolInfo

NAME = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 16_384

logger = logging.getLogger(__name__)


class RegisteredTool:
    """A tool with its schemas compiled: everything a call needs, decided once."""

    __slots__ = ("context", "info", "input", "output", "tool")

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

    def same_as(self, other: RegisteredTool) -> bool:
        """Whether a caller would see and get the same."""
        return self.info == other.info and self.tool.handler is other.tool.handler


def define(
    tool: Tool, provenance: Provenance, context: PluginContext, *, documents: Documents | None = None
) -> RegisteredTool:
    """Check a tool and compile its schemas.

    Raises:
        DefinitionError: A field is bad; it says which, and what would be right.
    """
    if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] - definitions come from people
        raise DefinitionError(
            tool=str(getattr(tool, "__name__", tool))[:80],
            field="tool",
            reason="a Tool is needed; decorate an async function with @tool, or build Tool(name=…, …)",
        )
    _check_name(tool.name)
    if not isinstance(tool.description, str) or not tool.description.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise DefinitionError(
            tool=tool.name, field="description", reason="a sentence for the model is needed; @tool takes the docstring"
        )
    if len(tool.description) > LONGEST_DESCRIPTION:
        raise DefinitionError(
            tool=tool.name,
            field="description",
            reason=f"{len(tool.description):,} characters; at most {LONGEST_DESCRIPTION:,}",
        )
    _check_handler(tool)
    _check_limits(tool)
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
        logger.warning("tool %r (%s): %s", tool.name, provenance.origin, warning)
    info = ToolInfo(
        name=tool.name,
        description=tool.description,
        provenance=provenance,
        input_schema=compiled.document,
        output_schema=output.document if output else None,
        annotations=tool.annotations,
        title=tool.title,
    )
    return RegisteredTool(tool=tool, info=info, context=context, input_schema=compiled, output_schema=output)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise DefinitionError(tool=str(name), field="name", reason="a name is needed")
    if not NAME.fullmatch(name):
        raise DefinitionError(
            tool=name[:80], field="name", reason="only letters, digits, `_` and `-` are allowed, such as `list-todos`"
        )
    if len(name) > LONGEST_NAME:
        raise DefinitionError(
            tool=name, field="name", reason=f"{len(name)} characters; at most {LONGEST_NAME}, the limit of model APIs"
        )


def _check_handler(tool: Tool) -> None:
    handler: Any = tool.handler
    function = handler if inspect.isroutine(handler) else getattr(handler, "__call__", None)  # noqa: B004 - its type matters
    if function is None or not inspect.iscoroutinefunction(inspect.unwrap(function)):
        raise DefinitionError(
            tool=tool.name, field="handler", reason="an `async def` with (ctx, input, meta) is needed"
        )
    try:
        inspect.signature(handler).bind(None, None, None)
    except TypeError:
        raise DefinitionError(
            tool=tool.name,
            field="handler",
            reason=f"it is called with (ctx, input, meta), but takes {inspect.signature(handler)}",
        ) from None


def _check_limits(tool: Tool) -> None:
    if tool.timeout is not None and not tool.timeout > 0:
        raise DefinitionError(tool=tool.name, field="timeout", reason=f"seconds above 0, not {tool.timeout!r}")
    if tool.max_output is not None and tool.max_output < 1:
        raise DefinitionError(tool=tool.name, field="max_output", reason=f"bytes above 0, not {tool.max_output!r}")
    if not isinstance(tool.annotations, Annotations):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise DefinitionError(tool=tool.name, field="annotations", reason="an Annotations(…) is needed")
