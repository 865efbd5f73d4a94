"""Answers in JSON."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from penstock.text.utf8 import readable


def answer(content: Any, status: int = 200) -> Response:
    """Return an answer in JSON; text that is not UTF-8 is replaced."""
    try:
        body = orjson.dumps(content, default=_plain)
    except TypeError:  # a surrogate, or a number beyond 64 bits
        body = orjson.dumps(readable(content), default=_plain)
    return Response(body, status, media_type="application/json")


def nothing(status: int = 204) -> Response:
    """Return an answer without a body."""
    return Response(status_code=status)


def _plain(value: object) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
