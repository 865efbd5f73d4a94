"""Queues with messages in them, and what a node says is in hand."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tests.broker import Broker
from tests.outcomes import Confirms
from tests.raw import Channel
from tests.waiting import wait_for


def fill(channel: Channel, queue: str, count: int, first: int = 0) -> None:
    """Declare a durable queue and put messages into it, their number as the body and the message id, confirmed."""
    channel.call("queue.declare", queue=queue, durable=True)
    confirms = Confirms(channel.client.channel())
    for number in range(first, first + count):
        confirms.publish(b"%d" % number, queue, message_id=str(number), delivery_mode=2)
    confirms.wait()


def held(broker: Broker, queue: str) -> tuple[int, int]:
    """How many messages of the queue are ready, and unacked."""
    (gauge,) = [gauge for gauge in broker.queues() if gauge.name == queue]
    return gauge.ready, gauge.unacked


def wait_held(broker: Broker, queue: str, ready: int, unacked: int) -> None:
    wait_for(lambda: held(broker, queue) == (ready, unacked), what=f"{ready} ready and {unacked} unacked in {queue}")


def numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """The bodies in what a reader has read."""
    return [int(body) for batch in batches for body in batch.column("body").to_pylist()]
