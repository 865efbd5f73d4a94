"""Bytes that benchmarks write and count."""

from __future__ import annotations

import pytest

from load import frames
from load.target import Target
from load.throughput import Shape, Subscription, prepared
from load.wire import Wire
from tests.broker import Broker
from tests.frames import publish_frames
from tests.waiting import wait_for


def test_publishes_are_what_the_tests_write() -> None:
    assert frames.publish("q", b"body", 3) == publish_frames(1, b"body", "", "q") * 3
    assert frames.publish("k", b"b", 1, "e", True) == publish_frames(1, b"b", "e", "k", delivery_mode=2)


@pytest.mark.broker
@pytest.mark.parametrize(
    "shape", [Shape(size=1), Shape(size=70_000, persistent=True, prefetch=10), Shape(size=3, queues=2, fanout=True)]
)
def test_deliveries_are_as_long_as_they_are_counted(broker: Broker, shape: Shape) -> None:
    target = Target.parse(broker.address.url)
    with prepared(target, shape):
        queue = shape.names()[-1]
        reader, writer = Subscription(target, shape, queue), Wire(target)
        nbytes = frames.publish(shape.key(queue), bytes(shape.size), 5, shape.exchange, shape.persistent)
        writer.socket.sendall(nbytes)
        received = reader.received
        while len(received) < 5 * reader.bytes_each:
            received += reader.socket.recv(1 << 20)
        assert len(received) == 5 * reader.bytes_each and received.endswith(bytes(shape.size) + b"\xce")
        reader.socket.close()
        writer.socket.close()


@pytest.mark.broker
def test_what_a_queue_is_for_is_gone_afterwards(broker: Broker) -> None:
    target = Target.parse(broker.address.url)

    def there() -> list[str]:
        return sorted(queue.name for queue in broker.queues() if queue.name.startswith("bench-"))

    with prepared(target, Shape(size=1, queues=2, fanout=True)):
        wait_for(lambda: there() == ["bench-0", "bench-1"], what="both queues")
    wait_for(lambda: not there(), what="their end")
