"""Flow events of queues, published as messages on amq.flow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.bus import MESSAGE_WEIGHT
from tests.broker import Broker
from tests.broker.flow import MARKS, RESUME, STOP, settled_depth
from tests.outcomes import wait_get
from tests.raw import Channel, Client, Event
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

BODY = b"x" * 100


@pytest.fixture
def listener(connect: Callable[..., Client], queue: str) -> Iterator[tuple[Channel, str]]:
    """A channel and a queue that receives all flow events of the test's queue."""
    channel, name = connect().channel(), f"{queue}-events"
    channel.call("queue.declare", queue=name)
    for event in ("stop", "resume", "near", "limits"):
        channel.call("queue.bind", queue=name, exchange="amq.flow", routing_key=f"{event}./.{queue}")
    yield channel, name
    channel.call("queue.delete", queue=name)


def reported(listener: tuple[Channel, str]) -> tuple[str, dict[str, Any]]:
    """Return the next event: its routing key and its facts, which are the same in headers and body."""
    event: Event = wait_get(*listener)
    facts = json.loads(event.body)
    assert event.properties["headers"] == facts
    assert event.properties["content_type"] == "application/json"
    assert (event.properties["app_id"], event.properties["type"]) == ("penstock", f"flow.{facts['event']}")
    return event.routing_key, facts


def test_near_stop_resume(
    listener: tuple[Channel, str], connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect().channel()
    for _ in range(STOP - 1):
        publisher.publish(BODY, queue)
    key, near = reported(listener)
    assert key == f"near./.{queue}"
    assert near["count"] >= STOP * 90 // 100 and near["stop_count"] == STOP and near["resume_count"] == RESUME
    for _ in range(STOP):
        publisher.publish(BODY, queue)
    key, stop = reported(listener)
    assert key == f"stop./.{queue}"
    # A whole message: exchange and routing key as short strings, a header without properties, and the body.
    whole = MESSAGE_WEIGHT + 1 + 1 + len(queue) + 14 + len(BODY)
    assert stop["count"] > STOP and stop["bytes"] == stop["count"] * whole
    for _ in range(2 * STOP - 1 - RESUME):
        wait_get(channel, queue)
    key, resume = reported(listener)
    assert key == f"resume./.{queue}"
    assert resume["count"] <= RESUME and resume["epoch"] == stop["epoch"] + 1
    assert resume["seconds"] > 0 and resume["peak_count"] >= stop["count"]
    assert resume["peak_bytes"] == resume["peak_count"] * whole


def test_limits_that_a_policy_changes(
    broker: Broker, listener: tuple[Channel, str], channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue)
    policy = {"vhost": "/", "operator": False, "name": queue}
    broker.call(
        "policy_set", **policy, pattern=f"^{queue}$", apply_to="queues", priority=0,
        definition={"max-length": 1000, "overflow": "flow"},
    )  # fmt: skip
    key, limits = reported(listener)
    assert (key, limits["stop_count"], limits["resume_count"]) == (f"limits./.{queue}", 800, 700)
    broker.call("policy_delete", **policy)
    assert reported(listener)[1]["stop_count"] == 0


def test_events_hold_nobody(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """A full queue of events receives no more events, not even its own, and holds nobody."""
    events = f"{queue}-events"
    channel.call("queue.declare", queue=events, arguments={"x-max-length": 1, "x-overflow": "flow"})
    channel.call("queue.bind", queue=events, exchange="amq.flow", routing_key="#")
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 2, "x-overflow": "flow"})
    publisher = connect().channel()

    def pass_through() -> None:
        """Publish messages, most of which have to wait, and get them back in order."""
        for number in range(200):
            publisher.publish(b"%d" % number, queue)
        wait_for(lambda: channel.depth(queue) >= 2, what="a full queue")
        assert [wait_get(channel, queue).body for _ in range(200)] == [b"%d" % number for number in range(200)]

    pass_through()
    wait_for(lambda: channel.depth(events) >= 2, what="a full queue of events")
    full = settled_depth(channel, events)  # another shard sends events until it sees that the queue is full
    pass_through()
    assert settled_depth(channel, events) == full
    channel.call("queue.delete", queue=events)


def test_clients_do_not_publish_there(connect: Callable[..., Client]) -> None:
    publisher = connect().channel()
    publisher.publish(b"a lie", "stop./.q", exchange="amq.flow")
    assert publisher.closed().code == 403
