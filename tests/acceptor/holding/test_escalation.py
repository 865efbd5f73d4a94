"""Channels on a ladder, rung by rung."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.limits.ladder import RUNGS
from penstock.settings.sections import HoldOffSettings
from router.model.policy_keys import BY_DESTINATION, OVERTAKING
from tests.frames import Event
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

PARKING = 1024
MARKS = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}
FULL = 5


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"parking_bytes": PARKING}) as node:
        yield node


def held(node: Node, hold: str, parked: int = 3, *, confirms: bool = True, mandatory: bool = False) -> Client:
    """Return a client that has filled a queue and has `parked` messages of 10 bytes parked."""
    node.declare("q", **MARKS, **{"x-hold": hold})
    client = open_one(node, confirms=confirms)
    publish(client, FULL)
    publish(client, parked, mandatory=mandatory)
    assert bool(client.connection.channels[1].inbox) == bool(parked)
    return client


def open_one(node: Node, *, confirms: bool = True) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    if confirms:
        client.call("confirm.select", 1)
    return client


def publish(client: Client, count: int, size: int = 10, **options: Any) -> None:
    for _ in range(count):
        client.publish(1, bytes(size), routing_key="q", **options)
        client.node.settle()


def later(node: Node, seconds: float) -> None:
    node.now += seconds
    for index, _ in node.running_acceptors():
        node.recheck(index)
    node.settle()


def rung(client: Client) -> str | None:
    climb = client.connection.services.holding.escalations.climbs.get(client.connection.channels[1])
    return None if climb is None else climb.rung


def confirmed(client: Client) -> dict[int, bool]:
    """Return the confirmed tags, and whether each was acked rather than nacked."""
    found: dict[int, bool] = {}
    for event in client.events[1]:
        if event.name in ("basic.ack", "basic.nack"):
            tags = range(1, event.delivery_tag + 1) if event.multiple else [event.delivery_tag]
            found |= {tag: event.name == "basic.ack" for tag in tags if tag not in found}
    return found


def events(client: Client, name: str) -> list[Event]:
    return [event for event in client.events[1] if event.name == name]


def take(node: Node, count: int) -> None:
    """Read `count` messages from the queue."""
    consumer = open_one(node, confirms=False)
    for _ in range(count):
        assert consumer.call("basic.get", 1, queue="q", no_ack=True) is not None
    consumer.lose()
    node.settle()


def test_no_rung_is_skipped_however_much_time_has_passed(node: Node) -> None:
    hold = "withhold 1 s, park 1 s, pause 1 s, reject 1 s, close-channel 1 s, close-connection"
    client = held(node, hold)
    counts = node.core(0).holding.escalations.counts
    assert rung(client) == "withhold"
    for name in ("park", "pause", "reject"):
        later(node, 100)
        assert rung(client) == name
    later(node, 100)
    assert client.take("channel.close", 1).code == 311
    assert counts == {**dict.fromkeys(RUNGS[:5], 1), "close-connection": 0, "hold-off": 0}
    assert client.connection.services.holding.escalations.climbs == {}


def test_each_rung_lasts_its_time(node: Node) -> None:
    client = held(node, "park 10 s, pause 5 s, reject")
    later(node, 9)
    assert rung(client) == "park"
    later(node, 2)
    assert rung(client) == "pause"
    later(node, 4)
    assert rung(client) == "pause"
    later(node, 2)
    assert rung(client) == "reject"
    later(node, 1000)
    assert rung(client) == "reject"


def test_parking_gets_scarcer(node: Node) -> None:
    client = held(node, "withhold 1 s, park 1 s, pause", parked=0)
    publish(client, 4, PARKING)
    assert client.socket.reads
    later(node, 1)
    assert not client.socket.reads
    take(node, 4)
    take(node, 4)
    assert client.socket.reads
    publish(client, 6)
    later(node, 1)
    later(node, 1)
    assert rung(client) == "pause"
    assert not client.socket.reads
    assert client.connection.kept.parked < PARKING


def test_a_channel_is_closed_with_all_confirms_given(node: Node) -> None:
    client = held(node, "park 1 s, close-channel")
    later(node, 1)
    names = client.names(1)
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.class_id) == (311, 0)
    assert closed.text.startswith("CONTENT_TOO_LARGE - queue 'q' in vhost '/': 5 of 4 messages, resume at 2; held for ")
    assert names[-1] == "channel.close"
    assert confirmed(client) == {**dict.fromkeys(range(1, FULL + 1), True), **dict.fromkeys(range(6, 9), False)}
    client.send("channel.close-ok", 1)
    client.call("channel.open", 1)
    publish(client, 1)
    assert rung(client) == "park"


@pytest.mark.parametrize("rung", ["reject", "close-channel", "close-connection"])
def test_what_is_refused_is_counted_and_logged(node: Node, rung: str) -> None:
    """Without confirms only the operator is notified."""
    client = held(node, f"park 1 s, {rung}", confirms=False)
    with capture_logs() as lines:
        later(node, 1)
        if rung == "reject":
            take(node, FULL)
            later(node, 0.1)
    (line,) = [line for line in lines if line["event"] == "refused"]
    assert (line["messages"], line["connection"]) == (3, client.connection.id)
    assert line["reason"].startswith("queue 'q' in vhost '/': ")
    assert node.core(0).holding.escalations.refused_total == 3


def test_a_second_channel_that_comes_so_far_ends_the_connection(node: Node) -> None:
    client = held(node, "park 1 s, close-channel 60 s, close-connection")
    later(node, 1)
    client.take("channel.close", 1)
    client.send("channel.close-ok", 1)
    for seconds, method in ((70, "channel.close"), (10, "connection.close")):
        client.call("channel.open", 1)
        later(node, seconds)
        publish(client, 1)
        later(node, 1.1)
        closed = client.take(method, 1 if method == "channel.close" else 0)
        if method == "channel.close":
            client.send("channel.close-ok", 1)
    assert closed.code == 506
    assert closed.text.startswith("RESOURCE_ERROR - queue 'q' in vhost '/': 5 of 4 messages, resume at 2; held for ")


def test_a_channel_that_was_closed_is_forgotten_with_its_connection(node: Node) -> None:
    client = held(node, "park 1 s, close-channel 60 s, close-connection")
    later(node, 1)
    client.take("channel.close", 1)
    escalations = node.core(0).holding.escalations
    assert list(escalations.closed_at) == [client.connection]
    client.lose()
    assert not escalations.closed_at


def test_who_opens_its_channel_again_comes_to_the_end_of_the_ladder(node: Node) -> None:
    """The rungs before `close-channel` may last much longer than `close-channel` itself."""
    hold = "withhold 5 s, park 30 s, pause 5 min, reject 10 min, close-channel 1 min, close-connection, hold-off 5 s"
    client = held(node, hold)
    counts = node.core(0).holding.escalations.counts
    for method, channel in (("channel.close", 1), ("connection.close", 0)):
        for seconds in (5, 30, 300, 600):
            later(node, seconds + 0.1)
        closed = client.take(method, channel)
        if method == "channel.close":
            assert counts["close-connection"] == 0
            client.send("channel.close-ok", 1)
            later(node, 50)
            client.call("channel.open", 1)
            publish(client, 1)
    assert closed.code == 506
    assert counts == {**dict.fromkeys(RUNGS, 2), "close-channel": 1, "close-connection": 1, "hold-off": 1}


def test_a_hold_off_whose_rung_names_no_time_lasts_that_of_the_settings() -> None:
    with Node(hold_off=HoldOffSettings(seconds=7, forget_seconds=20)) as node:
        held(node, "withhold 10 s, close-connection, hold-off", parked=0)
        later(node, 10.1)
        (found,) = node.core(0).topology.hold_offs.values()
        assert (found.until - found.since, found.forget_at - found.until) == pytest.approx((7, 20))


def test_an_event_says_for_how_long_who_only_waited_for_confirms_was_held(node: Node) -> None:
    held(node, "withhold 10 s, close-connection, hold-off 5 s", parked=0)
    later(node, 10.1)
    events = [event for event in node.core(0).events.records if event["event"] == "escalation"]
    assert [event["rung"] for event in events] == ["close-connection", "hold-off"]
    assert all(event["seconds"] >= 10 for event in events)


def test_time_counts_only_while_the_queue_is_full(node: Node) -> None:
    client = held(node, "park 10 s, reject", parked=20)
    later(node, 9)
    take(node, 3)
    assert client.connection.channels[1].inbox
    later(node, 9)
    assert rung(client) == "park"
    later(node, 2)
    assert rung(client) == "reject"


def test_a_policy_takes_the_ladder_away(node: Node) -> None:
    node.policy("p", "^q$", {"hold": "park 1 s, reject"})
    client = held(node, "park 5 s, reject")
    later(node, 4)
    assert rung(client) == "park"
    client.lose()
    node.declare("p-only", **MARKS)
    node.policy("p", "^p-only$", {"hold": "park 1 s, reject"})
    node.settle()
    other = open_one(node)
    for _ in range(6):
        other.publish(1, b"", routing_key="p-only")
        node.settle()
    assert rung(other) == "park"
    node.policy("p", "^p-only$", None)
    node.settle()
    assert rung(other) is None
    later(node, 10)
    assert rung(other) is None and other.connection.channels[1].held_by is not None


def test_a_policy_for_the_user(node: Node) -> None:
    node.policy("hasty", "^guest$", {"hold": "park 1 s, reject"}, apply_to="users")
    client = held(node, "forever")
    later(node, 1)
    assert rung(client) == "reject"


def test_who_was_refused_and_is_not_any_more_is_held_no_longer(node: Node) -> None:
    client = held(node, "reject", confirms=True)
    later(node, 1)
    assert client.connection.channels[1].refusing is not None
    node.policy("p", "^guest$", {"hold": "forever"}, "users")
    node.settle()
    assert client.connection.channels[1].held_by is None and "connection.unblocked" in client.names()


def test_who_was_refused_and_finds_the_room_taken_is_held_anew(node: Node) -> None:
    client = held(node, "park 1 s, reject")
    later(node, 1)
    assert rung(client) == "reject"
    nacked = len(events(client, "basic.nack"))
    other = open_one(node)
    take(node, FULL)
    for _ in range(9):
        other.publish(1, b"", routing_key="q")
    other.read()
    client.publish(1, b"", routing_key="q")
    client.read()
    node.settle()
    channel = client.connection.channels[1]
    assert (rung(client), channel.refusing, bool(channel.inbox)) == ("park", None, True)
    later(node, 1)
    assert (rung(client), bool(channel.inbox)) == ("reject", False)
    assert len(events(client, "basic.nack")) == nacked + 1


def test_who_was_refused_once_and_publishes_as_soon_as_there_is_room_is_held_no_longer(node: Node) -> None:
    """The publish comes before the acceptor has polled the queue, and no ladder brings it back to that."""
    client = held(node, "forever", confirms=True)
    core, channel = node.core(0), client.connection.channels[1]
    core.holding.escalations.refuse(channel, core.gates.queue_gates[node.queue("q").queue_id])
    take(node, FULL)
    assert channel.refusing is not None
    client.publish(1, b"", routing_key="q")
    client.read()
    assert (channel.refusing, channel.held_by) == (None, None)
    node.settle()
    assert "connection.unblocked" in client.names() and confirmed(client)[FULL + 4]


def test_a_limit_over_several_queues(node: Node) -> None:
    node.policy("pool", "^x$", {"sum-stop-count": 4, "hold": "park 1 s, reject"}, apply_to="exchanges")
    node.declare("q")
    node.bind("x", "q")
    client = open_one(node)
    for _ in range(9):
        client.publish(1, b"", exchange="x")
        node.settle()
    assert client.connection.channels[1].inbox
    later(node, 1)
    assert rung(client) == "reject"
    assert not client.connection.channels[1].inbox
    assert False in confirmed(client).values()


def test_an_operators_stop_has_no_ladder(node: Node) -> None:
    node.declare("q", **{"x-hold": "reject"})
    node.router.command(
        "flow_stop", vhost=None, exchange=None, key=None, queue=None, user=None, connection=None, author="ann",
        reason="", seconds=None,
    )  # fmt: skip
    node.publish_changes()
    node.settle()
    client = open_one(node)
    publish(client, 1)
    later(node, 100)
    assert rung(client) is None and client.connection.channels[1].inbox


def test_a_commit_that_waits_is_rolled_back(node: Node) -> None:
    node.declare("q", **MARKS, **{"x-hold": "park 1 s, reject"})
    filler, client = open_one(node), open_one(node, confirms=False)
    publish(filler, FULL)
    client.call("tx.select", 1)
    publish(client, 2)
    client.send("tx.commit", 1)
    node.settle()
    later(node, 1)
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.class_id, closed.method_id) == (406, 90, 20)
    assert "transaction rolled back, no room: queue 'q' in vhost '/'" in closed.text
    assert node.state("q").depth == FULL


def test_escalations_are_events(node: Node) -> None:
    node.declare("listener")
    node.ask("queue_bind", queue="listener", source="amq.flow", key="escalation.#")
    client = held(node, "park 1 s, reject")
    later(node, 1)
    listener = open_one(node, confirms=False)
    reported = listener.call("basic.get", 1, queue="listener", no_ack=True)
    assert reported.routing_key == "escalation./.q"
    facts = json.loads(reported.body)
    assert facts == reported.properties["headers"]
    assert (facts["rung"], facts["connection"], facts["count"], facts["stop_count"]) == (
        "reject", client.connection.id, 5, 4,
    )  # fmt: skip


def test_a_channel_that_overtakes_is_refused_only_what_is_for_the_full_queue(node: Node) -> None:
    node.declare("free")
    node.declare("q", **MARKS, **{"x-hold": "park 1 s, reject"})
    client = node.connect(properties={OVERTAKING: BY_DESTINATION})
    client.call("channel.open", 1)
    client.call("confirm.select", 1)
    publish(client, FULL + 2)
    for seconds, refused in ((0.5, 0), (0.6, 2), (0.1, 3)):
        client.publish(1, b"passes", routing_key="free")
        node.settle()
        later(node, seconds)
        assert list(confirmed(client).values()).count(False) == refused
        if refused == 2:
            publish(client, 1)
    assert node.state("free").depth == 3
    assert rung(client) == "reject"


def test_events_are_not_held_to_the_marks_of_a_queue_that_hears_them(node: Node) -> None:
    """Many channels reach a rung at once: events before the queue is known to be full have no producer to hold."""
    node.declare("listener", **MARKS)
    node.ask("queue_bind", queue="listener", source="amq.flow", key="escalation.#")
    held(node, "park 1 s, reject", confirms=False)
    for _ in range(20):
        publish(open_one(node, confirms=False), 1)
    later(node, 1)
    listener = node.state("listener")
    assert (listener.depth, listener.saturation.saturated, listener.saturation.over_count) == (21, True, 0)
