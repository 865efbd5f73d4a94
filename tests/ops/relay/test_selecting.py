"""Messages by header and age."""

from __future__ import annotations

import pytest

from ops.errors import CommandError
from ops.relay.delivery import Delivery
from ops.relay.selecting import Selection
from penstock.amqp.properties import encode_properties
from penstock.amqp.values import Timestamp


def message(**properties: object) -> Delivery:
    return Delivery(1, "", "q", encode_properties(properties), b"")


@pytest.mark.parametrize(
    ("value", "given"), [("x=y", "x=y"), ("", ""), (7, "7"), (True, "true"), (1.5, "1.5"), (b"\xff", "\udcff")]
)
def test_a_header_is_compared_as_text(value: object, given: str) -> None:
    selection = Selection([f"kind={given}"], None)
    assert selection.has(message(headers={"kind": value}), 0.0)
    assert not selection.has(message(headers={"kind": "other"}), 0.0)
    assert not selection.has(message(headers={}), 0.0) and not selection.has(message(), 0.0)


def test_all_headers_are_needed() -> None:
    selection = Selection(["a=1", "b=2"], None)
    assert selection.has(message(headers={"a": 1, "b": 2}), 0.0)
    assert not selection.has(message(headers={"a": 1}), 0.0)


def test_the_age_is_that_of_the_timestamp() -> None:
    selection = Selection([], 10.0)
    assert selection.has(message(timestamp=Timestamp(89)), 100.0)
    assert not selection.has(message(timestamp=Timestamp(90)), 100.0)
    assert not selection.has(message(), 100.0)


def test_unreadable_properties_are_those_of_no_message_that_is_looked_for() -> None:
    broken = Delivery(1, "", "q", b"\x20\x00\xff", b"")
    assert Selection([], None).has(broken, 0.0)
    assert not Selection(["a=1"], None).has(broken, 0.0)


@pytest.mark.parametrize("given", ["", "kind", "=1"])
def test_a_header_has_a_name_and_a_value(given: str) -> None:
    with pytest.raises(CommandError, match="NAME=VALUE"):
        Selection([given], None)
