"""The routes of shared files: list, read, write, delete, history. With their OpenAPI operations.

Texts travel in JSON, both ways. A browser that opens such an address shows JSON: what an agent wrote is never a page of
this server, which could call its routes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

import msgspec

from toolstead.adapters.http.asgi import JSON_TYPE, Handler, HttpRequest, HttpResponse, Sendable, encode_json
from toolstead.adapters.http.body import decode_body
from toolstead.adapters.http.problem import BAD_BODY, BAD_JSON, BAD_QUERY
from toolstead.adapters.rest.answers import FileHistory, FileList
from toolstead.adapters.rest.openapi import body_of, describe_answer, query_parameter, route
from toolstead.adapters.rest.problems import BAD_FILE, FILE_CONFLICT, STORAGE, UNKNOWN_FILE, explain_failures
from toolstead.adapters.rest.query import page_size, read_query, single_value, wrong_parameter
from toolstead.orchestrator.shared_files import LONGEST_PATH, MOST_LISTED, SharedFiles
from toolstead.types.vfs import USER, FileVersion, SharedFile

_USUALLY_LISTED = 100
_ETAG = re.compile(r'(?:"([0-9]{1,9})"|([0-9]{1,9}))')

OpenFiles = Callable[[], Awaitable[SharedFiles]]
"""Returns the shared files; the first call opens the database."""


class FileBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The next version of a file.

    Attributes:
        content: All of its text.
        expected_version: The version that must be the newest; 0 for a file that must not exist. `If-Match` says the
            same.
    """

    content: str
    expected_version: Annotated[int, msgspec.Meta(ge=0)] | None = None


_NOTE = FileVersion(
    path="notes/plan.md",
    version=3,
    author="main",
    created_at=1790000001.5,
    size=16,
    thread_id="thread_1",
    run_id="run_1",
)
_FILE = SharedFile(**msgspec.structs.asdict(_NOTE), content="- write it down\n")
_THREAD = query_parameter("thread", "A thread of the tree whose files they are; `default` if absent.", "thread_1")
_PATH = {**query_parameter("path", "The file, such as `notes/plan.md`.", "notes/plan.md"), "required": True}
_IF_MATCH = {
    **query_parameter("If-Match", 'The version that must be the newest, such as `"3"`: the `ETag` of a read.', None),
    "in": "header",
}


def with_files(open_files: OpenFiles, handler: Callable[[SharedFiles, HttpRequest], Awaitable[Sendable]]) -> Handler:
    """Wrap a handler so that it gets the shared files and expected failures become problem documents."""

    async def answer(request: HttpRequest) -> Sendable | None:
        return await handler(await open_files(), request)

    return explain_failures(answer, unknown=None)


class VfsRoutes:
    """The files that the agents of a thread tree share, over HTTP."""

    @route(
        "GET",
        "/api/vfs",
        "listFiles",
        "List the shared files",
        "The newest version of each file of a thread tree, sorted by path, without texts and without deleted files.",
        parameters=[_THREAD, query_parameter("prefix", "Only files whose path begins so, such as `notes/`.", None)],
        responses=describe_answer(
            FileList, "The files.", BAD_QUERY, BAD_FILE, STORAGE, example={"files": [_NOTE.to_json()]}
        ),
    )
    async def list_files(self, files: SharedFiles, request: HttpRequest) -> HttpResponse:
        """`GET /api/vfs`."""
        query = read_query(request, "thread", "prefix", longest=LONGEST_PATH)
        prefix = single_value(request, query, "prefix") or ""
        found = await files.list_files(_read_thread(request, query), prefix)
        return HttpResponse.of_json(FileList(files=found).to_json())

    @route(
        "GET",
        "/api/vfs/file",
        "readFile",
        "Read a shared file",
        "Its newest text, or that of a version, which may be a deletion. `ETag` is the version.",
        parameters=[_THREAD, _PATH, query_parameter("version", "An older version of it.", None)],
        responses=describe_answer(
            SharedFile, "The file.", UNKNOWN_FILE, BAD_QUERY, BAD_FILE, STORAGE, example=_FILE.to_json()
        ),
    )
    async def read_file(self, files: SharedFiles, request: HttpRequest) -> HttpResponse:
        """`GET /api/vfs/file`."""
        query = read_query(request, "thread", "path", "version", longest=LONGEST_PATH)
        version = _read_version(request, query, "version")
        return _answer_file(
            await files.read_file(_read_thread(request, query), _read_path(request, query), version=version)
        )

    @route(
        "PUT",
        "/api/vfs/file",
        "writeFile",
        "Write a shared file",
        "Stores the text as the file's next version, by the author `user`. With `If-Match` or `expectedVersion` only "
        "if that version is the newest; else the problem document has the newer `version`, its `author` and a `diff`.",
        parameters=[_THREAD, _PATH, _IF_MATCH],
        requestBody=body_of(FileBody, {"content": _FILE.content, "expectedVersion": 2}, required=True),
        responses=describe_answer(
            FileVersion,
            "The new version.",
            BAD_JSON,
            FILE_CONFLICT,
            BAD_BODY,
            BAD_QUERY,
            BAD_FILE,
            STORAGE,
            example=_NOTE.to_json(),
        ),
    )
    async def write_file(self, files: SharedFiles, request: HttpRequest) -> HttpResponse:
        """`PUT /api/vfs/file`."""
        query = read_query(request, "thread", "path", longest=LONGEST_PATH)
        body = await decode_body(request, FileBody)
        expected = _read_expected(request)
        if None not in (expected, body.expected_version) and expected != body.expected_version:
            raise wrong_parameter(request, "If-Match and expectedVersion name two versions; give one of them.")
        written = await files.write_file(
            _read_thread(request, query),
            _read_path(request, query),
            body.content,
            author=USER,
            expected_version=body.expected_version if expected is None else expected,
        )
        return _answer_file(written)

    @route(
        "DELETE",
        "/api/vfs/file",
        "deleteFile",
        "Delete a shared file",
        "The deletion is the file's next version; its older versions stay, and can be read and written again.",
        parameters=[_THREAD, _PATH, _IF_MATCH],
        responses=describe_answer(
            FileVersion,
            "The version that is the deletion.",
            UNKNOWN_FILE,
            FILE_CONFLICT,
            BAD_QUERY,
            BAD_FILE,
            STORAGE,
            example=msgspec.structs.replace(_NOTE, version=4, size=0, deleted=True, author=USER, run_id=None).to_json(),
        ),
    )
    async def delete_file(self, files: SharedFiles, request: HttpRequest) -> HttpResponse:
        """`DELETE /api/vfs/file`."""
        query = read_query(request, "thread", "path", longest=LONGEST_PATH)
        thread, path = _read_thread(request, query), _read_path(request, query)
        return _answer_file(
            await files.write_file(thread, path, None, author=USER, expected_version=_read_expected(request))
        )

    @route(
        "GET",
        "/api/vfs/log",
        "listFileVersions",
        "List the versions of a shared file",
        "The newest first, deletions included, without texts. `next` is there when more follow: give it as `before`.",
        parameters=[
            _THREAD,
            _PATH,
            query_parameter("limit", f"How many, at most {MOST_LISTED}; {_USUALLY_LISTED} by default.", None),
            query_parameter("before", "The `next` of the previous page, or any version.", None),
        ],
        responses=describe_answer(
            FileHistory,
            "The versions.",
            UNKNOWN_FILE,
            BAD_QUERY,
            BAD_FILE,
            STORAGE,
            example={"versions": [_NOTE.to_json()]},
        ),
    )
    async def list_versions(self, files: SharedFiles, request: HttpRequest) -> HttpResponse:
        """`GET /api/vfs/log`."""
        query = read_query(request, "thread", "path", "limit", "before", longest=LONGEST_PATH)
        limit = page_size(request, query, usual=_USUALLY_LISTED, most=MOST_LISTED)
        before = _read_version(request, query, "before")
        thread, path = _read_thread(request, query), _read_path(request, query)
        found = await files.list_versions(thread, path, limit=limit, before=before)
        # Versions have no gaps: 1 is the last one.
        following = found[-1].version if found and found[-1].version > 1 else None
        return HttpResponse.of_json(FileHistory(versions=found, next=following).to_json())


def _answer_file(file: FileVersion) -> HttpResponse:
    etag = (b"etag", b'"%d"' % file.version)
    return HttpResponse(200, encode_json(file.to_json()), (JSON_TYPE, etag))


def _read_thread(request: HttpRequest, query: Mapping[str, list[str]]) -> str:
    return single_value(request, query, "thread") or "default"


def _read_path(request: HttpRequest, query: Mapping[str, list[str]]) -> str:
    path = single_value(request, query, "path")
    if path is None:
        raise wrong_parameter(request, "path: it is missing; name the file, such as notes/plan.md.")
    return path


def _read_version(request: HttpRequest, query: Mapping[str, list[str]], name: str) -> int | None:
    given = single_value(request, query, name)
    if given is not None and not (given.isascii() and given.isdigit() and 1 <= len(given) <= 9 and int(given)):
        raise wrong_parameter(request, f"{name}: a version is a whole number from 1.")
    return None if given is None else int(given)


def _read_expected(request: HttpRequest) -> int | None:
    """The version in `If-Match`."""
    given = request.find_header(b"if-match")
    if given is None:
        return None
    found = _ETAG.fullmatch(given)
    if found is None:
        raise wrong_parameter(request, 'If-Match: it must be one version, such as "3"; "0" for no file.')
    return int(found[1] or found[2])
