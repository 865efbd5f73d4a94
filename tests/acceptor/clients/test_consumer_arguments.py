"""The arguments of basic.consume; the error texts are RabbitMQ's."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.clients.consumer_arguments import consumer_priority
from penstock.amqp.errors import AMQPError
from penstock.amqp.values import Timestamp
from penstock.limits.features import QueueFeatures
from router.model.records import Queue


def queue(type: str = "classic") -> Queue:
    return Queue("v", "q", 1, 1, 0, True, False, None, {}, [], QueueFeatures(type=type).to_wire())


def refused(queue: Queue, **arguments: Any) -> str:
    with pytest.raises(AMQPError) as caught:
        consumer_priority(queue, arguments)
    assert caught.value.code == 406
    return caught.value.text


@pytest.mark.parametrize("priority", [0, 3, -7, 2**40, -(2**62)])
def test_a_priority_is_an_integer(priority: int) -> None:
    assert consumer_priority(queue(), {"x-priority": priority}) == priority


def test_without_a_priority_it_is_0() -> None:
    assert consumer_priority(queue(), {"x-unknown": "anything"}) == 0


@pytest.mark.parametrize(
    ("value", "kind"),
    [("5", "longstr"), (True, "bool"), (1.5, "double"), (None, "void"), ({}, "table"), ([], "array"),
     (Timestamp(5), "timestamp")],
)  # fmt: skip
def test_nothing_else_is_a_priority(value: object, kind: str) -> None:
    text = f"invalid arg 'x-priority' for queue 'q' in vhost 'v': \"expected integer, got {kind}\""
    assert refused(queue(), **{"x-priority": value}) == text


def test_failover_is_a_bool_and_for_classic_queues() -> None:
    assert consumer_priority(queue(), {"x-cancel-on-ha-failover": True}) == 0
    subject = "invalid arg 'x-cancel-on-ha-failover' for queue 'q' in vhost 'v'"
    assert refused(queue(), **{"x-cancel-on-ha-failover": "yes"}) == f"{subject}: {{unacceptable_type,longstr}}"
    quorum = queue("quorum")
    assert refused(quorum, **{"x-cancel-on-ha-failover": True}) == f"{subject} of queue type rabbit_quorum_queue"


def test_an_offset_is_for_streams() -> None:
    text = "invalid arg 'x-stream-offset' for queue 'q' in vhost 'v' of queue type rabbit_classic_queue"
    assert refused(queue(), **{"x-stream-offset": "first"}) == text
    assert "x-priority" in refused(queue(), **{"x-stream-offset": "first", "x-priority": "high"})
