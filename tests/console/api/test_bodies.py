"""Bodies of requests: defaults, leniency and errors as in RabbitMQ's management."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from console.api.bodies import Invalid, body_of, boolean, integer, table, text


def read(data: bytes, *required: str) -> dict[str, Any]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    return asyncio.run(body_of(Request({"type": "http", "method": "PUT", "headers": []}, receive), *required))


def reason(call: Callable[[], object]) -> Any:
    with pytest.raises(Invalid) as refused:
        call()
    assert refused.value.status == 400 and refused.value.body["error"] == "bad_request"
    return refused.value.body["reason"]


def test_a_body_is_an_object_or_nothing() -> None:
    assert read(b"") == {}
    assert read(b'{"a": 1}', "a") == {"a": 1}
    assert [reason(lambda data=data: read(data)) for data in (b"{", b"[]", b"5", b'"\\ud800"')] == ["not_json"] * 4
    assert reason(lambda: read(b'{"b": 1}', "a", "b", "c")) == "[{key_missing,a},{key_missing,c}]"


def test_fields_have_their_types() -> None:
    body = {"yes": True, "no": "false", "one": 1, "text": "x", "nothing": None, "table": {"a": [1]}, "empty": []}
    assert [boolean(body, key) for key in ("yes", "no", "missing")] == [True, False, False]
    assert reason(lambda: boolean(body, "one")) == ["not_boolean", 1]
    assert [text(body, "text"), text(body, "missing"), text(body, "missing", "direct")] == ["x", "", "direct"]
    assert reason(lambda: text(body, "one")) == ["not_string", "one"]
    assert [table(body, key) for key in ("table", "empty", "missing")] == [{"a": [1]}, {}, {}]
    assert reason(lambda: table(body, "text")) == ["not_table", "text"]
    assert reason(lambda: table({"table": {"a": [{"b": None}]}}, "table")) == "null_not_allowed"
    assert [integer(5), integer("-1")] == [5, -1]
    assert [reason(lambda value=value: integer(value)) for value in ("x", True, 1.5, None, "9" * 5000)] == [
        ["not_integer", value] for value in ("x", True, 1.5, None, "9" * 5000)
    ]
