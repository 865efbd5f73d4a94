"""Two clients that feed each other's full queues and acknowledge on their held connections: both must go on."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from tests.broker.ways import each_way
from tests.frames import method_frame, publish_frames
from tests.raw import JAVA, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]


class Feeder:
    """A client that publishes to one queue and consumes another on the same connection, without ever waiting.

    Like an event-driven client, it buffers output that the socket does not accept yet, acks in order behind publishes.
    """

    def __init__(self, client: Client, source: str, target: str, channels: int, prefetch: int) -> None:
        self.client = client
        self.target = target
        self.publisher = client.channel()
        self.consumer = self.publisher if channels == 1 else client.channel()
        self.consumer.call("basic.qos", prefetch_count=prefetch)
        self.consumer.call("basic.consume", queue=source)
        self.received = 0
        self._outgoing = bytearray()

    def publish(self, count: int) -> None:
        nbytes = publish_frames(self.publisher.number, bytes(256), routing_key=self.target)
        self._outgoing += nbytes * count

    def turn(self, echo: bool) -> None:
        """Read and acknowledge arrived deliveries, answer each with a publish if `echo`, and write what fits."""
        self.client.poll()
        line = self.client.line(self.consumer.number)
        while any(event.name == "basic.deliver" for event in line):
            event = self.consumer.take("basic.deliver")
            self.received += 1
            self._outgoing += method_frame("basic.ack", self.consumer.number, delivery_tag=event.delivery_tag)
            if echo:
                self.publish(1)
        try:
            del self._outgoing[: self.client.socket.send(self._outgoing, socket.MSG_DONTWAIT) if self._outgoing else 0]
        except BlockingIOError:
            return


@pytest.fixture(params=[1, 2], ids=["one-channel", "two-channels"])
def feeders(
    request: pytest.FixtureRequest, connect: Callable[..., Client], channel: Channel, names: Callable[[str], str]
) -> tuple[Feeder, Feeder]:
    """Two clients that feed each other's queues, which have small limits."""
    marks = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}
    queues = [names("left"), names("right")]
    for queue in queues:
        channel.call("queue.declare", queue=queue, arguments=marks)
    left, right = queues
    return (
        Feeder(connect(), left, right, request.param, prefetch=5),
        Feeder(connect(properties=JAVA), right, left, request.param, prefetch=5),
    )


def test_two_clients_that_flood_each_other(feeders: tuple[Feeder, Feeder]) -> None:
    """Both queues are full, both clients are held, and both acknowledge on the held connection."""
    count = 500
    for feeder in feeders:
        feeder.publish(count)

    def all_received() -> bool:
        for feeder in feeders:
            feeder.turn(echo=False)
        return all(feeder.received == count for feeder in feeders)

    wait_for(all_received, timeout=40, interval=0.001)


def test_two_clients_that_answer_each_other_for_ever(feeders: tuple[Feeder, Feeder]) -> None:
    """Each delivery is answered by a publish to the other client, with far more in flight than the queues have room
    for.
    """
    for feeder in feeders:
        feeder.publish(200)

    def enough() -> bool:
        for feeder in feeders:
            feeder.turn(echo=True)
        return all(feeder.received >= 3000 for feeder in feeders)

    wait_for(enough, timeout=40, interval=0.001)


@each_way
def test_two_clients_far_beyond_what_can_be_parked(feeders: tuple[Feeder, Feeder]) -> None:
    """The sockets are paused too, with acknowledgements stuck in them: the drip still reads them."""
    count = 1000
    for feeder in feeders:
        feeder.publish(count)

    def all_received() -> bool:
        for feeder in feeders:
            feeder.turn(echo=False)
        return all(feeder.received == count for feeder in feeders)

    wait_for(all_received, timeout=60, interval=0.001)
