"""Calls of HTTP services, by several threads at once. Each call is bounded in time, and its answer in size."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import urllib3

ANSWER_MOST = 1024 * 1024
"""Bytes of an answer."""
CHUNK = 65536
POOLED = 8
"""Connections to a server that are kept open."""


class WebError(Exception):
    """A call has failed. The text names no part of the request but the server: the request may have a password."""


class Answer(NamedTuple):
    """The status and the body of an answer."""

    status: int
    body: bytes


class Web:
    """Connections to HTTP servers, with the certificates of authorities (None: the system's), and seconds for a call.

    Servers are verified, and redirections not followed.
    """

    def __init__(self, authorities: Path | None, timeout: float) -> None:
        self._timeout = timeout
        self._pools = urllib3.PoolManager(
            num_pools=POOLED, maxsize=POOLED, cert_reqs="CERT_REQUIRED",
            ca_certs=None if authorities is None else str(authorities),
        )  # fmt: skip

    def call(self, url: str, method: str = "GET", fields: Mapping[str, str] | None = None) -> Answer:
        """Call a URL with fields, in the query or a form. WebError if there is no answer in time."""
        deadline = time.monotonic() + self._timeout
        try:
            try:
                return self._call(url, method, fields, deadline)
            except urllib3.exceptions.ProtocolError:
                # A kept connection may be closed by the server at the moment of the call.
                return self._call(url, method, fields, deadline)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise WebError(f"{urllib3.util.parse_url(url).netloc} does not answer: {_reason(error)}") from None

    def _call(self, url: str, method: str, fields: Mapping[str, str] | None, deadline: float) -> Answer:
        form = urlencode(fields or {})
        if method == "GET" and form:
            url = f"{url}{'&' if '?' in url else '?'}{form}"
        response = self._pools.urlopen(
            method, url, redirect=False, retries=False, preload_content=False,
            timeout=urllib3.Timeout(total=max(deadline - time.monotonic(), 0.001)),
            body=form.encode() if method == "POST" else None,
            headers={"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else None,
        )  # fmt: skip
        body = b""
        try:
            while chunk := response.read1(CHUNK):
                body += chunk
                if len(body) > ANSWER_MOST:
                    raise ValueError(f"more than {ANSWER_MOST} bytes")
                if time.monotonic() > deadline:
                    raise ValueError("no end of the answer in time")
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return Answer(response.status, body)


def _reason(error: Exception) -> str:
    """Return the text of an error without the request."""
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "timed out"
    if isinstance(error, ValueError):
        return str(error)
    cause = error.__cause__ or error.__context__ or error
    return f"{type(cause).__name__}: {cause}"[:200]
