"""Answers in JSON."""

from __future__ import annotations

import json

import pytest

from console.http.answers import answer, nothing


@pytest.mark.parametrize(
    ("content", "expected"),
    [({"a": [1, None]}, {"a": [1, None]}), ("caf\udce9", "caf\ufffd"), ({"b": b"\xff"}, {"b": "\ufffd"})],
)
def test_whatever_there_is_can_be_answered(content: object, expected: object) -> None:
    found = answer(content)
    assert (found.status_code, found.media_type) == (200, "application/json")
    assert json.loads(bytes(found.body)) == expected


def test_an_answer_may_have_no_body() -> None:
    assert (nothing().status_code, bytes(nothing().body)) == (204, b"")
