"""Common parts of the flow-control tests: marks that stop producers, and the overshoot allowed."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

from tests.broker.process import Broker
from tests.producers import Producers
from tests.raw import Channel, Client
from tests.waiting import PATIENCE, settled, wait_for

SIZE = 1024
STOP, RESUME = 200, 100
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME}
"""Arguments of a queue that stops its producers at 200 messages and releases them at 100."""


def most(stop: int) -> int:
    """Return the greatest depth allowed to a queue with this stop mark: a fifth above the mark."""
    return stop + stop // 5


def declaration_refused(channel: Channel, queue: str, arguments: dict[str, object], reason: str) -> None:
    """Check that a declaration with an invalid argument is refused; `reason` has {} for the queue."""
    channel.send("queue.declare", queue=queue, arguments=arguments)
    closed = channel.closed()
    said = reason.format(f"queue '{queue}' in vhost '/'")
    assert closed.code == 406 and closed.text.startswith(f"PRECONDITION_FAILED - invalid arg {said}")


def settled_depth(channel: Channel, queue: str, quiet: float = 0.5, timeout: float = PATIENCE) -> int:
    """Return the depth of a queue once it has stopped changing."""
    return settled(lambda: channel.depth(queue), quiet, timeout)


def wait_held(channel: Channel, queue: str, producers: Producers, timeout: float = PATIENCE) -> int:
    """Wait until all producers know that they are held and messages in flight have arrived; return the depth."""
    wait_for(lambda: producers.blocked, timeout, f"producers held by {queue}")
    depth = settled_depth(channel, queue, timeout=timeout)
    assert depth < producers.written, "all of it went in: nobody was held"
    return depth


def fill_socket(client: Client, data: bytes, broker: Broker, queue: str, quiet: float = 0.5) -> int:
    """Write `data` repeatedly until the broker has paused the socket for the queue and the socket has accepted nothing
    for `quiet` seconds; return the number of bytes written.
    """
    sent, since = 0, time.monotonic()
    while time.monotonic() - since < quiet or not paused(broker, queue):
        ready = client.ready(select.POLLIN | select.POLLOUT, quiet)
        if ready & select.POLLOUT:
            sent += client.socket.send(data[sent % len(data) :], socket.MSG_DONTWAIT)
            since = time.monotonic()
        if ready & select.POLLIN:
            client.receive()
    return sent


def paused(broker: Broker, queue: str) -> bool:
    """Whether a connection is paused for a queue."""
    return any(held["paused"] and held["causes"][0].get("name") == queue for held in broker.held())
