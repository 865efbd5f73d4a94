"""Redeclarations: those that count as the same, and RabbitMQ 3.10's texts for those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.amqp.errors import SoftError
from router.authority.equivalence import check_arguments, check_field

SUBJECT = "queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("received", "current", "text"),
    [
        (True, False, "received 'true' but current is 'false'"),
        ("fanout", "direct", "received 'fanout' but current is 'direct'"),
    ],
)
def test_fields(received: Any, current: Any, text: str) -> None:
    check_field(SUBJECT, "f", current, current)
    with pytest.raises(SoftError) as refused:
        check_field(SUBJECT, "f", received, current)
    assert (refused.value.code, refused.value.text) == (406, f"inequivalent arg 'f' for {SUBJECT}: {text}")


@pytest.mark.parametrize(
    ("received", "current", "text"),
    [
        ({}, {"a": 60000}, "received none but current is the value '60000' of type 'signedint'"),
        ({"a": 5}, {}, "received the value '5' of type 'signedint' but current is none"),
        ({"a": None}, {}, "received the value 'undefined' of type 'void' but current is none"),
        ({"a": 1}, {"a": 60000}, "received '1' but current is '60000'"),
        ({"a": False}, {"a": 0}, "received 'false' but current is '0'"),
        ({"a": None}, {"a": 5}, "received none but current is '5'"),
        ({"a": True}, {}, "received the value 'true' of type 'bool' but current is none"),
        ({"a": [1, "a"]}, {"a": 5}, "received '[{signedint,1},{longstr,<<\"a\">>}]' but current is '5'"),
        ({"a": {"a": True}}, {}, "received the value '[{<<\"a\">>,bool,true}]' of type 'table' but current is none"),
    ],
)
def test_arguments(received: dict[str, Any], current: dict[str, Any], text: str) -> None:
    with pytest.raises(SoftError) as refused:
        check_arguments(SUBJECT, ("b", "a"), received, current)
    assert (refused.value.code, refused.value.text) == (406, f"inequivalent arg 'a' for {SUBJECT}: {text}")


def test_arguments_nobody_knows_do_not_count() -> None:
    check_arguments(SUBJECT, ("a",), {"a": 5, "mine": 1}, {"a": 5, "mine": 2, "other": 3})
