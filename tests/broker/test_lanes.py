"""The priority lane on a running node: a control message reaches a full queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.flow import MARKS, STOP, declaration_refused, most, settled_depth
from tests.outcomes import Confirms, wait_get
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_what_is_urgent_passes_a_full_queue(channel: Channel, queue: str, connect: Callable[..., Client]) -> None:
    channel.call("queue.declare", queue=queue, arguments={**MARKS, "x-lane-priority": 5, "x-lane-reserve": 10})
    publisher = connect().channel()
    for _ in range(2 * STOP):
        publisher.publish(b"data", queue)
    publisher.client.take("connection.blocked")
    depth = settled_depth(channel, queue)
    assert STOP <= depth <= most(STOP)
    urgent = Confirms(connect().channel())
    urgent.publish(b"urgent", queue, priority=5)
    urgent.wait()
    assert urgent.acked == {1} and channel.depth(queue) == depth + 1
    for _ in range(100):
        urgent.publish(b"urgent", queue, priority=9)
    wait_for(lambda: channel.depth(queue) >= STOP + 10, what="the reserve beyond the mark")
    assert settled_depth(channel, queue) <= most(STOP) + 2 * 12 + 10 + 2
    bodies = [wait_get(channel, queue).body for _ in range(2 * STOP + 101)]
    assert bodies.count(b"urgent") == 101 and bodies.index(b"urgent") <= depth


def test_who_waits_for_the_reserve_goes_on_while_the_queue_stays_stopped(
    channel: Channel, queue: str, connect: Callable[..., Client]
) -> None:
    channel.call("queue.declare", queue=queue, arguments={**MARKS, "x-lane-priority": 5, "x-lane-reserve": 10})
    urgent = [Confirms(connect().channel()) for _ in range(2)]
    for _ in range(2 * STOP):
        for publisher in urgent:
            publisher.publish(b"urgent", queue, priority=9)
    wait_for(lambda: channel.depth(queue) >= STOP + 10, what="the reserve beyond the mark")
    for _ in range(40):
        wait_get(channel, queue)
        wait_for(lambda: channel.depth(queue) >= STOP + 10, what="those that waited, for those that have left")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-lane-priority": 256}, "'x-lane-priority' for {}: {{max_value_exceeded,256}}"),
        ({"x-lane-key": "a("}, "'x-lane-key' for {}: "),
        ({"x-lane-reserve": 0}, "'x-lane-reserve' for {}: {{value_zero,0}}"),
    ],
    ids=str,
)
def test_declarations_refused(channel: Channel, queue: str, arguments: dict[str, object], reason: str) -> None:
    declaration_refused(channel, queue, arguments, reason)
