"""Load in flight to a shard: large contents that are lent and will soon be gone count less, and wait for more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.links.outgoing import RIDING, SETTLING_SECONDS, STREAMING
from acceptor.links.shard_link import ShardLink
from acceptor.links.unacked_cy import Settlements, UnackedTags
from acceptor.links.weights import LAGGING, SHALLOW_BYTES, SHALLOW_COUNT, WHOLE
from penstock.batch.arena import BLOCK_BYTES, Arena
from penstock.batch.settlement_rows import SETTLE_REQUEUE
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

LARGE = 65536
SMALL = 4096


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        yield node


def link_of(node: Node) -> ShardLink:
    return node.core(0).links[0]


def lender(node: Node) -> Client:
    """Return a client of an acceptor that has an arena."""
    node.core(0).state.arena = Arena(8 * BLOCK_BYTES, shards=1, acceptors=1)
    return open_channel(node)


def publish(client: Client, size: int, count: int) -> None:
    for _ in range(count):
        client.publish(1, bytes(size), routing_key="q")
    client.read()


def used(link: ShardLink) -> int:
    """Return the bytes of the bound that are in use."""
    return link.in_flight.load.bytes_weight // WHOLE


def fill(node: Node, nbytes: int) -> None:
    client = open_channel(node)
    client.publish(1, bytes(nbytes), routing_key="q")
    node.settle()
    assert node.gauges.depth_bytes(node.queue("q").slot) > nbytes


def test_large_contents_that_are_lent_count_a_share(node: Node) -> None:
    client = lender(node)
    publish(client, LARGE, 4)
    assert LARGE <= used(link_of(node)) < 2 * LARGE * 4 // WHOLE
    node.finish(0)
    assert LARGE <= used(link_of(node)) < 2 * LARGE * 4 // WHOLE


def test_large_contents_that_are_copied_count_whole(node: Node) -> None:
    publish(open_channel(node), LARGE, 4)
    assert used(link_of(node)) >= 4 * LARGE


def test_many_small_contents_count_whole_though_they_are_lent(node: Node) -> None:
    """The shard has work to do for each of the messages."""
    publish(lender(node), SMALL, 64)
    assert used(link_of(node)) >= 64 * SMALL


def test_large_contents_for_a_queue_that_keeps_them_count_whole(node: Node) -> None:
    fill(node, SHALLOW_BYTES + 1)
    publish(lender(node), LARGE, 4)
    assert used(link_of(node)) >= 4 * LARGE


def messages(link: ShardLink) -> float:
    """Return the messages of the bound that are in use."""
    return link.in_flight.load.count_weight / WHOLE


def test_messages_for_a_queue_that_keeps_pace_count_a_quarter(node: Node) -> None:
    client, link = open_channel(node), link_of(node)
    publish(client, SMALL, 8)
    assert messages(link) == 2
    node.finish(0)
    assert messages(link) == 2
    node.core(0).receive(0, link.number, [], [])
    assert messages(link) == 0


@pytest.mark.parametrize(("consumes", "counted"), [(False, 8), (True, 32)])
def test_messages_for_a_queue_that_has_grown_count_whole_and_four_times_if_consumers_lag(
    node: Node, consumes: bool, counted: int
) -> None:
    client = open_channel(node)
    while node.gauges.depth_count(node.queue("q").slot) <= SHALLOW_COUNT:
        publish(client, 1, 64)
        node.settle()
    if consumes:
        consumer = open_channel(node)
        consumer.send("basic.qos", 1, prefetch_count=1)
        consumer.send("basic.consume", 1, queue="q")
        node.settle()
    publish(client, 1, 8)
    assert messages(link_of(node)) == counted


def test_less_leaves_at_once_for_a_queue_whose_consumers_lag(node: Node) -> None:
    """Offered publishes are bounded at the weight of the last ones; the rest leaves once these are taken in."""
    consumer, client, link = open_channel(node), open_channel(node), link_of(node)
    consumer.send("basic.qos", 1, prefetch_count=1)
    consumer.send("basic.consume", 1, queue="q")
    for _ in range(4):
        publish(client, 1, 4096)
        node.settle()
    publish(client, 1, 4096)
    most = link.in_flight.max_count * WHOLE // LAGGING
    assert 0 < link.in_flight.load.count <= most
    node.settle()
    assert node.gauges.depth_count(node.queue("q").slot) == 5 * 4096


def test_one_deep_queue_of_several_is_enough(node: Node) -> None:
    fill(node, SHALLOW_BYTES + 1)
    node.declare("shallow")
    node.bind("both", "q", "shallow")
    client = lender(node)
    node.settle()
    for _ in range(4):
        client.publish(1, bytes(LARGE), exchange="both")
    client.read()
    assert used(link_of(node)) >= 4 * LARGE


def test_nothing_counts_once_it_is_taken_in(node: Node) -> None:
    link = link_of(node)
    publish(lender(node), LARGE, 4)
    node.finish(0)
    node.core(0).receive(0, link.number, [], [])
    assert used(link) == 0


def test_what_the_next_incarnation_of_the_shard_is_sent_counts_as_before(node: Node) -> None:
    link = link_of(node)
    client = lender(node)
    publish(client, LARGE, 4)
    node.finish(0)
    publish(client, LARGE, 2)
    before = used(link)
    node.kill_shard(0)
    node.meet(0)
    link.start()
    link.hello(node.version)
    link.resume(node.version, [], node.core(0).delivery.in_hand(0), set())
    assert abs(used(link) - before) < LARGE // WHOLE
    assert link.turn.contents.load.bytes_weight == link.in_flight.load.bytes_weight


def test_nothing_counts_once_the_shard_is_gone_for_good(node: Node) -> None:
    link = link_of(node)
    client = lender(node)
    publish(client, LARGE, 4)
    node.finish(0)
    publish(client, LARGE, 2)
    node.kill_shard(0)
    node.meet(0)
    link.end()
    assert (link.unreported_bytes, used(link), link.turn.contents.load.nbytes) == (0, 0, 0)
    assert link.in_flight.is_empty()


def test_a_turn_with_two_holds_keeps_what_both_give_back(node: Node) -> None:
    """Two moved queues may reach their home in one turn."""
    link = link_of(node)
    for consumer in (1, 2):
        tags, held = UnackedTags(), Settlements()
        tags.deliver(consumer << 8, 5, 1)
        tags.settle_all(SETTLE_REQUEUE, [held])
        link.hold(held)
    returned = link.turn.contents.returned
    assert returned is not None and len(returned) == 2


def leaving(node: Node) -> int:
    """Return how many turns the acceptor's loop would send now."""
    return len(node.core(0).finish_turn())


def test_large_contents_ride_until_those_before_are_taken_in(node: Node) -> None:
    client, link = lender(node), link_of(node)
    publish(client, LARGE, 2)
    assert leaving(node) == 1
    publish(client, LARGE, 2)
    assert leaving(node) == 0
    assert node.core(0).waits()
    publish(client, LARGE, 1)
    node.core(0).receive(0, link.number, [], [])
    assert leaving(node) == 1
    assert link.in_flight.load.count == 3


def test_many_ride_though_those_before_are_taken_in(node: Node) -> None:
    """A client that sends this many sends more; one that waits for each confirm, for example, waits no longer."""
    client, link = lender(node), link_of(node)
    publish(client, LARGE, 1)
    assert leaving(node) == 1
    node.core(0).receive(0, link.number, [], [])
    publish(client, LARGE, STREAMING // LARGE + 1)
    assert leaving(node) == 0
    assert node.core(0).waits()
    node.core(0).state.now += SETTLING_SECONDS
    assert leaving(node) == 1
    assert not node.core(0).waits()


def test_they_ride_for_a_moment_only(node: Node) -> None:
    """The shard may answer late, as it first makes safe what it took in."""
    client = lender(node)
    publish(client, LARGE, 1)
    assert leaving(node) == 1
    publish(client, LARGE, 1)
    assert leaving(node) == 0
    node.core(0).state.now += SETTLING_SECONDS
    assert leaving(node) == 1


@pytest.mark.parametrize("then", ["small", "many", "asks", "deep"])
def test_what_has_no_time_does_not_ride(node: Node, then: str) -> None:
    client = lender(node)
    if then == "deep":
        fill(node, SHALLOW_BYTES + 1)
    publish(client, LARGE, 1)
    assert leaving(node) == 1
    if then == "small":
        publish(client, SMALL, 1)
    else:
        publish(client, LARGE, RIDING // LARGE if then == "many" else 1)
    if then == "asks":
        client.send("basic.get", 1, queue="q")
        client.read()
    assert leaving(node) == 1


def test_nothing_is_in_flight_once_all_was_heard_of(node: Node) -> None:
    """At first the predecessor still has the acceptor's place: publishes sent then are taken in, but not reported."""
    client, link = open_channel(node), link_of(node)
    link.counts = False
    client.publish(1, b"before", routing_key="q")
    client.read()
    node.finish(0)
    while node.send_up(0, 0):
        pass
    node.core(0).write_counters()
    assert link.counts
    node.settle()
    assert node.gauges.pair_in_flight(0, 0) == 0
    client.publish(1, b"after", routing_key="q")
    client.read()
    node.finish(0)
    assert node.gauges.pair_in_flight(0, 0) > 0
    node.settle()
    assert node.gauges.pair_in_flight(0, 0) == 0
