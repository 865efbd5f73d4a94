"""The console's pages: files that are served as they are."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from console.http.errors import not_found

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
}
CACHED = {"cache-control": "no-cache"}
"""Browsers ask whether a file has changed; its tag says so."""

router = APIRouter(include_in_schema=False)


class File(NamedTuple):
    """A file as it is served."""

    body: bytes
    zipped: bytes
    etag: str
    media_type: str


def _files() -> dict[str, File]:
    """Return the files of the console by their paths; those of other types are not served."""
    root = Path(__file__).parent.parent / "static"
    found = {}
    for path in sorted(root.rglob("*")):
        if path.suffix in TYPES and path.is_file():
            body = path.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            zipped = gzip.compress(body, mtime=0)
            found[path.relative_to(root).as_posix()] = File(body, zipped, etag, TYPES[path.suffix])
    return found


FILES = _files()
"""Read once: no path of a request reaches the file system."""


@router.get("/")
async def index(request: Request) -> Response:
    return _file(request, "index.html")


@router.get("/{path:path}")
async def file(request: Request, path: str) -> Response:
    return _file(request, path)


def _file(request: Request, path: str) -> Response:
    found = FILES.get(path)
    if found is None:
        raise not_found()
    headers = {**CACHED, "etag": found.etag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(found.zipped, headers=headers, media_type=found.media_type)
    return Response(found.body, headers=headers, media_type=found.media_type)
