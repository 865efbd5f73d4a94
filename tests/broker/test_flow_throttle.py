"""Producers held by the means chosen by a queue or a policy (`x-throttle`)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.outcomes import wait_get
from tests.raw import JAVA, Channel, Client, Closed
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]


def test_a_chosen_set(broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """No channel.flow for a client that would honour it, no confirm withheld; later publishes wait and arrive."""
    channel.call("queue.declare", queue=queue, arguments={**MARKS, "x-throttle": "blocked, park"})
    client = connect(properties=JAVA)
    publisher = client.channel()
    publisher.call("confirm.select")
    for number in range(2 * STOP):
        publisher.publish(b"%d" % number, queue)
    assert queue in client.take("connection.blocked").reason
    depth = wait_for(lambda: channel.depth(queue) > STOP and channel.depth(queue))
    confirmed = 0
    while confirmed < depth:
        confirmed = publisher.take("basic.ack").delivery_tag
    (held,) = [held for held in broker.held() if held["causes"][0].get("name") == queue]
    assert held["notified_by"] == ["blocked"] and not held["withheld"] and not held["paused"]
    explained = json.loads(broker.penstock("flow", "explain", queue, "--json").stdout)
    assert {"setting": "throttle", "value": "blocked, park", "source": "declaration: x-throttle"} in explained[
        "settings"
    ]
    assert [wait_get(channel, queue).body for _ in range(2 * STOP)] == [b"%d" % number for number in range(2 * STOP)]
    client.take("connection.unblocked")
    assert "channel.flow" not in publisher.client.arrived()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("blockd, park", "\"'blockd' is not a means to hold a producer; did you mean 'blocked'?\""),
        ("blocked", "\"'blocked' has neither park nor pause: publishes without room must wait somewhere\""),
        (5, "{unacceptable_type,signedint}"),
    ],
)
def test_what_cannot_be(channel: Channel, queue: str, value: object, reason: str) -> None:
    with pytest.raises(Closed) as closed:
        channel.call("queue.declare", queue=queue, arguments={"x-throttle": value})
    assert closed.value.code == 406
    assert (
        closed.value.text
        == f"PRECONDITION_FAILED - invalid arg 'x-throttle' for queue '{queue}' in vhost '/': {reason}"
    )


def test_what_a_policy_cannot_say(broker: Broker) -> None:
    refused = broker.penstock("policy", "set", "p", ".*", '{"throttle": "flow, blockd"}')
    assert refused.returncode
    assert "key 'throttle': 'blockd' is not a means to hold a producer; did you mean 'blocked'?" in " ".join(
        refused.stderr.split()
    )
