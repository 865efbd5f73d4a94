"""A client's settings for a channel's deliveries: qos, channel.flow, and a reply consumer."""

from __future__ import annotations

from penstock.amqp.replies import PSEUDO_QUEUE
from tests.simulator.joined.node import Node, open_channel

MOST = 300


def test_a_channel_begins_with_the_nodes_prefetch_and_takes_another() -> None:
    with Node(amqp={"prefetch_max": MOST}) as node:
        client = open_channel(node)
        receiving = client.connection.channels[1].receiving
        assert (receiving.prefetch, receiving.active, receiving.reply_consumer) == (MOST, True, None)
        for asked, prefetch in ((7, 7), (0, MOST), (MOST + 1, MOST)):
            client.call("basic.qos", 1, prefetch_count=asked)
            assert receiving.prefetch == prefetch


def test_deliveries_are_active_as_the_client_says_and_the_connection_allows() -> None:
    with Node() as node:
        client = open_channel(node)
        channel = client.connection.channels[1]
        for active in (False, True):
            client.call("channel.flow", 1, active=active)
            assert channel.receiving.active is channel.is_delivered_to() is active
        client.connection.deliveries_withheld = True
        assert channel.receiving.active and not channel.is_delivered_to()


def test_a_reply_consumer_is_there_until_it_is_cancelled() -> None:
    with Node() as node:
        client = open_channel(node)
        receiving = client.connection.channels[1].receiving
        client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True, consumer_tag="answers")
        assert receiving.reply_consumer is not None and receiving.reply_consumer.tag == "answers"
        client.call("basic.cancel", 1, consumer_tag="answers")
        assert receiving.reply_consumer is None
