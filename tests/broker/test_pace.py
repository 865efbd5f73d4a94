"""A paced queue on a running node: its depth stays at the target while flat-out producers wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.limits.watermarks import overshoot_of
from tests.broker import Broker
from tests.broker.flow import declaration_refused
from tests.producers import Drain, Producers
from tests.raw import CAPABILITIES, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

DEPTH = 1000


def test_the_depth_stays_at_its_target(broker: Broker, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-pace-depth": DEPTH})
    deepest = 0
    with Producers(broker.address, [queue] * 10) as producers, Client.connect(broker.address) as client:
        wait_for(lambda: channel.depth(queue) >= DEPTH, what="the target")
        drain = Drain(client, queue, prefetch=100)
        for _ in range(50):
            drain.take(200)
            deepest = max(deepest, channel.depth(queue))
        assert producers.alive == 10
        assert deepest <= DEPTH + overshoot_of(DEPTH)
        wait_for(lambda: channel.depth(queue) + 100 >= DEPTH, what="the target again")


def test_who_waits_is_told(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-pace-wait": "1 s"})
    client = connect(capabilities=CAPABILITIES)
    publisher = client.channel()
    for _ in range(500):
        publisher.publish(b"x", queue)
    reason = client.take("connection.blocked").reason
    assert reason.startswith(f"queue '{queue}' in vhost '/': ") and " messages, paced to " in reason
    channel.call("queue.purge", queue=queue)
    wait_for(lambda: channel.depth(queue) > 0, what="more as room is made")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-pace-depth": 0}, "'x-pace-depth' for {}: {{value_zero,0}}"),
        ({"x-pace-wait": 200}, "'x-pace-wait' for {}: {{unacceptable_type,signedint}}"),
        ({"x-pace-wait": "200"}, "'x-pace-wait' for {}: \"'200' is not a time"),
    ],
    ids=str,
)
def test_declarations_refused(channel: Channel, queue: str, arguments: dict[str, object], reason: str) -> None:
    declaration_refused(channel, queue, arguments, reason)
