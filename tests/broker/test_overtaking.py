"""A channel that feeds a full and a free queue, on a running node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.control.control import Refusal
from tests.broker import Broker
from tests.broker.flow import MARKS, STOP, settled_depth
from tests.outcomes import wait_get
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_a_channel_that_feeds_a_full_and_a_free_queue(
    channel: Channel, queue: str, connect: Callable[..., Client]
) -> None:
    free = f"{queue}.free"
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    channel.call("queue.declare", queue=free)
    publisher = connect(properties={"overtaking": "destination"}).channel()
    for number in range(2 * STOP):
        publisher.publish(b"%d" % number, queue)
        publisher.publish(b"%d" % number, free)
    wait_for(lambda: channel.depth(free) == 2 * STOP, what="all of what is for the free queue")
    assert settled_depth(channel, queue) < 2 * STOP
    for name in (free, queue):
        assert [wait_get(channel, name).body for _ in range(2 * STOP)] == [b"%d" % number for number in range(2 * STOP)]
    channel.call("queue.delete", queue=free)


def test_a_policy_cannot_say_otherwise(broker: Broker) -> None:
    with pytest.raises(Refusal, match="key 'overtaking': expected 'destination'"):
        broker.call("policy_set", vhost="/", operator=False, name="p", pattern="^a$", apply_to="users", priority=0,
                    definition={"overtaking": True})  # fmt: skip
