"""The consumer timeout, as in RabbitMQ: a channel that keeps deliveries too long is closed, and they are requeued."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import Broker
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_the_channel_is_closed_and_the_message_goes_to_another(tmp_path: Path) -> None:
    with Broker(tmp_path, "amqp.consumer_timeout=2") as broker, Client.connect(broker.address) as client:
        forgetful, other = client.channel(), client.channel()
        queue = forgetful.call("queue.declare", exclusive=True).queue
        forgetful.call("basic.consume", queue=queue)
        forgetful.publish(b"kept", queue)
        forgetful.take("basic.deliver")
        closed = forgetful.closed()
        assert (closed.code, closed.event.class_id, closed.event.method_id) == (406, 0, 0)
        assert closed.text == (
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 2000 ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        other.call("basic.consume", queue=queue, no_ack=True)
        again = other.take("basic.deliver")
        assert (again.body, again.redelivered) == (b"kept", True)
