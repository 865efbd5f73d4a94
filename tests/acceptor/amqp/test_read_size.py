from __future__ import annotations

from acceptor.amqp.read_size import LARGE_READ_BYTES, LEAST_READ_BYTES, MANY_EVENTS, READ_BYTES
from tests.frames import method_frame
from tests.raw import publish_frames
from tests.simulator.joined.node import Node

KIB = 1024


def test_many_methods_at_once_make_the_next_read_smaller_until_there_are_few() -> None:
    with Node() as node:
        client = node.connect()
        client.call("channel.open", 1)
        many = method_frame("basic.qos", 1, prefetch_count=1) * (MANY_EVENTS + 1)
        sizes = []
        for _ in range(6):
            client.write(many)
            client.read()
            sizes.append(client.connection.read_bytes())
        assert sizes == [128 * KIB, 64 * KIB, 32 * KIB, 16 * KIB, LEAST_READ_BYTES, LEAST_READ_BYTES]
        for size in (16, 32, 64, 128, 256, 256):
            client.send("basic.qos", 1, prefetch_count=1)
            client.read()
            assert client.connection.read_bytes() == size * KIB
        node.settle()
        assert len(client.events[1]) == 6 * (MANY_EVENTS + 1) + 6


def test_thousands_of_publishes_are_one_event() -> None:
    with Node() as node:
        node.declare("queue")
        client = node.connect()
        client.call("channel.open", 1)
        client.write(publish_frames(1, b"x", "", "queue") * 4000)
        client.read()
        assert client.connection.read_bytes() == READ_BYTES


def test_large_bodies_are_read_more_of() -> None:
    with Node() as node:
        node.declare("queue")
        client = node.connect()
        client.call("channel.open", 1)
        client.publish(1, bytes(100_000), "", "queue")
        client.read()
        assert client.connection.read_bytes() == LARGE_READ_BYTES
