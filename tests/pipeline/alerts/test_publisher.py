"""Alerts published to an exchange: confirmed, or an error in one line."""

from __future__ import annotations

import json

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from pipeline.alerts.board import Alert
from pipeline.alerts.publisher import Publisher
from pipeline.errors import PipelineError
from tests.conftest import Names
from tests.waiting import wait_for

ALERTS = [
    Alert("queue-full", True, ("/", "orders"), 1_800_000_000_123_456, {"depth": 7}),
    Alert("shard-hot", False, ("node", "1"), 1_800_000_001_000_000, {}),
]


def test_no_alerts_need_no_broker() -> None:
    Publisher("amqp://127.0.0.1:1/", "alerts", patience_s=0.0).publish([])


def test_a_broker_that_is_not_there_is_one_line() -> None:
    publisher = Publisher("amqp://127.0.0.1:1/", "alerts", patience_s=0.0)
    with pytest.raises(PipelineError, match=r"^alerts cannot be published: .+$"):
        publisher.publish(ALERTS)
    with pytest.raises(PipelineError, match=r"^no alert can be published: .+$"):
        publisher.check()


@pytest.mark.broker
def test_alerts_arrive_by_their_routing_keys(url: str, pika_channel: BlockingChannel, names: Names) -> None:
    exchange, queue = names("alerts"), names("q")
    publisher = Publisher(url, exchange, patience_s=0.0)
    publisher.check()
    pika_channel.queue_declare(queue)
    pika_channel.queue_bind(queue, exchange, "queue-full.raised.#")
    publisher.publish(ALERTS)
    publisher.publish(ALERTS[:1])
    bodies = []
    for _ in range(2):
        method, properties, body = wait_for(lambda: _got(pika_channel, queue), what="an alert")
        assert method.routing_key == ALERTS[0].routing_key
        assert (properties.content_type, properties.delivery_mode, properties.type, properties.timestamp) == (
            "application/json", 2, "queue-full", 1_800_000_000,
        )  # fmt: skip
        bodies.append(json.loads(body))
    assert bodies == [json.loads(ALERTS[0].body())] * 2
    assert _got(pika_channel, queue) is None


@pytest.mark.broker
def test_an_exchange_of_another_kind_is_found_by_the_check(url: str) -> None:
    with pytest.raises(PipelineError, match=r"^no alert can be published: .*PRECONDITION"):
        Publisher(url, "amq.fanout").check()


def _got(channel: BlockingChannel, queue: str) -> tuple[object, object, bytes] | None:
    found = channel.basic_get(queue, auto_ack=True)
    return found if found[0] else None
