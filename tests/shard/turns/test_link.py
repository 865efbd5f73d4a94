"""A shard's turns to each process that sends it turns: reports of safe turns, and the operations that go with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import bus
from penstock.bus.operations_cy import Operation
from penstock.bus.to_acceptor import OPERATIONS, Rejected
from penstock.memory.gauges import DEAD, READY, STARTING
from shard.turns.link import Link
from tests.simulator.joined.books import BookedNode
from tests.simulator.joined.client import Client
from tests.simulator.joined.lines import unpacked

ME = b"acceptor.1.1"
"""An acceptor unknown to the node."""


@pytest.fixture
def node() -> Iterator[BookedNode]:
    with BookedNode() as node:
        yield node


def turn_of(link: Link) -> tuple[int, list[Operation]] | None:
    """Close the turn; return its report and operations, None if there is no turn."""
    closed = link.close_turn()
    if closed is None:
        return None
    report, _, _, operations, _ = unpacked(closed[1], OPERATIONS)
    return report, operations


def rejected(turn: int) -> Rejected:
    return Rejected(turn, 0, 7, 0, 1)


def test_a_hello_is_answered_though_there_is_nothing_to_say() -> None:
    link = Link(ME)
    assert turn_of(link) is None
    link.greet()
    assert turn_of(link) == (0, [])
    assert turn_of(link) is None


def test_what_is_taken_in_is_reported_once_it_is_safe() -> None:
    link = Link(ME)
    link.received = 3
    assert turn_of(link) is None
    link.make_safe(2)
    assert turn_of(link) == (2, [])
    link.make_safe(3)
    assert turn_of(link) == (3, [])


def test_a_verdict_leaves_with_the_report_of_its_turn() -> None:
    link = Link(ME)
    link.verdicts += [rejected(1), rejected(2), rejected(4)]
    link.received = 4
    link.make_safe(2)
    assert turn_of(link) == (2, [rejected(1), rejected(2)])
    link.make_safe(3)
    assert turn_of(link) == (3, [])
    link.make_safe(4)
    assert turn_of(link) == (4, [rejected(4)])


def test_a_verdict_is_kept_until_its_report_is_heard() -> None:
    """A later incarnation must not confirm a refused message."""
    link = Link(ME)
    link.verdicts += [rejected(1), rejected(2)]
    link.received = 2
    link.report_received(1)
    again = Link(ME, link.record())
    again.greet()
    assert turn_of(again) == (2, [rejected(2)])
    again.report_received(2)
    last = Link(ME, again.record())
    last.greet()
    assert turn_of(last) == (2, [])


def test_records_answer_hellos() -> None:
    with BookedNode(acceptors=3) as node:
        shard = node.shard(0)
        link = Link(ME)
        link.received = 41
        shard.recover_links({ME: link.record(), b"acceptor.2.1": link.record()})
        shard.receive(ME, bus.HELLO, 0, 0, [], [])
        shard.receive(b"acceptor.1.2", bus.HELLO, 0, 0, [], [])
        reports = {identity: unpacked(frames, OPERATIONS)[0] for identity, frames in shard.finish_turn(0)}
        assert reports == {ME: 41, b"acceptor.1.2": 0}
        shard.died("acceptor", 2, 1)
        assert not shard.records


def test_a_hello_tells_of_the_death_of_those_before(node: BookedNode) -> None:
    """Both incarnations are known while one replaces the other; once the first is dead, it takes no further part."""
    first, second = b"acceptor.0.1", b"acceptor.0.2"
    shard = node.shard(0)
    node.gauges.process_write("acceptor", 0, pid=1, incarnation=1, state=READY, started_us=0, restarts=0)
    for acceptor in (first, second):
        shard.receive(acceptor, bus.HELLO, 0, 0, [], [])
    assert {first, second} <= shard.state.links.keys()
    node.gauges.process_write("acceptor", 0, pid=1, incarnation=1, state=DEAD, started_us=0, restarts=0)
    shard.receive(second, bus.HELLO, 0, 0, [], [])
    assert first not in shard.state.links and second in shard.state.links
    shard.receive(first, 1, 0, 0, [], [])
    assert first not in shard.state.links
    node.gauges.process_write("acceptor", 0, pid=2, incarnation=3, state=STARTING, started_us=0, restarts=1)
    shard.receive(b"acceptor.0.3", bus.HELLO, 0, 0, [], [])
    assert second not in shard.state.links and b"acceptor.0.3" in shard.state.links


def confirming(node: BookedNode) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    client.call("confirm.select", 1)
    return client


def arrive(node: BookedNode, client: Client) -> None:
    """Let all that the client has sent reach the first shard."""
    client.read()
    node.finish(0)
    while node.send_up(0, 0):
        pass


def entered(node: BookedNode) -> list[bytes]:
    """Return the messages that entered the queue."""
    shard = node.shards[0]
    assert shard is not None
    return shard.entered(node.queue("q").queue_id)


def test_a_refused_message_is_not_confirmed_though_the_shard_dies(node: BookedNode) -> None:
    """The shard dies once the turn is safe, before its report is received."""
    node.declare("q", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    client = confirming(node)
    for number in range(3):
        client.publish(1, b"%d" % number, routing_key="q")
    arrive(node, client)
    node.finish_shard(0)
    record = node.shard(0).state.links[b"acceptor.0.1"].record()
    node.kill_shard(0, arriving=0)
    node.start_shard(0)
    node.shard(0).recover_links({b"acceptor.0.1": record})
    node.settle()
    confirmed = [(event.name, event.delivery_tag, event.multiple) for event in client.events[1]]
    assert sorted(confirmed) == [("basic.ack", 1, True), ("basic.nack", 2, False), ("basic.nack", 3, False)]


def test_a_turn_that_is_safe_does_not_come_again(node: BookedNode) -> None:
    node.declare("q")
    client = confirming(node)
    client.publish(1, b"safe", routing_key="q")
    arrive(node, client)
    client.publish(1, b"not safe", routing_key="q")
    client.read()
    node.finish(0)
    record = node.shard(0).state.links[b"acceptor.0.1"].record()
    node.kill_shard(0)
    node.start_shard(0)
    node.shard(0).recover_links({b"acceptor.0.1": record})
    node.settle()
    assert entered(node) == [b"not safe"]
    assert [event.delivery_tag for event in client.events[1]] == [1, 2]


def test_a_turn_that_left_nothing_to_write_does_not_come_again(node: BookedNode) -> None:
    """Only the gauges have a record of the turn: its message had come and gone before anything was written."""
    node.declare("q")
    client = confirming(node)
    client.publish(1, b"gone", routing_key="q")
    arrive(node, client)
    node.finish_shard(0)
    node.kill_shard(0, arriving=0)
    node.start_shard(0)
    node.shard(0).recover_links({})
    node.settle()
    assert entered(node) == []
    assert [(event.name, event.delivery_tag) for event in client.events[1]] == [("basic.ack", 1)]


def test_what_the_gauges_say_is_of_one_incarnation_of_the_acceptor(node: BookedNode) -> None:
    node.gauges.pair_write_safe(0, 0, 1, 9)
    shard = node.shard(0)
    shard.recover_links({})
    assert set(shard.records) == {b"acceptor.0.1"}
    shard.receive(b"acceptor.0.2", bus.HELLO, 0, 0, [], [])
    reports = {identity: unpacked(frames, OPERATIONS)[0] for identity, frames in shard.finish_turn(0)}
    assert reports[b"acceptor.0.2"] == 0
