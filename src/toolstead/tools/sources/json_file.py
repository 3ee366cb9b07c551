"""One JSON tool file: bytes in, tools and problems out, each problem with its line and column."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolstead.errors import SchemaError, ToolError
from toolstead.nearest_names import find_nearest
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.schema.compiled import CompiledSchema, Documents, compile_input_schema, compile_schema
from toolstead.schema.visible import may_hide
from toolstead.tools.definition import RegisteredTool, assemble_tool
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.template import PLACEHOLDER, TemplateError, show_slot, unknown_name
from toolstead.tools.sources.json_files import Example, LoadedFile
from toolstead.tools.sources.json_format import Checks
from toolstead.tools.sources.json_report import MOST_PROBLEMS, FileReport, Place
from toolstead.types.tool import NO_HINTS, Annotations, Provenance

if TYPE_CHECKING:
    from toolstead.tools.handlers.file_read import FileReadHandler
    from toolstead.tools.handlers.http import HttpHandler
    from toolstead.tools.handlers.http_client import GuardedClient
    from toolstead.tools.handlers.shell import ShellHandler

    LoadedHandler = ShellHandler | HttpHandler | FileReadHandler

logger = logging.getLogger(__name__)

_AUTHORS_ONLY = frozenset({"cwd", "basePath", "env", "headers"})
_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_NAMED_KEY = re.compile(r'"(\w+)": ')
_MOST_BAD_EXAMPLES = 5
_TEMPLATE = {"shell": "command", "http": "url", "file-read": "basePath"}
_ALLOWING = ("allowLeadingDash", "allowScript", "allowedHosts")
_DEFAULT_TIMEOUT = {"shell": 30_000, "http": 10_000}


class FileReader:
    """Reads tool files for one project. Holds what all files share: compiled checks, the HTTP client.

    What a kind of handler needs is imported when a tool has one of that kind.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        make_client: Callable[[], GuardedClient],
        documents: Documents | None = None,
    ) -> None:
        """Make a reader.

        Args:
            surroundings: What handlers are given.
            make_client: The client of http tools; asked for each of them, so it should give the same one again.
            documents: Other documents that schemas' `$ref`s may name.
        """
        self._surroundings = surroundings
        self._make_client = make_client
        self._documents = documents
        self._checks = Checks()

    def read(self, path: Path, data: bytes) -> LoadedFile:
        """Read a file's content. Never raises for what is in it."""
        report = FileReport(path)
        content = report.parse(data)
        if content is None or (may_hide(data) and not report.skip_hidden(content)):
            return LoadedFile(path=path, problems=report.problems)
        report.is_plain = self._checks.common.is_valid(content)
        if not (report.is_plain or report.check_value(self._checks.file, content, (), of_format=True)):
            return LoadedFile(path=path, problems=report.problems)
        plugin = content["name"]
        context = PluginContext(name=plugin, logger=logging.getLogger(f"toolstead.plugin.{plugin}"))
        provenance = Provenance(source="plugin", origin=str(path), plugin_name=plugin)
        tools: dict[str, RegisteredTool] = {}
        examples: dict[str, Sequence[Example]] = {}
        for index, given in enumerate(content["tools"]):
            if index in report.skipped:
                continue
            tool = self._read_tool(given, ("tools", index), provenance, context, report)
            if tool is None:
                continue
            name = tool.info.name
            if name in tools:
                report.add(("tools", index, "name"), "this file has a tool of this name already", tool=name)
                continue
            tools[name] = tool
            if "examples" in given:
                examples[name] = [Example(**example) for example in given["examples"]]
        return LoadedFile(path=path, tools=tuple(tools.values()), problems=report.problems, examples=examples)

    def _read_tool(
        self, given: Any, at: Place, provenance: Provenance, context: PluginContext, report: FileReport
    ) -> RegisteredTool | None:
        """One tool, or None when something is wrong with it."""
        name: Any = cast("dict[str, Any]", given).get("name") if isinstance(given, dict) else None
        report.tool = name if isinstance(name, str) and name else None
        before = report.count
        tool = cast("dict[str, Any]", given) if report.is_plain else self._take_readable(given, at, report)
        if tool is None:
            return None
        schema = self._read_schema(tool, "inputSchema", at, report)
        if schema is None:
            return None
        for warning in schema.warnings[:MOST_PROBLEMS]:
            pointer, _, reason = warning.partition(": ")
            line, column = report.find_position((*at, "inputSchema", *_pointer_steps(pointer), "default"))
            logger.warning("%s:%s:%s: tool %r: %s", report.path, line, column, name, reason)
        if (more := len(schema.warnings) - MOST_PROBLEMS) > 0:
            logger.warning("%s: tool %r: %s more defaults do not fit", report.path, name, more)
        output = self._read_schema(tool, "outputSchema", at, report) if "outputSchema" in tool else None
        handler = self._read_handler(tool, schema, at, report)
        if handler is None:
            return None
        if "examples" in tool:
            self._check_examples(tool["examples"], schema, handler, at, report)
        if report.count != before:
            return None
        shown = _describe_tool(tool, handler)
        return assemble_tool(shown, provenance, context, input_schema=schema, output_schema=output)

    def _take_readable(self, given: Any, at: Place, report: FileReport) -> dict[str, Any] | None:
        """A tool, or of a faulty one the part that can be read on, so that its other mistakes are found too."""
        tool = _drop_faults(self._checks.tool, given, at, report)
        handler: Any = tool.get("handler") if tool is not None else None
        if tool is None or handler is None:
            return None
        read = _drop_faults(self._checks.handlers[handler["type"]], handler, (*at, "handler"), report)
        is_whole = read is not None and {"name", "inputSchema"} <= tool.keys() and _TEMPLATE[handler["type"]] in read
        # Without what it allows, a good template would look like a bad one.
        if not is_whole or any(find_nearest(key, _ALLOWING) for key in handler.keys() - (read or {}).keys()):
            return None
        return {**tool, "handler": read}

    def _read_schema(self, tool: dict[str, Any], key: str, at: Place, report: FileReport) -> CompiledSchema | None:
        compile_document = compile_input_schema if key == "inputSchema" else partial(compile_schema, field=key)
        try:
            return compile_document(
                tool[key],
                tool=tool["name"],
                documents=self._documents,
                owned=report.is_flat,
                plain=report.is_plain,
            )
        except SchemaError as error:
            report.add_schema_error(error, tool[key], (*at, key))
            return None

    def _read_handler(
        self, tool: dict[str, Any], schema: CompiledSchema, at: Place, report: FileReport
    ) -> LoadedHandler | None:
        given: dict[str, Any] = tool["handler"]
        at = (*at, "handler")
        if not _AUTHORS_ONLY.isdisjoint(given) and not _is_fixed(given, at, report):
            return None
        properties: dict[str, Any] = schema.document.get("properties") or {}
        try:
            match given["type"]:
                case "shell":
                    make_config, load_shell = _import_shell()
                    return load_shell(
                        make_config(
                            command=given["command"],
                            cwd=given.get("cwd", ""),
                            env=given.get("env", {}),
                            stdin=given.get("stdin"),
                            ok_status=tuple(given.get("okStatus", (0,))),
                            max_output=given.get("maxOutput"),
                            stream=given.get("stream", False),
                            allow_leading_dash=given.get("allowLeadingDash", ()),
                            allow_script=given.get("allowScript", ()),
                        ),
                        properties=properties,
                        required=schema.document.get("required", ()),
                        with_default=schema.defaults.names if schema.defaults is not None else (),
                        surroundings=self._surroundings,
                    )
                case "http":
                    make_config, load_http = _import_http()
                    return load_http(
                        make_config(
                            url=given["url"],
                            method=given.get("method", "POST"),
                            headers=given.get("headers", {}),
                            timeout=given.get("timeout", _DEFAULT_TIMEOUT["http"]) / 1000,
                            allowed_hosts=given.get("allowedHosts", ()),
                            max_output=given.get("maxOutput"),
                        ),
                        properties=properties,
                        surroundings=self._surroundings,
                        client=self._make_client(),
                    )
                case _:  # file-read: the format allows no other
                    from toolstead.tools.handlers.file_read import FileReadConfig, FileReadHandler

                    if not _has_path(schema, at, report):
                        return None
                    config = FileReadConfig(base_path=given["basePath"], max_size=given.get("maxSize", 1_048_576))
                    return FileReadHandler(config, self._surroundings)
        except TemplateError as error:
            key, reason = error.key or ("command" if "command" in given else "url",), str(error)
            if (named := _NAMED_KEY.match(reason)) and named[1] in given:
                key, reason = (named[1],), reason[named.end() :]
            report.add((*at, *key), reason)
            _report_unknown(given, properties, reason, at, report)
            return None

    def _check_examples(
        self,
        examples: list[dict[str, Any]],
        schema: CompiledSchema,
        handler: LoadedHandler,
        at: Place,
        report: FileReport,
    ) -> None:
        """Validate every example's input, and build what it would run; nothing is executed.

        After a few bad ones the others wait: to explain one takes time that grows with the schema.
        """
        before = report.count
        for number, example in enumerate(examples):
            if report.count - before >= _MOST_BAD_EXAMPLES:
                return
            place = (*at, "examples", number)
            match example.get("expect"):
                case {"schema": expected}:
                    try:
                        compile_schema(expected, tool="example", field="expect", documents=self._documents)
                    except SchemaError as error:
                        report.add_schema_error(error, expected, (*place, "expect", "schema"))
                case _:
                    pass
            filled = schema.defaults.fill_object(example["input"]) if schema.defaults is not None else example["input"]
            try:
                if report.check_value(schema, filled, (*place, "input")):
                    handler.preview_call(filled)
            except ToolError as error:
                report.add((*place, "input"), str(error))


def _drop_faults(check: CompiledSchema, value: Any, at: Place, report: FileReport) -> dict[str, Any] | None:
    """An object without the keys that do not fit, which are reported; None where it is no object."""
    if report.check_value(check, value, at, of_format=True):
        return value
    if not isinstance(value, dict):
        return None
    faulty = {finding.path[0] if finding.path else finding.key for finding in check.find_problems(value)}
    return {key: item for key, item in cast("dict[str, Any]", value).items() if key not in faulty}


def _report_unknown(
    given: dict[str, Any], properties: Mapping[str, Any], said: str, at: Place, report: FileReport
) -> None:
    """Report the placeholders without a parameter in a template that has another mistake, which was said."""
    key = _TEMPLATE[given["type"]]
    for name in dict.fromkeys(inside.strip() for inside in PLACEHOLDER.findall(given[key])):
        unknown = unknown_name(name, properties, show_slot, show_slot if key == "url" else repr)
        if name and name not in properties and unknown not in said:
            report.add((*at, key), unknown)


def _is_fixed(given: dict[str, Any], at: Place, report: FileReport) -> bool:
    """Whether no placeholder stands in a text that only the author may decide."""
    for key, value in _fixed_texts(given):
        if "}}" in value.partition("{{")[2]:
            report.add((*at, *key), "a placeholder may not stand here; only the author decides this")
            return False
        if "\0" in value:
            report.add((*at, *key), "a null byte (\\u0000) cannot stand here; remove it")
            return False
    return True


def _has_path(schema: CompiledSchema, at: Place, report: FileReport) -> bool:
    """Whether the schema of a file-read tool has the path that it reads."""
    properties: dict[str, Any] = schema.document.get("properties") or {}
    path = properties.get("path")
    if not isinstance(path, dict) or cast("dict[str, Any]", path).get("type") != "string":
        report.add((*at[:-1], "inputSchema"), 'a file-read tool needs a property "path" with "type": "string"')
        return False
    if "path" not in schema.document.get("required", ()) and "default" not in path:
        report.add((*at[:-1], "inputSchema"), '"path" must be in "required", or have a "default"')
        return False
    return True


def _pointer_steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _fixed_texts(handler: dict[str, Any]) -> list[tuple[Place, str]]:
    """The texts of a handler that no caller may fill."""
    found: list[tuple[Place, str]] = []
    for key, value in handler.items():
        if key not in _AUTHORS_ONLY:
            continue
        if isinstance(value, str):
            found.append(((key,), value))
        else:
            for name, text in value.items():
                found += ((key, name), text), ((key, name), name)
    return found


def _describe_tool(tool: dict[str, Any], handler: LoadedHandler) -> Tool:
    given = tool["handler"]
    kind: str = given["type"]
    hints: dict[str, Any] = tool.get("annotations") or {}
    timeout = given.get("timeout", _DEFAULT_TIMEOUT.get(kind))
    # An http request ends by its own deadline, which says more, a second before.
    deadline = None if timeout is None else timeout / 1000 + (1 if kind == "http" else 0)
    return Tool(
        name=tool["name"],
        description=tool["description"],
        handler=handler,
        schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=Annotations(**{field: hints.get(key) for key, field in _HINTS.items()}) if hints else NO_HINTS,
        title=hints.get("title"),
        timeout=deadline,
        max_output=given.get("maxOutput"),
        progress=bool(given.get("stream")),
    )


# To import what is there already takes 1 µs of the 28 that a tool takes to load.


@cache
def _import_shell():
    from toolstead.tools.handlers.shell import ShellConfig, load_shell

    return ShellConfig, load_shell


@cache
def _import_http():
    from toolstead.tools.handlers.http import HttpConfig, load_http

    return HttpConfig, load_http


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The verdict on a tool file.

    Attributes:
        valid: Whether every tool in it could be registered.
        errors: What is wrong, each with its tool and field.
        config: The value itself when it is valid, else None.
    """

    valid: bool
    errors: tuple[str, ...]
    config: Mapping[str, Any] | None


def validate_tool_file(data: Any) -> Validation:
    """Check a tool file's content, such as what `json.load` gave.

    Nothing is run and nothing is read: examples are validated and their commands and addresses built.
    """
    from toolstead.tools.handlers.http_client import GuardedClient

    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:
        return Validation(valid=False, errors=(f"not a JSON value: {error}",), config=None)
    surroundings = Surroundings(root=Path("/"), environ={})
    loaded = FileReader(surroundings, GuardedClient).read(Path("tool file"), text.encode())
    errors = tuple(
        f"tool {problem.tool_name!r}: {problem.message}" if problem.tool_name else problem.message
        for problem in loaded.problems
    )
    return Validation(valid=not errors, errors=errors, config=data if not errors else None)
