"""The room of a paced queue: shared out by weight, within its target, with fractions carried over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.bus.to_acceptor import Room
from penstock.bus.to_shard import Paced
from shard.queue.residence import OPEN, Step
from shard.queue.saturation import Stop
from shard.serving.paces import Ask, Paces, shared_out
from shard.turns.link import Link
from shard.turns.recovery import Recovery
from tests.shard.steps import publish
from tests.simulator.joined.node import Node, open_channel

TARGET = 8


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2) as node:
        node.declare("q", **{"x-pace-depth": TARGET})
        node.settle()
        yield node


def asked(node: Node, *weights: int) -> tuple[Paces, int, list[Link]]:
    """Return the paces, the queue's id, and a link for each acceptor, whose waiters have these weights."""
    paces, id = node.shard(0).paces, node.queue("q").queue_id
    links = [node.shard(0).state.links[b"acceptor.%d.1" % index] for index in range(len(weights))]
    for link, weight in zip(links, weights, strict=True):
        paces.on_paced(link, Paced(id, weight, TARGET, 0))
    return paces, id, links


def given_room(node: Node, links: list[Link]) -> list[int]:
    """Share out the present room; return how much each link was given."""
    for link in links:
        link.turn.operations.clear()
    node.shard(0).paces.hand_out(node.state("q"))
    return [sum(each.messages for each in link.turn.operations if isinstance(each, Room)) for link in links]


def test_room_is_shared_by_weight_and_given_once(node: Node) -> None:
    paces, id, links = asked(node, 3, 1)
    assert given_room(node, links) == [6, 2]
    assert given_room(node, links) == [0, 0]
    paces.on_paced(links[0], Paced(id, 3, TARGET, 4))  # the messages have come and gone
    assert given_room(node, links) == [3, 1]


def test_messages_in_the_queue_and_on_their_way_take_room(node: Node) -> None:
    publish(open_channel(node), "q", *[b"m"] * 3)
    paces, id, links = asked(node, 1, 1)
    paces.on_paced(links[0], Paced(id, 1, TARGET, ~1))  # it still sends one
    assert sum(given_room(node, links)) == TARGET - 3 - 1


def test_a_negative_report_voids_earlier_room(node: Node) -> None:
    paces, id, links = asked(node, 1, 0)
    assert given_room(node, links) == [TARGET, 0]
    paces.on_paced(links[0], Paced(id, 1, TARGET, ~2))
    assert given_room(node, links) == [TARGET - 2, 0]


@pytest.mark.parametrize("why", ["frozen", "saturated", "recovery"])
def test_no_room_is_given_while_the_queue_takes_nothing(node: Node, why: str) -> None:
    _, _, links = asked(node, 1, 1)
    state, queue = node.shard(0).state, node.state("q")
    match why:
        case "frozen":
            queue.move(Step.COME_HOME)
        case "saturated":
            queue.saturation.continue_stop(Stop(0, 0, 0))
        case "recovery":
            state.recovery = Recovery([(0, 1)], state.now)
    assert given_room(node, links) == [0, 0]
    state.recovery = None
    if queue.residence is not OPEN:
        queue.move(Step.REATTACH)
    if queue.saturation.saturated:
        queue.saturation.update(0, 0, state.now)
    assert given_room(node, links) == [4, 4]


def test_the_room_of_a_dead_acceptor_goes_to_the_others(node: Node) -> None:
    paces, id, links = asked(node, 1, 1)
    assert given_room(node, links) == [4, 4]
    node.shard(0).state.touched.clear()
    paces.forget_link(links[1])
    assert node.shard(0).state.touched == {id: node.state("q")}
    assert given_room(node, links) == [4, 0]
    paces.forget_link(links[0])
    assert not paces.asked


def test_other_shards_and_unknown_queues_get_no_room(node: Node) -> None:
    paces, id, _ = asked(node)
    paces.on_paced(Link(b"shard.1.1"), Paced(id, 1, TARGET, 0))
    paces.on_paced(Link(b"acceptor.0.1"), Paced(999, 1, TARGET, 0))
    assert not paces.asked


def test_a_queue_that_is_paced_no_more_is_forgotten(node: Node) -> None:
    id = node.declare("p").queue_id
    node.settle()
    paces, link = node.shard(0).paces, node.shard(0).state.links[b"acceptor.0.1"]
    paces.on_paced(link, Paced(id, 1, TARGET, 0))
    paces.hand_out(node.state("p"))
    assert not paces.asked


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.lists(st.integers(1, 20), max_size=40))
def test_shares_are_whole_and_in_the_long_run_by_weight(weights: list[int], rooms: list[int]) -> None:
    """However small the rooms, no acceptor is ever further from its part than one message for each acceptor."""
    asks = [Ask() for _ in weights]
    for ask, weight in zip(asks, weights, strict=True):
        ask.weight = weight
    totals = dict.fromkeys(asks, 0)
    for room in rooms:
        shares = shared_out(room, asks)
        assert sum(shares.values()) == room and min(shares.values()) >= 0
        for ask, share in shares.items():
            totals[ask] += share
    for ask, total in totals.items():
        assert abs(total - sum(rooms) * ask.weight / sum(weights)) <= len(weights)


def test_a_debt_is_forgiven_beyond_one_message_for_each() -> None:
    """An acceptor that long waited alone does not stand back for as long once another one waits."""
    alone, late = Ask(), Ask()
    alone.weight = late.weight = 1
    alone.due = -100.0
    assert shared_out(10, [alone])[alone] == 10
    shared_out(1, [alone, late])
    assert alone.due >= -2
