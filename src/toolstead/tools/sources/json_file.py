"""One JSON tool file: bytes in, tools and problems out, each problem with its line and column."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolstead.errors import SchemaError, ToolError
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.schema.compiled import CompiledSchema, Documents, compile_input_schema, compile_schema
from toolstead.schema.visible import escape_unseen, may_hide, unseen_in
from toolstead.tools.definition import RegisteredTool, assemble_tool
from toolstead.tools.handlers.template import TemplateError
from toolstead.tools.sources.json_format import Checks
from toolstead.tools.sources.json_report import FileReport, Place
from toolstead.tools.sources.loaded_file import Example, LoadedFile
from toolstead.types.tool import Annotations, Provenance

if TYPE_CHECKING:
    from toolstead.tools.handlers.handler_context import LoadedHandler, Surroundings
    from toolstead.tools.handlers.http import HttpConfig
    from toolstead.tools.handlers.http_client import GuardedClient
    from toolstead.tools.handlers.shell import ShellConfig

logger = logging.getLogger(__name__)

_AUTHORS_ONLY = frozenset({"cwd", "basePath", "env", "headers"})
_NO_HINTS = Annotations()
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_NAMED_KEY = re.compile(r'"(\w+)": ')
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
        if content is None or (may_hide(data) and not _set_aside_hidden(content, report)):
            return LoadedFile(path=path, problems=report.problems)
        report.is_plain = self._checks.common.is_valid(content)
        is_checked = report.is_plain or self._checks.whole.is_valid(content)
        if not (is_checked or report.check_value(self._checks.file, content, (), of_format=True)):
            return LoadedFile(path=path, problems=report.problems)
        plugin = content["name"]
        context = PluginContext(name=plugin, logger=logging.getLogger(f"toolstead.plugin.{plugin}"))
        provenance = Provenance(source="plugin", origin=str(path), plugin_name=plugin)
        tools: dict[str, RegisteredTool] = {}
        examples: dict[str, Sequence[Example]] = {}
        for index, given in enumerate(content["tools"]):
            if index in report.spoilt:
                continue
            tool = self._read_tool(given, ("tools", index), provenance, context, report, is_checked=is_checked)
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
        self,
        given: Any,
        at: Place,
        provenance: Provenance,
        context: PluginContext,
        report: FileReport,
        *,
        is_checked: bool,
    ) -> RegisteredTool | None:
        """One tool, or None when something is wrong with it; `is_checked` when its format is known to be right."""
        name: Any = cast("dict[str, Any]", given).get("name") if isinstance(given, dict) else None
        report.tool = name if isinstance(name, str) and name else None
        before = report.count
        try:
            if not is_checked and not self._has_right_format(given, at, report):
                return None
            tool = cast("dict[str, Any]", given)
            kind = tool["handler"]["type"]
            schema = self._read_schemas(tool, at, report)
            handler = self._read_handler(tool, schema[0], at, report) if schema is not None else None
            if schema is None or handler is None:
                return None
            registered = assemble_tool(
                _describe_tool(tool, kind, handler),
                provenance,
                context,
                input_schema=schema[0],
                output_schema=schema[1],
            )
            if "examples" in tool:
                self._check_examples(tool, registered, handler, at, report)
            return registered if report.count == before else None
        finally:
            report.tool = None

    def _has_right_format(self, given: Any, at: Place, report: FileReport) -> bool:
        """Check a tool, then its handler by its kind; what is wrong is reported."""
        if not report.check_value(self._checks.tool, given, at, of_format=True):
            return False
        handler = given["handler"]
        return report.check_value(self._checks.handlers[handler["type"]], handler, (*at, "handler"), of_format=True)

    def _read_schemas(
        self, tool: dict[str, Any], at: Place, report: FileReport
    ) -> tuple[CompiledSchema, CompiledSchema | None] | None:
        try:
            compiled = compile_input_schema(
                tool["inputSchema"],
                tool=tool["name"],
                documents=self._documents,
                owned=report.is_flat,
                plain=report.is_plain,
            )
        except SchemaError as error:
            report.add_schema_error(error, tool["inputSchema"], (*at, "inputSchema"))
            return None
        for warning in compiled.warnings:
            pointer, _, reason = warning.partition(": ")
            line, column = report.position_of((*at, "inputSchema", *_pointer_steps(pointer), "default"))
            logger.warning("%s:%s:%s: tool %r: %s", report.path, line, column, tool["name"], reason)
        if "outputSchema" not in tool:
            return compiled, None
        try:
            output = compile_schema(
                tool["outputSchema"],
                tool=tool["name"],
                field="outputSchema",
                documents=self._documents,
                owned=report.is_flat,
                plain=report.is_plain,
            )
        except SchemaError as error:
            report.add_schema_error(error, tool["outputSchema"], (*at, "outputSchema"))
            return None
        return compiled, output

    def _read_handler(
        self, tool: dict[str, Any], schema: CompiledSchema, at: Place, report: FileReport
    ) -> LoadedHandler | None:
        given = tool["handler"]
        at = (*at, "handler")
        if not _AUTHORS_ONLY.isdisjoint(given) and not self._is_fixed(given, at, report):
            return None
        properties: dict[str, Any] = schema.document.get("properties") or {}
        blamed = "command"
        try:
            match given["type"]:
                case "shell":
                    make_config, load_shell = _import_shell()
                    return load_shell(
                        _shell_config(given, make_config),
                        properties=properties,
                        required=schema.document.get("required", ()),
                        with_default=schema.defaults.names if schema.defaults is not None else (),
                        surroundings=self._surroundings,
                    )
                case "http":
                    blamed = "url"
                    make_config, load_http = _import_http()
                    return load_http(
                        _http_config(given, make_config),
                        properties=properties,
                        surroundings=self._surroundings,
                        client=self._make_client(),
                    )
                case _:
                    return self._file_read(given, properties, schema, at, report)
        except TemplateError as error:
            key, reason = error.key or (blamed,), str(error)
            if (named := _NAMED_KEY.match(reason)) and named[1] in given:
                key, reason = (named[1],), reason[named.end() :]
            report.add((*at, *key), reason)
            return None

    def _is_fixed(self, given: dict[str, Any], at: Place, report: FileReport) -> bool:
        """Whether no placeholder stands in a text that only the author may decide."""
        for key, value in _fixed_texts(given):
            if "{{" in value and _PLACEHOLDER.search(value):
                report.add((*at, *key), "a placeholder may not stand here; only the author decides this")
                return False
            if "\0" in value:
                report.add((*at, *key), "a null byte (\\u0000) cannot stand here; remove it")
                return False
        return True

    def _file_read(
        self, given: dict[str, Any], properties: dict[str, Any], schema: CompiledSchema, at: Place, report: FileReport
    ) -> LoadedHandler | None:
        path: dict[str, Any] = properties["path"] if isinstance(properties.get("path"), dict) else {}
        if path.get("type") != "string":
            report.add((*at[:-1], "inputSchema"), 'a file-read tool needs a property "path" with "type": "string"')
            return None
        if "path" not in schema.document.get("required", ()) and "default" not in path:
            report.add((*at[:-1], "inputSchema"), '"path" must be in "required", or have a "default"')
            return None
        make_config, make_handler = _import_file_read()
        config = make_config(base_path=given["basePath"], max_size=given.get("maxSize", 1_048_576))
        return make_handler(config, self._surroundings)

    def _check_examples(
        self, tool: dict[str, Any], registered: RegisteredTool, handler: LoadedHandler, at: Place, report: FileReport
    ) -> None:
        """Validate every example's input, and build what it would run; nothing is executed."""
        for number, example in enumerate(tool["examples"]):
            place = (*at, "examples", number, "input")
            match example.get("expect"):
                case {"schema": expected}:
                    self._check_expected(expected, (*at, "examples", number, "expect", "schema"), report)
                case _:
                    pass
            schema = registered.input
            filled = schema.defaults.fill_object(example["input"]) if schema.defaults is not None else example["input"]
            if not report.check_value(schema, filled, place):
                continue
            try:
                handler.preview_call(filled)
            except ToolError as error:
                report.add(place, str(error))

    def _check_expected(self, schema: Any, at: Place, report: FileReport) -> None:
        try:
            compile_schema(schema, tool="example", field="expect", documents=self._documents)
        except SchemaError as error:
            report.add_schema_error(error, schema, at)


def _set_aside_hidden(content: dict[str, Any], report: FileReport) -> bool:
    """Report what a reader cannot see; inside a tool it spoils that tool alone, anywhere else the file."""
    usable = True
    for hidden in unseen_in(content, part="file"):
        name: Any = None
        match hidden.path:
            case "tools", int() as number, _, *_:
                report.spoilt.add(number)
                tool: Any = content["tools"][number]
                name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
            case _:
                usable = False
        named = escape_unseen(name) if isinstance(name, str) and name else None
        report.add(hidden.path, hidden.reason, tool=named, key=hidden.is_key, field=hidden.shown_path)
    return usable


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


@functools.cache
def _import_shell():
    from toolstead.tools.handlers.shell import ShellConfig, load_shell

    return ShellConfig, load_shell


@functools.cache
def _import_http():
    from toolstead.tools.handlers.http import HttpConfig, load_http

    return HttpConfig, load_http


@functools.cache
def _import_file_read():
    from toolstead.tools.handlers.file_read import FileReadConfig, FileReadHandler

    return FileReadConfig, FileReadHandler


def _shell_config(given: dict[str, Any], make_config: type[ShellConfig]) -> ShellConfig:
    return make_config(
        command=given["command"],
        cwd=given.get("cwd"),
        env=given.get("env", {}),
        stdin=given.get("stdin"),
        max_output=given.get("maxOutput"),
        stream=given.get("stream", False),
        allow_leading_dash=given.get("allowLeadingDash", ()),
        allow_script=given.get("allowScript", ()),
    )


def _http_config(given: dict[str, Any], make_config: type[HttpConfig]) -> HttpConfig:
    return make_config(
        url=given["url"],
        method=given.get("method", "POST"),
        headers=given.get("headers", {}),
        timeout=given.get("timeout", _DEFAULT_TIMEOUT["http"]) / 1000,
        allowed_hosts=given.get("allowedHosts", ()),
        max_output=given.get("maxOutput"),
    )


def _read_annotations(hints: dict[str, Any]) -> Annotations:
    return Annotations(
        read_only=hints.get("readOnlyHint"),
        destructive=hints.get("destructiveHint"),
        idempotent=hints.get("idempotentHint"),
        open_world=hints.get("openWorldHint"),
    )


def _call_deadline(kind: str, timeout: int | None) -> float | None:
    """The call's deadline in seconds; an http request ends by its own, which says more, a second before."""
    if timeout is None:
        return None
    return timeout / 1000 + (1 if kind == "http" else 0)


def _describe_tool(tool: dict[str, Any], kind: str, handler: LoadedHandler) -> Tool:
    given = tool["handler"]
    hints = tool.get("annotations")
    timeout = given.get("timeout", _DEFAULT_TIMEOUT.get(kind))
    return Tool(
        name=tool["name"],
        description=tool["description"],
        handler=handler,
        schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=_read_annotations(hints) if hints else _NO_HINTS,
        title=hints.get("title") if hints else None,
        timeout=_call_deadline(kind, timeout),
        max_output=given.get("maxOutput"),
        progress=bool(given.get("stream")),
    )
