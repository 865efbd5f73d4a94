"""The acceptor among other processes: broadcasts, changes of the topology, shards that die and come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.core import AcceptorCore
from penstock.bus.to_acceptor import Flow
from penstock.memory.records import HELD_KINDS
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def publish(client: Client, queue: str, count: int, channel: int = 1) -> None:
    for number in range(count):
        client.publish(channel, b"%d" % number, routing_key=queue)


def drain(client: Client, queue: str, count: int) -> None:
    """Send gets for `count` messages of a queue."""
    for _ in range(count):
        client.send("basic.get", 1, queue=queue, no_ack=True)


def test_stops_and_resumes_are_timed(node: Node) -> None:
    """A delay is of the shard's decision to this acceptor's; both are in the gauges with the time held, by cause."""
    node.declare("q", **FLOW)
    client, consumer = open_channel(node), open_channel(node)
    publish(client, "q", 8)
    node.settle(1)
    core = node.core(0)
    delays = core.holding.delays
    assert sum(delays.stop.counts) == 1 and sum(delays.resume.counts) == 0
    node.now += 2
    core.state.now += 2
    core.write_flow_sums()
    found = node.gauges.flow_read("acceptor", 0)
    assert found.held_us[HELD_KINDS.index("queue")] >= 2_000_000 and sum(found.held_us[1:]) == 0
    assert list(found.stop_delays) == delays.stop.words() and found.stop_delays[-1] < 1_000_000
    drain(consumer, "q", 8)
    node.settle(1)
    held = core.holding.books.ledger.held_us(core.state.now)
    node.now += 5
    core.state.now += 5
    assert sum(delays.resume.counts) >= 1
    assert core.holding.books.ledger.held_us(core.state.now) == held, "nobody is held any more"


# Broadcasts are hints: the gauges have the truth


def test_a_late_stop_stops_nobody(node: Node) -> None:
    record = node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    publish(client, "q", 4)
    client.read()
    node.finish(0)
    assert node.core(0).gates.queue_gates[record.queue_id].room()[0] < 4
    publish(client, "q", 4)
    client.read()
    assert client.connection.channels[1].inbox
    node.core(0).receive(0, 0, [Flow(record.queue_id, True, 7, 0)], [])
    assert client.connection.channels[1].held_by is None
    node.settle()
    assert "channel.flow" in client.names(1)


def test_a_late_resume_gives_no_confirm_away(node: Node) -> None:
    record = node.declare("q", **FLOW)
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", 5)
    node.settle(1)
    assert node.gauges.saturated(record.slot)
    reported = [event.delivery_tag for event in client.events[1]]
    assert max(reported, default=0) < 5
    node.core(0).receive(0, 0, [Flow(record.queue_id, False, 1, 0)], [])
    node.settle()
    assert [event.delivery_tag for event in client.events[1]] == reported
    drain(open_channel(node), "q", 5)
    node.settle(1)
    assert client.events[1][-1].delivery_tag == 5


def test_who_waits_is_told_though_the_stop_was_lost(node: Node) -> None:
    node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    publish(client, "q", 16)
    client.read()
    node.finish(0)
    while node.send_up(0, 0):
        node.finish_shard(0)
        node.send_down(0, 0, flow="lost")
        node.finish(0)
    assert node.state("q").saturation.saturated
    node.recheck(0)
    node.finish(0)
    assert client.take("channel.flow", 1).active is False
    assert client.take("connection.blocked")


# A successor


def test_a_successor_serves_once_its_predecessor_leaves_it_to_it(node: Node) -> None:
    successor = AcceptorCore(0, 2, node.gauges, node.settings, "penstock@here")
    assert node.core(0).serves() and not successor.serves()
    successor.replaces()
    assert successor.serves()


# Queues that go, connections that end


def test_confirms_of_a_deleted_queue_are_given_whatever_its_slot_says(node: Node) -> None:
    """The acceptor may learn of the deletion before the shard does, and then that a full queue took messages in."""
    record = node.declare("q", **FLOW)
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", 5)
    client.read()
    node.finish(0)
    node.ask("queue_delete", queue_id=record.queue_id)
    acceptor = node.acceptors[0]
    assert acceptor is not None and node.change(acceptor)
    node.send_up(0, 0)
    node.finish_shard(0)
    assert node.gauges.saturated(record.slot)
    node.send_down(0, 0)
    node.settle(1)
    assert client.events[1][-1].delivery_tag == 5


def test_nothing_follows_a_channel_close_but_its_answer(node: Node) -> None:
    """A held client that made a mistake is not notified of a resume: late methods on a closed channel break clients."""
    node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    publish(client, "q", 16)
    node.settle(1)
    client.take("channel.flow", 1)
    client.send("basic.ack", 1, delivery_tag=99)
    node.settle(1)
    assert client.names(1)[-1] == "channel.close"


@pytest.mark.parametrize("loss", ["unbound", "queue deleted", "exchange deleted", "snapshot"])
def test_who_waits_for_a_queue_that_is_not_on_the_way_any_more_goes_on(node: Node, loss: str) -> None:
    full = node.declare("full", **FLOW)
    node.declare("free")
    node.bind("x", "full", "free")
    client = open_channel(node)
    for _ in range(9):
        client.publish(1, b"", exchange="x")
    client.publish(1, b"", routing_key="free")
    node.settle(2)
    assert (node.state("full").depth, node.state("free").depth) == (5, 5)
    match loss:
        case "unbound":
            node.ask("queue_unbind", queue="full", source="x")
        case "queue deleted":
            node.ask("queue_delete", queue_id=full.queue_id)
        case "exchange deleted":
            node.ask("exchange_delete", name="x")
        case "snapshot":
            node.router.ask("queue_unbind", queue="full", source="x")
            node.router.authority.ledger.take_steps()
            node.core(0).load(node.version, node.snapshot())
    node.settle()
    if loss == "exchange deleted":
        assert client.take("channel.close", 1).code == 404
    else:
        assert node.state("free").depth == 10


# Shards that die and come back


def test_what_a_dead_shard_said_last_does_not_open_the_link_wider(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    publish(client, "q", 30)
    client.read()
    node.finish(0)
    node.send_up(0, 0)
    node.finish_shard(0)
    node.kill_shard(0)
    node.meet(0)
    node.send_down(0, 0)
    node.start_shard(0)
    node.settle()
    link = node.core(0).links[0]
    assert (link.in_flight.load.count, link.unreported_bytes) == (0, 0)


def test_what_was_not_taken_in_goes_to_the_next_incarnation_in_order(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("confirm.select", 1)
    for number in range(40):
        client.publish(1, b"%d" % number, routing_key="q", when_read=None)
        client.read()
        if number % 7 == 0:
            node.finish(0)
        if number == 20:
            node.kill_shard(0)
            node.meet(0)
    node.start_shard(0)
    node.settle(1)
    consumer = open_channel(node)
    consumer.call("basic.consume", 1, queue="q", no_ack=True)
    node.settle()
    assert [event.body for event in consumer.events[1]] == [b"%d" % number for number in range(40)]
    assert client.events[1][-1].delivery_tag == 40


def test_confirms_are_counted(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", 7)
    node.settle(1)
    assert node.gauges.counters_read("acceptor", 0).confirmed == 7


def test_who_only_waits_hears_of_room_as_soon_as_the_others() -> None:
    """A shard knows an acceptor even if that has nothing to send."""
    with Node(acceptors=2) as node:
        record = node.declare("q", **FLOW)
        client = open_channel(node, 0)
        publish(client, "q", 5)
        node.settle()
        other = open_channel(node, 1)
        publish(other, "q", 1)
        node.settle()
        assert other.connection.channels[1].gates
        assert node.gauges.saturated(record.slot)
        drain(open_channel(node, 0), "q", 5)
        node.settle()
        assert not other.connection.channels[1].gates


# Withheld confirms


def test_who_only_waits_for_withheld_confirms_is_held_and_told(node: Node) -> None:
    node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    client.call("confirm.select", 1)
    publish(client, "q", 5)
    node.settle(1)
    assert not client.connection.channels[1].inbox
    assert client.take("channel.flow", 1).active is False
    assert "queue 'q'" in client.take("connection.blocked").reason
    assert len(node.core(0).holding.holds.held) == 1
    drain(open_channel(node), "q", 5)
    node.settle(1)
    assert client.take("channel.flow", 1).active is True
    client.take("connection.unblocked")
    assert not node.core(0).holding.holds.held


def test_what_waited_for_its_confirm_is_not_in_a_shard_that_died(node: Node) -> None:
    node.declare("q", **FLOW)
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", 5)
    node.settle(1)
    reported = {event.delivery_tag for event in client.events[1]}
    assert 5 not in reported
    node.kill_shard(0)
    node.start_shard(0)
    node.settle(1)
    assert [event.name for event in client.events[1] if event.delivery_tag == 5] == ["basic.nack"]
    assert not node.core(0).holding.holds.held
