"""Bodies of requests, read as RabbitMQ's management reads them: its defaults, its leniency and its errors."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request

from console.broker import Facts
from console.http.errors import HttpError

DEPTH_MOST = 100
"""Tables within tables; a field table may have fewer."""


class Invalid(HttpError):
    """A field of the body is not what it should be. RabbitMQ gives some reasons as a list: a word, and the value."""

    def __init__(self, *reason: Any) -> None:
        super().__init__(400, str(reason[0]) if len(reason) == 1 else str(reason))
        self._reason = reason

    @property
    def body(self) -> Facts:
        """The body of the answer."""
        return {"error": "bad_request", "reason": self._reason[0] if len(self._reason) == 1 else list(self._reason)}


async def body_of(request: Request, *required: str) -> Facts:
    """Return the object in a body; an empty body is an empty object. Invalid without the required keys."""
    data = await request.body()
    try:
        found = orjson.loads(data) if data else {}
    except orjson.JSONDecodeError:
        raise Invalid("not_json") from None
    if not isinstance(found, dict):
        raise Invalid("not_json")
    missing = ",".join(f"{{key_missing,{key}}}" for key in required if key not in found)
    if missing:
        raise Invalid(f"[{missing}]")
    return found


def boolean(body: Facts, key: str) -> bool:
    """Return a field that is true or false, perhaps as text; false if it is missing."""
    value = body.get(key, False)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise Invalid("not_boolean", value)


def integer(value: Any) -> int:
    """Return a number, perhaps given as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value) if isinstance(value, str) else _not_integer(value)
    except ValueError:
        return _not_integer(value)


def text(body: Facts, key: str, default: str = "") -> str:
    """Return a field that is text."""
    value = body.get(key, default)
    if not isinstance(value, str):
        raise Invalid("not_string", key)
    return value


def table(body: Facts, key: str) -> Facts:
    """Return a field that is an object, such as arguments; some clients write an empty one as a list."""
    value = body.get(key, {})
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise Invalid("not_table", key)
    _check_values(value, DEPTH_MOST)
    return value


def _check_values(value: Any, depth: int) -> None:
    if value is None:
        raise Invalid("null_not_allowed")
    if not depth:
        raise Invalid("nested_too_deeply")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_values(each, depth - 1)


def _not_integer(value: Any) -> int:
    raise Invalid("not_integer", value)
