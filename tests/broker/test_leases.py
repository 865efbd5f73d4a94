"""Leases in a real node whose processes are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.outcomes import Confirms, bodies, wait_depth
from tests.raw import Channel, Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

COUNT = 1000
NUMBERS = [b"%d" % number for number in range(3 * COUNT)]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, acceptors=2) as broker:
        yield broker


def consume(channel: Channel, lease: str, **more: str) -> None:
    channel.call("basic.qos", prefetch_count=COUNT)
    arguments = {"x-lease": lease, **{f"x-lease-{name}": value for name, value in more.items()}}
    channel.call("basic.consume", queue="q", consumer_tag=lease, arguments=arguments)


def taken(channel: Channel) -> list[bytes]:
    return [channel.take("basic.deliver").body for _ in range(COUNT)]


def held_as_it_was(broker: Broker) -> None:
    """Check that both leases still have their messages and that the rest is ready."""
    with broker.connect() as client:
        for number, lease in enumerate(("one", "two")):
            channel = client.channel()
            consume(channel, lease)
            assert taken(channel) == NUMBERS[number * COUNT : (number + 1) * COUNT]
            channel.call("basic.cancel", consumer_tag=lease)
        wait_depth(client.channel(), "q", COUNT)


def test_leases_outlive_connections_acceptors_shards_and_the_node(own: Broker) -> None:
    with Client.connect(own.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q", durable=True)
        confirms = Confirms(client.channel())
        for body in NUMBERS:
            confirms.publish(body, "q", delivery_mode=2)
        confirms.wait()
        consume(channel, "one")
        assert taken(channel) == NUMBERS[:COUNT]
        channel.call("basic.cancel", consumer_tag="one")
        other = client.channel()
        consume(other, "two")
        assert taken(other) == NUMBERS[COUNT : 2 * COUNT]
    held_as_it_was(own)
    for role in ("shard", "acceptor", "acceptor", "shard"):
        own.wait_replaced(role, own.kill(role))
        held_as_it_was(own)
    own.stop()
    own.start()
    held_as_it_was(own)
    with Client.connect(own.address) as client:
        consume(client.channel(), "one", end="ack")
        consume(client.channel(), "two", end="requeue")
        own.wait_replaced("shard", own.kill("shard"))
        channel = client.channel()
        wait_depth(channel, "q", 2 * COUNT)
        assert bodies(channel, "q") == NUMBERS[COUNT:]
