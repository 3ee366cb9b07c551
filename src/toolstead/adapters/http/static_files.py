"""Static files: a folder that was built for browsers.

The folder is read once, at the first request that finds files in it, and a request only looks its path up among what
was found: no path can reach anything else, and no folder is ever listed. Links that lead out of it, hidden files and
irregular files are left out. Texts are compressed when the folder is read, and sent so to browsers that accept it. The
file name decides how long a browser caches it:

| file | Cache-Control | why |
|---|---|---|
| its name has a hash, in the folder of such files | one year, `immutable` | other content has another name |
| any other | `no-cache` | cached, but revalidated with its ETag, a hash of the content |
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolstead.adapters.http.asgi import Headers, HttpRequest, HttpResponse
from toolstead.errors import ToolError
from toolstead.tools.confinement import open_inside

logger = logging.getLogger(__name__)

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
_COMPRESSED: Final = (
    b"text/",
    b"application/json",
    b"application/manifest+json",
    b"application/wasm",
    b"image/svg+xml",
)
"""What the types of files begin with that compression makes smaller."""
_GZIP: Final = (b"content-encoding", b"gzip")
_VARY: Final = (b"vary", b"Accept-Encoding")
_KEPT_IN_304: Final = frozenset({b"cache-control", b"etag", b"vary"})


@dataclass(frozen=True, slots=True)
class _StaticFile:
    """One file as it is sent: as it is, and compressed where that is worth it."""

    plain: HttpResponse
    compressed: HttpResponse | None


class StaticFiles:
    """Finds the answer among the files of a folder."""

    def __init__(self, folder: Path, *, hashed: str = "assets", headers: Headers = ()) -> None:
        """Name the folder.

        Args:
            folder: The files. As long as there are none, it is looked at again: they may still be built.
            hashed: The folder inside it whose files have a hash of their content in their names.
            headers: Sent with every file, such as a Content-Security-Policy.
        """
        self._folder = folder
        self._hashed = f"{hashed}/"
        self._headers = ((b"x-content-type-options", b"nosniff"), *headers)
        self._files: dict[str, _StaticFile] = {}

    async def find_file(self, request: HttpRequest, name: str) -> HttpResponse | None:
        """The answer with a file, by its path in the folder; None where there is no such file.

        For `GET` and `HEAD`; the server omits the body of the latter.
        """
        if not self._files:
            self._files = await asyncio.to_thread(self._read_folder)
        if (file := self._files.get(name)) is None:
            return None
        accepts = file.compressed is not None and _accepts_gzip(request.find_header(b"accept-encoding"))
        answer = file.compressed if accepts and file.compressed is not None else file.plain
        if _has_match(request.find_header(b"if-none-match"), dict(answer.headers)[b"etag"].decode()):
            return HttpResponse(304, b"", [header for header in answer.headers if header[0] in _KEPT_IN_304])
        return answer

    def _read_folder(self) -> dict[str, _StaticFile]:
        files: dict[str, _StaticFile] = {}
        for name in _list_names(self._folder):
            try:
                with open_inside(self._folder, name, named="the folder of static files") as opened:
                    body = opened.read()
            except (ToolError, OSError) as error:
                logger.warning("skipped a static file: %s", error)
                continue
            files[name] = self._prepare_file(name, body)
        return files

    def _prepare_file(self, name: str, body: bytes) -> _StaticFile:
        is_hashed = name.startswith(self._hashed) and _HASHED_NAME.fullmatch(name) is not None
        kind = _CONTENT_TYPES.get(Path(name).suffix.lower(), _UNKNOWN_TYPE)
        headers = ((b"content-type", kind), _IMMUTABLE if is_hashed else _REVALIDATED, *self._headers)
        digest = hashlib.sha256(body).hexdigest()[:32].encode()
        smaller = gzip.compress(body, mtime=0) if kind.startswith(_COMPRESSED) else body
        if len(smaller) >= len(body):
            return _StaticFile(HttpResponse(200, body, (*headers, (b"etag", b'"%s"' % digest))), None)
        return _StaticFile(
            HttpResponse(200, body, (*headers, (b"etag", b'"%s"' % digest), _VARY)),
            # Other bytes, so another tag.
            HttpResponse(200, smaller, (*headers, (b"etag", b'"%s-gzip"' % digest), _VARY, _GZIP)),
        )


def _list_names(folder: Path) -> Iterator[str]:
    """The paths in a folder, with slashes; links to other folders are not followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(place).relative_to(folder)
        yield from ((inside / name).as_posix() for name in names if not name.startswith("."))


def _has_match(given: str | None, etag: str) -> bool:
    """Whether `If-None-Match` has the file's ETag; weak and strong match alike (RFC 9110 §13.1.2)."""
    return given is not None and (given == "*" or etag in {one.strip().removeprefix("W/") for one in given.split(",")})


def _accepts_gzip(given: str | None) -> bool:
    """Whether `Accept-Encoding` names gzip, and not with a weight of zero (RFC 9110 §12.5.3)."""
    for one in (given or "").split(","):
        coding, _, weight = one.partition(";")
        if coding.strip().lower() == "gzip":
            return not re.fullmatch(r"\s*q\s*=\s*0(?:\.0*)?\s*", weight)
    return False
