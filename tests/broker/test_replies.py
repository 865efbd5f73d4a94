"""Direct reply-to over sockets, between clients and servers at any acceptors (RabbitMQ's extension)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.outcomes import wait_get
from tests.raw import Client

pytestmark = pytest.mark.broker

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"


def test_requests_of_many_clients_are_answered(connect: Callable[..., Client], queue: str) -> None:
    server = connect().channel()
    server.call("queue.declare", queue=queue)
    for number in range(6):
        client = connect().channel()
        client.call("basic.consume", queue=PSEUDO_QUEUE, no_ack=True)
        client.publish(b"%d" % number, queue, reply_to=PSEUDO_QUEUE, correlation_id=str(number))
        request = wait_get(server, queue)
        server.publish(b"answer " + request.body, request.properties["reply_to"], correlation_id=str(number))
        answer = client.take("basic.deliver")
        assert (answer.body, answer.properties) == (b"answer %d" % number, {"correlation_id": str(number)})
    server.call("queue.delete", queue=queue)


def test_no_request_without_a_consumer(connect: Callable[..., Client], queue: str) -> None:
    channel = connect().channel()
    channel.publish(b"x", queue, reply_to=PSEUDO_QUEUE)
    refused = channel.closed()
    assert (refused.code, refused.text) == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")
