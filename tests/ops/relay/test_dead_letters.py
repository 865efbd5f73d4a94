"""Where dead letters go back to."""

from __future__ import annotations

import pytest

from ops.relay.dead_letters import way_back, way_to_queue
from ops.relay.delivery import Delivery, Way
from penstock.amqp.properties import encode_properties
from penstock.client.unconfirmed import Destination

FIRST = {"queue": "orders", "reason": "rejected", "exchange": "events", "routing-keys": ["order.new", "cc"]}
SECOND = {"queue": "retry", "reason": "expired", "exchange": "dlx", "routing-keys": ["retry"]}
ORDERS = Destination("", "orders")


def letter(**headers: object) -> Delivery:
    return Delivery(1, "", "dead", encode_properties({"headers": headers}), b"")


def test_the_first_death_counts() -> None:
    named = {"x-first-death-queue": "orders", "x-first-death-reason": "rejected"}
    expected = Way(Destination("events", "order.new"), ORDERS)
    for found in (letter(**{"x-death": [FIRST, SECOND], **named}), letter(**{"x-death": [SECOND, FIRST]})):
        assert way_back(found) == expected
        assert way_to_queue(found) == Way(ORDERS)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-first-death-queue": "orders"},
        {"x-death": [{"queue": "orders"}]},
        {"x-death": [{**FIRST, "routing-keys": []}]},
        {"x-death": [{**FIRST, "exchange": 7}]},
        {"x-death": [FIRST | {"exchange": "", "routing-keys": ["orders"]}]},
    ],
)
def test_without_an_exchange_the_queue_is_the_way(headers: dict[str, object]) -> None:
    assert way_back(letter(**headers)) == Way(ORDERS)


@pytest.mark.parametrize("headers", [{}, {"x-death": "x"}, {"x-death": [1, {"queue": 7}]}, {"x-first-death-queue": 1}])
def test_others_are_no_dead_letters(headers: dict[str, object]) -> None:
    assert way_back(letter(**headers)) is None and way_to_queue(letter(**headers)) is None


def test_a_message_that_cannot_be_read_is_none() -> None:
    assert way_back(Delivery(1, "", "q", b"\x20\x00\xff", b"")) is None
    assert way_back(Delivery(1, "", "q", b"\x00\x00", b"")) is None
