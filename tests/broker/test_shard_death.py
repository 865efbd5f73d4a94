"""SIGKILL of shards with durable queues: clients go on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.frames import Event
from tests.outcomes import Confirms, wait_depth
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

QUEUES = [f"q-{number}" for number in range(8)]
PERSISTENT = 2


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, acceptors=2, shards=2) as broker:
        yield broker


def kill_shards(broker: Broker) -> None:
    for index in range(2):
        broker.wait_replaced("shard", broker.kill("shard", index))


def declare(channel: Channel, **arguments: object) -> None:
    for queue in QUEUES:
        channel.call("queue.declare", queue=queue, durable=True, arguments=arguments)


def publish(confirms: Confirms, numbers: range) -> None:
    for number in numbers:
        confirms.publish(b"%d" % number, QUEUES[number % len(QUEUES)], delivery_mode=PERSISTENT)


def deliveries(channel: Channel, count: int) -> list[Event]:
    return [channel.take("basic.deliver") for _ in range(count)]


def test_what_is_in_hand_is_acked_after_the_death(own: Broker) -> None:
    """Consumers and gets keep their delivery tags; acked messages never come again, not even after a second death."""
    with Client.connect(own.address) as one, Client.connect(own.address) as other:
        channel, watcher = one.channel(), other.channel()
        declare(channel)
        confirms = Confirms(watcher)
        publish(confirms, range(80))
        confirms.wait()
        channel.call("basic.qos", prefetch_count=5)
        for queue in QUEUES:
            assert channel.get(queue, no_ack=False)
            channel.call("basic.consume", queue=queue)
        seen = {event.body for event in deliveries(channel, 5 * len(QUEUES))}
        kill_shards(own)
        assert not channel.pending()
        channel.send("basic.ack", delivery_tag=6 * len(QUEUES), multiple=True)
        more = deliveries(channel, 4 * len(QUEUES))
        assert not seen & {event.body for event in more}
        channel.send("basic.ack", delivery_tag=10 * len(QUEUES), multiple=True)
        publish(confirms, range(8))
        deliveries(channel, 8)
        kill_shards(own)
        channel.call("channel.close")
        for queue in QUEUES:
            wait_depth(watcher, queue, 1)


def test_publishers_with_confirms_lose_nothing_and_nothing_comes_twice(own: Broker) -> None:
    """Messages stay in order over every death; only those unconfirmed at a shard's death may reach a consumer twice.

    Unlike a confirm, a delivery does not wait for the disk, so a delivered publish may be sent to the shard again.
    """
    with Client.connect(own.address) as one, Client.connect(own.address) as other:
        sender, consumer = one.channel(), other.channel()
        declare(sender)
        confirms = Confirms(sender)
        found: list[int] = []
        numbers: list[int] = []
        unconfirmed: set[int] = set()

        def take() -> None:
            for event in consumer.pending():
                if event.name == "basic.deliver":
                    consumer.take("basic.deliver")
                    found.append(int(event.body))
                    consumer.send("basic.ack", delivery_tag=event.delivery_tag)

        for round in range(4):
            numbers += range(500 * round, 500 * round + 500)
            publish(confirms, range(500 * round, 500 * round + 400))
            if round == 1:
                consumer.call("basic.qos", prefetch_count=20)
                for queue in QUEUES:
                    consumer.call("basic.consume", queue=queue)
            take()
            pid = own.kill("shard", round % 2)
            unconfirmed |= {numbers[tag - 1] for tag in confirms.gather()}
            publish(confirms, range(500 * round + 400, 500 * round + 500))
            own.wait_replaced("shard", pid)
            take()
            confirms.wait()
        assert not confirms.nacked
        wait_for(lambda: take() or len(set(found)) == 2000, what="all messages")
        for remainder in range(len(QUEUES)):
            first_seen = list(dict.fromkeys(number for number in found if number % len(QUEUES) == remainder))
            assert first_seen == sorted(first_seen)
        assert {number for number in found if found.count(number) > 1} <= unconfirmed


def test_a_transaction_is_done_once_though_its_shards_die(own: Broker) -> None:
    with Client.connect(own.address) as client:
        channel = client.channel()
        declare(channel)
        channel.call("tx.select")
        for round in range(4):
            for number in range(160):
                channel.publish(b"%d" % number, QUEUES[number % len(QUEUES)], delivery_mode=PERSISTENT)
            channel.send("tx.commit")
            pid = own.kill("shard", round % 2)
            channel.take("tx.commit-ok")
            own.wait_replaced("shard", pid)
        for queue in QUEUES:
            wait_depth(channel, queue, 80)
