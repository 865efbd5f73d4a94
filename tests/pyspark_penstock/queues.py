"""Queues with messages in them, and a node's counts of unacked messages."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tests.broker import Broker
from tests.outcomes import Confirms
from tests.raw import Channel
from tests.waiting import wait_for


def fill(channel: Channel, queue: str, count: int, first: int = 0) -> None:
    """Declare a durable queue and publish messages to it, with their number as body and message id, confirmed."""
    channel.call("queue.declare", queue=queue, durable=True)
    confirms = Confirms(channel.client.channel())
    for number in range(first, first + count):
        confirms.publish(b"%d" % number, queue, message_id=str(number), delivery_mode=2)
    confirms.wait()


def held(broker: Broker, queue: str) -> tuple[int, int]:
    """Return the numbers of ready and of unacked messages of the queue."""
    (gauge,) = [gauge for gauge in broker.queues() if gauge.name == queue]
    return gauge.ready, gauge.unacked


def wait_held(broker: Broker, queue: str, ready: int, unacked: int) -> None:
    """Wait until the queue has `ready` ready and `unacked` unacked messages."""
    wait_for(lambda: held(broker, queue) == (ready, unacked), what=f"{ready} ready and {unacked} unacked in {queue}")


def numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """Return the bodies that a reader has read, as numbers."""
    return [int(body) for batch in batches for body in batch.column("body").to_pylist()]
