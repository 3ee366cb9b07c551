"""The routes of the user's tool files: list, read, check, write, delete.

The list is open like that of the tools. What the files say, and every change, needs the private token: a file may name
private hosts and commands, and a check looks at folders of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from toolstead.adapters.http.asgi import JSON_TYPE, HttpRequest, HttpResponse, encode_json
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, BAD_QUERY, problem_response
from toolstead.adapters.rest.console_answers import (
    CheckedTool,
    ToolFileCheck,
    ToolFileList,
    ToolFileRefusal,
    ToolFileSummary,
    ToolFileText,
    ToolFileWritten,
)
from toolstead.adapters.rest.openapi import (
    answers_with,
    body_of,
    describe_answer,
    path_parameter,
    query_parameter,
    route,
)
from toolstead.adapters.rest.problems import BAD_TOOL_FILE, TOOL_FILE_CONFLICT, UNKNOWN_TOOL_FILE, write_sentence
from toolstead.adapters.rest.query import wrong_parameter

_ETAG = re.compile(r'"([0-9a-f]{64})"')
_KINDS = {
    "name": BAD_TOOL_FILE,
    "unknown": UNKNOWN_TOOL_FILE,
    "conflict": TOOL_FILE_CONFLICT,
    "content": BAD_TOOL_FILE,
}


class ToolFileControl(Protocol):
    """The user's tool files, as interfaces show and change them; a refusal says why nothing changed."""

    async def list_files(self) -> list[ToolFileSummary]:
        """The files, by name."""
        ...

    async def read_file(self, name: str) -> ToolFileText | ToolFileRefusal:
        """A file's text as it is now."""
        ...

    async def write_file(self, name: str, text: str, expected: str | None) -> ToolFileWritten | ToolFileRefusal:
        """Write a file, if its text is good and it still has the expected digest (empty: it does not exist)."""
        ...

    async def delete_file(self, name: str, expected: str | None) -> ToolFileRefusal | None:
        """Delete a file, if it still has the expected digest."""
        ...

    async def check_text(
        self, text: str, *, name: str | None = None, tool: str | None = None, input: Mapping[str, Any] | None = None
    ) -> ToolFileCheck:
        """Check a text, and show what a call of its tools would run; nothing is written or run."""
        ...


class ToolFileBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A tool file's next text.

    Attributes:
        text: All of it.
        digest: Of the text that it has to replace; empty for a file that must not exist. `If-Match` says the same.
    """

    text: str
    digest: str | None = None


class ToolFileCheckBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The text of a tool file to be checked.

    Attributes:
        text: All of it.
        name: The file that it is for: the names of tools that this file holds are free.
        tool: The tool whose call is to be shown; every one of the text unless given.
        input: The arguments of that call; without them none is shown.
    """

    text: str
    name: str | None = None
    tool: str | None = None
    input: dict[str, Any] | None = None


_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_PATH = "/home/ada/.config/toolstead/tools/greet.json"
_TEXT = (
    '{"name": "greet", "tools": [{"name": "greet", "description": "Greets somebody.", "inputSchema": {"type": "object",'
    ' "properties": {"who": {"type": "string"}}, "required": ["who"]},'
    ' "handler": {"type": "shell", "command": "echo Hello {{who}}"}}]}'
)
_SCHEMA = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
_CHECKED = ToolFileCheck(
    problems=(),
    warnings=(),
    tools=(
        CheckedTool(
            name="greet",
            description="Greets somebody.",
            input_schema=_SCHEMA,
            kind="shell",
            advice=(),
            preview={"command": "echo Hello Ada", "argv": [["echo", "Hello", "Ada"]], "cwd": "/home/ada/work/garden"},
        ),
    ),
)
_NAME = path_parameter("name", "The file's name without `.json`.", "greet")
_IF_MATCH = {
    **query_parameter("If-Match", "The digest of the text that is to be replaced: the `ETag` of a read.", None),
    "in": "header",
}
_IF_NONE_MATCH = {
    **query_parameter("If-None-Match", "`*`: the file must not exist.", None),
    "in": "header",
}


class ToolFileRoutes:
    """The user's tool files, over HTTP."""

    def __init__(self, files: ToolFileControl) -> None:
        self._files = files

    @route(
        "GET",
        "/api/tool-files",
        "listToolFiles",
        "List the tool files",
        "The JSON tool files in the user's folder, with the tools that each offers now and what is wrong with it.",
        responses=describe_answer(
            ToolFileList,
            "The files.",
            example={"files": [ToolFileSummary(name="greet", path=_PATH, tools=("greet",), problems=()).to_json()]},
        ),
    )
    async def list_files(self, _: HttpRequest) -> HttpResponse:
        """`GET /api/tool-files`."""
        return HttpResponse.of_json(ToolFileList(files=await self._files.list_files()).to_json())

    @route(
        "POST",
        "/api/tool-files/check",
        "checkToolFile",
        "Check the text of a tool file",
        "Reads the text as the loader would, and shows with `input` what a call would run: built by the function that "
        "the call itself uses, secrets masked. Nothing is written or run.",
        requestBody=body_of(
            ToolFileCheckBody, {"text": _TEXT, "tool": "greet", "input": {"who": "Ada"}}, required=True
        ),
        responses=describe_answer(ToolFileCheck, "The verdict.", BAD_JSON, BAD_BODY, example=_CHECKED.to_json()),
        private=True,
    )
    async def check_text(self, request: HttpRequest) -> HttpResponse:
        """`POST /api/tool-files/check`."""
        body = await decode_body(request, ToolFileCheckBody)
        checked = await self._files.check_text(body.text, name=body.name, tool=body.tool, input=body.input)
        return HttpResponse.of_json(checked.to_json())

    @route(
        "GET",
        "/api/tool-files/{name}",
        "readToolFile",
        "Read a tool file",
        "Its text as it is now. `ETag` is the digest. No link is followed.",
        parameters=[_NAME],
        responses=describe_answer(
            ToolFileText,
            "The file.",
            UNKNOWN_TOOL_FILE,
            BAD_TOOL_FILE,
            example=ToolFileText(name="greet", path=_PATH, text=_TEXT, digest=_DIGEST).to_json(),
        ),
        private=True,
    )
    async def read_file(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/tool-files/{name}`."""
        found = await self._files.read_file(request.params["name"])
        return _explain_refusal(request, found) if isinstance(found, ToolFileRefusal) else _answer_file(found)

    @route(
        "PUT",
        "/api/tool-files/{name}",
        "writeToolFile",
        "Write a tool file",
        "Checks the text, writes it whole into the user's folder, and offers its tools at once. A text with any "
        "problem, or with a tool whose name has another holder, is refused, and nothing is written. With `If-Match`, "
        "`If-None-Match` or `digest` only if the file is as it was read; without them it replaces what is there.",
        parameters=[_NAME, _IF_MATCH, _IF_NONE_MATCH],
        requestBody=body_of(ToolFileBody, {"text": _TEXT, "digest": ""}, required=True),
        responses=describe_answer(
            ToolFileWritten,
            "The written file.",
            BAD_JSON,
            TOOL_FILE_CONFLICT,
            BAD_BODY,
            BAD_QUERY,
            BAD_TOOL_FILE,
            example=ToolFileWritten(
                name="greet", path=_PATH, digest=_DIGEST, tools=("greet",), hidden={}, warnings=()
            ).to_json(),
        ),
        private=True,
    )
    async def write_file(self, request: HttpRequest) -> HttpResponse:
        """`PUT /api/tool-files/{name}`."""
        body = await decode_body(request, ToolFileBody)
        expected = _read_expected(request, body.digest)
        written = await self._files.write_file(request.params["name"], body.text, expected)
        return _explain_refusal(request, written) if isinstance(written, ToolFileRefusal) else _answer_file(written)

    @route(
        "DELETE",
        "/api/tool-files/{name}",
        "deleteToolFile",
        "Delete a tool file",
        "Deletes it from the user's folder, and takes its tools away at once. With `If-Match` only if it is as it was "
        "read.",
        parameters=[_NAME, _IF_MATCH],
        responses={
            "204": {"description": "It is deleted."},
            **answers_with(UNKNOWN_TOOL_FILE, TOOL_FILE_CONFLICT, BAD_QUERY, BAD_TOOL_FILE),
        },
        private=True,
    )
    async def delete_file(self, request: HttpRequest) -> HttpResponse:
        """`DELETE /api/tool-files/{name}`."""
        refusal = await self._files.delete_file(request.params["name"], _read_expected(request, None))
        return HttpResponse(204, b"", ()) if refusal is None else _explain_refusal(request, refusal)


def _answer_file(file: ToolFileText | ToolFileWritten) -> HttpResponse:
    etag = (b"etag", f'"{file.digest}"'.encode())
    return HttpResponse(200, encode_json(file.to_json()), (JSON_TYPE, etag))


def _explain_refusal(request: HttpRequest, refusal: ToolFileRefusal) -> HttpResponse:
    more: dict[str, Any] = {}
    if refusal.reason == "conflict":
        more["digest"] = refusal.digest
    if refusal.reason == "content":
        more["problems"] = [problem.to_json() for problem in refusal.problems]
    detail = write_sentence(Exception(refusal.message))
    return problem_response(_KINDS[refusal.reason], detail, instance=request.path, **more)


def _read_expected(request: HttpRequest, digest: str | None) -> str | None:
    """The digest that the file must have: empty where it must not exist, None where that does not matter."""
    given = [] if digest is None else [digest]
    if (header := request.find_header(b"if-match")) is not None:
        if (found := _ETAG.fullmatch(header)) is None:
            raise wrong_parameter(request, "If-Match: it must be the ETag of a read, in its quotes.")
        given.append(found[1])
    if (header := request.find_header(b"if-none-match")) is not None:
        if header != "*":
            raise wrong_parameter(request, "If-None-Match: it must be *, for a file that must not exist.")
        given.append("")
    if len(set(given)) > 1:
        raise wrong_parameter(request, "If-Match, If-None-Match and digest name different texts; give one of them.")
    return given[0] if given else None
