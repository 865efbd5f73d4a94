"""Pages: files by their exact paths, and nothing else of the file system."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import Response

from console.http.errors import HttpError
from console.http.pages import FILES, TYPES, file, index


def get(path: str, **headers: str) -> Response:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "method": "GET", "path": f"/{path}", "headers": given, "query_string": b""})
    return asyncio.run(file(request, path) if path else index(request))


def test_files_are_served_with_their_types() -> None:
    assert FILES["index.html"].body == get("").body == get("index.html").body
    for path, found in FILES.items():
        assert found.media_type in TYPES.values() and found.etag.startswith('"')
        assert get(path).headers["content-type"] == found.media_type


def test_an_unchanged_file_is_not_sent_again() -> None:
    first = get("index.html")
    again = get("index.html", if_none_match=first.headers["etag"])
    assert (again.status_code, again.body) == (304, b"")
    assert get("index.html", if_none_match='"other"').status_code == 200


@pytest.mark.parametrize("path", ["../pages.py", "/etc/passwd", "..%2fpages.py", "index.html\0", ".", "__init__.py"])
def test_nothing_else_is_served(path: str) -> None:
    with pytest.raises(HttpError, match="Not Found"):
        get(path)
