"""A reply consumer's part of basic.deliver: the tag chosen by its client, whatever its bytes."""

from __future__ import annotations

import pytest

from acceptor.clients.reply_consumer import ReplyConsumer
from penstock.amqp.replies import PSEUDO_QUEUE
from tests.frames import METHODS, parse_method, shortstr
from tests.simulator.joined.node import Node, open_channel

REST = bytes(8) + b"\0" + shortstr("") + shortstr("key")


@pytest.mark.parametrize("tag", ["", "t", "gr\u00fc\u00dfe", "t" * 255])
def test_the_prefix_is_the_beginning_of_a_basic_deliver(tag: str) -> None:
    event = parse_method(1, ReplyConsumer(tag, "name").prefix + REST)
    assert METHODS[event.name] == METHODS["basic.deliver"]
    assert (event.consumer_tag, event.delivery_tag, event.routing_key) == (tag, 0, "key")


def test_a_tag_that_is_no_utf8_keeps_its_bytes() -> None:
    tag = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert ReplyConsumer(tag, "name").prefix.endswith(b"\x02\xff\xfe")


def test_bytes_count_as_untaken_only_while_the_socket_accepts_nothing() -> None:
    with Node() as node:
        client = open_channel(node)
        client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
        consumer = client.connection.channels[1].receiving.reply_consumer
        assert consumer is not None
        delivery = node.core(0).delivery
        for writable, untaken in ((True, False), (False, True), (True, False)):
            delivery.writable(client.connection, writable)
            client.publish(1, b"answer", routing_key=consumer.name)
            node.settle()
            assert bool(consumer.untaken) is untaken
