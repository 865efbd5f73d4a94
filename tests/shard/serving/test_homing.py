"""A homing queue: it delivers nothing, and its requests wait, until all acceptors have reported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.bus.operations_cy import to_wires
from penstock.bus.to_acceptor import Opened
from penstock.bus.to_shard import Reattached
from penstock.memory.gauges import DEAD, READY, STARTING
from router.model.records import HOMING, Move
from shard.contents.queue_cy import NEVER
from shard.queue.residence import OPEN, Residence
from shard.serving.homing import PATIENCE_US, Homing, Homings, living_incarnations, still_awaited
from shard.turns.link import Link
from tests.shard.moving.test_moving import QUEUE, opened
from tests.shard.steps import publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

FIRST, SECOND = b"acceptor.0.1", b"acceptor.1.1"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, 2) as node:
        node.declare(QUEUE)
        node.show_processes()
        node.settle()
        yield node


def begun(node: Node, epoch: int = 1) -> tuple[Homings, Move]:
    """Begin the homing of the queue, which awaits both acceptors."""
    homings = node.shard(0).moving.homings
    move = Move(node.queue(QUEUE).queue_id, epoch, 1, 0, HOMING, 1, 1, None, 0.0, outcome="moved")
    homings.begin(move)
    return homings, move


def reports(node: Node) -> list[tuple[str, int]]:
    """Return state and epoch of the reports to the router since the last call."""
    state = node.shard(0).state
    requests, state.router_requests = state.router_requests, []
    assert all(name == "move_report" for name, _, _ in requests)
    return [(arguments["state"], arguments["epoch"]) for _, arguments, _ in requests]


def links(node: Node) -> tuple[Link, Link]:
    known = node.shard(0).state.links
    return known[FIRST], known[SECOND]


def test_it_ends_once_every_acceptor_has_reported_this_move(node: Node) -> None:
    homings, move = begun(node, epoch=2)
    first, second = links(node)
    assert node.state(QUEUE).residence is Residence.HOMING and homings.by_id[move.queue_id].awaited == {
        ("acceptor", 0, 1), ("acceptor", 1, 1),
    }  # fmt: skip
    homings.on_reattached(first, Reattached(move.queue_id, 2))
    homings.on_reattached(second, Reattached(move.queue_id, 1))
    homings.end_complete()
    assert node.state(QUEUE).residence is Residence.HOMING and not reports(node), "the second reported an earlier move"
    homings.on_reattached(second, Reattached(move.queue_id, 2))
    homings.end_complete()
    assert node.state(QUEUE).residence is OPEN
    assert reports(node) == [("reattached", 2)]
    for link in first, second:
        assert to_wires(link.turn.operations[-1:]) == to_wires([Opened(move.queue_id, 2)])
    homings.begin(move)
    assert reports(node) == [("reattached", 2)], "the router, started again, is told again"
    assert node.state(QUEUE).residence is OPEN


def test_a_silent_acceptor_is_awaited_until_patience_ends(node: Node) -> None:
    homings, move = begun(node)
    state = node.shard(0).state
    homings.on_reattached(links(node)[1], Reattached(move.queue_id, 1))
    assert homings.next_wake() == state.now + PATIENCE_US
    state.now = homings.next_wake() - 1
    homings.end_complete()
    assert node.state(QUEUE).residence is Residence.HOMING
    state.now += 1
    homings.end_complete()
    assert node.state(QUEUE).residence is OPEN and homings.next_wake() == NEVER
    (warning,) = [each for each in node.logs if "may be delivered twice" in each["event"]]
    assert warning["acceptors"] == [0]


def test_a_dead_acceptor_is_not_awaited(node: Node) -> None:
    homings, move = begun(node)
    homings.on_reattached(links(node)[0], Reattached(move.queue_id, 1))
    homings.died("shard", 1, 1)
    homings.end_complete()
    assert node.state(QUEUE).residence is Residence.HOMING
    homings.died("acceptor", 1, 1)
    homings.end_complete()
    assert node.state(QUEUE).residence is OPEN


def test_requests_wait_and_those_of_ended_channels_and_links_are_dropped(node: Node) -> None:
    homings, move = begun(node)
    first, second = links(node)
    done: list[str] = []
    requests = (
        (first, 1, "one"),
        (first, 2, "of an ended channel"),
        (second, 0, "of a dead acceptor"),
        (first, 1, "two"),
    )
    for link, group, name in requests:
        assert homings.defers(node.state(QUEUE), link, lambda name=name: done.append(name), group)  # type: ignore[misc]
    homings.queue_behind(first, lambda: done.append("behind"))
    homings.queue_behind(Link(b"acceptor.2.1"), lambda: done.append("has nothing to wait for"))
    homings.drop_requests(first, 2)
    del node.shard(0).state.links[SECOND]
    assert not done
    homings.end_move(move.queue_id)
    assert done == ["one", "two", "behind"]
    assert not homings.defers(node.state(QUEUE), first, lambda: None)
    assert not homings.defers(None, first, lambda: None)


@pytest.mark.parametrize("asked", ["basic.cancel", "basic.consume"])
def test_who_leaves_or_ends_a_lease_meanwhile_is_told_when_it_is_over(node: Node, asked: str) -> None:
    """The turn of the request is safe long before, and no other turn follows it."""
    client = open_channel(node)
    publish(client, QUEUE, b"leased")
    client.call("basic.consume", 1, queue=QUEUE, consumer_tag="c", arguments={"x-lease": "batch"})
    homings, move = begun(node)
    arguments: dict[str, object] = {"consumer_tag": "c"}
    if asked == "basic.consume":
        arguments = {"queue": QUEUE, "consumer_tag": "end", "arguments": {"x-lease": "batch", "x-lease-end": "ack"}}
    client.send(asked, 1, **arguments)
    node.settle()
    assert f"{asked}-ok" not in client.names(1)
    for link in links(node):
        homings.on_reattached(link, Reattached(move.queue_id, move.epoch))
    homings.end_complete()
    node.settle()
    client.take(f"{asked}-ok", 1)


def test_starting_and_ready_incarnations_are_living(node: Node) -> None:
    for index, state in enumerate((STARTING, DEAD)):
        node.gauges.process_write("acceptor", index, pid=1, incarnation=4, state=state, started_us=0, restarts=3)
    node.gauges.process_write("shard", 1, pid=1, incarnation=2, state=READY, started_us=0, restarts=1)
    state = node.shard(0).state
    assert living_incarnations(state, "acceptor") == {("acceptor", 0, 4)}
    assert living_incarnations(state, "shard") == {("shard", 0, 1), ("shard", 1, 2)}


def test_of_one_process_only_later_incarnations_are_still_awaited() -> None:
    awaited = {("acceptor", 0, 1), ("acceptor", 0, 2), ("acceptor", 0, 3), ("acceptor", 1, 1), ("shard", 0, 1)}
    left = {("acceptor", 0, 3), ("acceptor", 1, 1), ("shard", 0, 1)}
    assert still_awaited(awaited, "acceptor", 0, 2) == left


def waiting_at_home(node: Node) -> Client:
    """Return a client whose consume waits in the shard's next incarnation until an acceptor reports its deliveries."""
    client, _ = opened(node), open_channel(node, 1)
    node.kill_shard(0)
    client.send("basic.consume", 1, queue=QUEUE)
    client.read()
    node.start_shard(0)
    node.begin_move(QUEUE, 1)
    node.abort_move(QUEUE)
    slow, shard = node.acceptors[1], node.shards[0]
    assert slow is not None and shard is not None
    changes, slow.changes = slow.changes, type(slow.changes)()
    node.settle()
    assert shard.core.moving.homings.by_id[node.queue(QUEUE).queue_id].waiting
    slow.changes = changes
    return client


@pytest.mark.parametrize("how", ["its channel is closed", "its acceptor dies"])
def test_who_is_gone_when_his_queue_is_at_home_does_not_consume(how: str) -> None:
    with Node(2, 2, stores=True) as node:
        client = waiting_at_home(node)
        if how == "its acceptor dies":
            node.kill_acceptor(0)
        else:
            client.lose()
            node.finish(0)
            node.send_up(0, 0)
        node.settle()
        assert node.state(QUEUE).residence is OPEN
        assert not node.state(QUEUE).ring.consumers


def test_a_consume_that_waits_for_the_home_is_active_if_that_was_said_meanwhile(node: Node) -> None:
    """Deliveries of the connection are withheld when the request is sent, and no longer when it is carried out."""
    client = open_channel(node)
    publish(client, QUEUE, b"1")
    shard, id = node.shard(0), node.queue(QUEUE).queue_id
    move = Move(id, 1, 1, 0, HOMING, 1, 1, None, 0.0, outcome="moved")
    homing = shard.moving.homings.by_id[id] = Homing(move, {("shard", 9, 1)}, NEVER)
    shard.moving.homings.freeze(id)
    withhold = node.core(0).holding.last_resort.withhold
    withhold(client.connection, True)
    client.send("basic.consume", 1, queue=QUEUE, consumer_tag="c")
    node.settle()
    assert homing.waiting
    withhold(client.connection, False)
    node.settle()
    homing.awaited.clear()
    shard.moving.advance()
    node.settle()
    client.take("basic.consume-ok", 1)
    assert client.take("basic.deliver", 1).body == b"1"
