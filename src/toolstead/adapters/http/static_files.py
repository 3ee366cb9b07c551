"""Static files: a folder that was built for browsers, served under a prefix of the route table.

The folder is read once, at the first request, and a request only looks its path up among what was found: no path can
reach anything else, and no folder is ever listed. Links that lead out of it, hidden files and irregular files are
left out. The file name decides how long a browser caches it:

| file | Cache-Control | why |
|---|---|---|
| its name has a hash, in the folder of such files | one year, `immutable` | other content has another name |
| any other | `no-cache` | cached, but revalidated with its ETag, a hash of the content |
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from toolstead.adapters.http.asgi import Headers, HttpRequest, HttpResponse
from toolstead.adapters.http.problem import NOT_FOUND, problem_response
from toolstead.adapters.http.routing import REMAINDER
from toolstead.errors import ToolError
from toolstead.tools.confinement import open_inside

logger = logging.getLogger(__name__)

INDEX: Final = "index.html"
_HASHED_NAME: Final = re.compile(r"(?:.+\.|(?:.*[^A-Za-z0-9_-])?[A-Za-z0-9_]*-)[A-Za-z0-9_-]{8,}\.[a-z0-9]+(?:\.map)?")
_IMMUTABLE: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_REVALIDATED: Final = (b"cache-control", b"no-cache")
# Not `mimetypes`: it reads files of the machine, which may declare a script as plain text.
_CONTENT_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".gif": b"image/gif",
    ".html": b"text/html; charset=utf-8",
    ".ico": b"image/x-icon",
    ".jpeg": b"image/jpeg",
    ".jpg": b"image/jpeg",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".map": b"application/json",
    ".mjs": b"text/javascript; charset=utf-8",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".wasm": b"application/wasm",
    ".webmanifest": b"application/manifest+json",
    ".webp": b"image/webp",
    ".woff": b"font/woff",
    ".woff2": b"font/woff2",
}
_UNKNOWN_TYPE: Final = b"application/octet-stream"


class StaticFiles:
    """Answers with the files of a folder; a handler for a prefix of `Routes`."""

    def __init__(self, folder: Path, *, hashed: str = "assets", headers: Headers = ()) -> None:
        """Name the folder; it is read at the first request.

        Args:
            folder: The files. Its `index.html` answers the prefix itself.
            hashed: The folder inside it whose files have a hash of their content in their names.
            headers: Sent with every file, such as a Content-Security-Policy.
        """
        self._folder = folder
        self._hashed = f"{hashed}/"
        self._headers = ((b"x-content-type-options", b"nosniff"), *headers)
        self._files: dict[str, HttpResponse] | None = None

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer `GET` and `HEAD`; the server omits the body of the latter."""
        if self._files is None:
            self._files = await asyncio.to_thread(self._read_folder)
        file = self._files.get(request.params[REMAINDER] or INDEX)
        if file is None:
            return problem_response(NOT_FOUND, f"There is no file {request.path[:200]}.", instance=request.path)
        if _has_match(request.find_header(b"if-none-match"), dict(file.headers)[b"etag"].decode()):
            return HttpResponse(304, b"", [header for header in file.headers if header[0] != b"content-type"])
        return file

    def _read_folder(self) -> dict[str, HttpResponse]:
        files: dict[str, HttpResponse] = {}
        for name in _list_names(self._folder):
            try:
                with open_inside(self._folder, name, named="the folder of static files") as opened:
                    body = opened.read()
            except (ToolError, OSError) as error:
                logger.warning("skipped a static file: %s", error)
                continue
            is_hashed = name.startswith(self._hashed) and _HASHED_NAME.fullmatch(name) is not None
            headers = (
                (b"content-type", _CONTENT_TYPES.get(Path(name).suffix.lower(), _UNKNOWN_TYPE)),
                (b"etag", b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()),
                _IMMUTABLE if is_hashed else _REVALIDATED,
                *self._headers,
            )
            files[name] = HttpResponse(200, body, headers)
        return files


def _list_names(folder: Path) -> Iterator[str]:
    """The paths in a folder, with slashes; links to other folders are not followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(place).relative_to(folder)
        yield from ((inside / name).as_posix() for name in names if not name.startswith("."))


def _has_match(given: str | None, etag: str) -> bool:
    """Whether `If-None-Match` has the file's ETag; weak and strong match alike (RFC 9110 §13.1.2)."""
    return given is not None and (given == "*" or etag in {one.strip().removeprefix("W/") for one in given.split(",")})
