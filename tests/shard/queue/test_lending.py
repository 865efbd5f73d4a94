"""Deliveries in flight to all connections of a user are bounded, however many there are; other users get theirs."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from shard.queue.consumer_cy import Consumer
from shard.queue.lending import Lending, Share
from shard.queue.outlet_cy import Outlet
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import at_once

KIB = 1024
WINDOW = 512 * KIB
MESSAGE = 100 * KIB
MESSAGES = 200
# A user may have 8 % of 12 % of the process limit.
LIMITS = {"process_limit": 100 * 1024 * KIB, "user_percent": 12}
SHARE = LIMITS["process_limit"] * 12 * 8 // 10_000
FLOW = {"connection_window_bytes": WINDOW, "consumer_window_bytes": WINDOW}


def filled(node: Node, *queues: str) -> None:
    client = node.connect()
    client.call("channel.open", 1)
    for queue in queues:
        node.declare(queue)
        for _ in range(MESSAGES):
            client.publish(1, bytes(MESSAGE), routing_key=queue)
        node.settle()


def consumer(node: Node, queue: str, user: str = "guest", **options: bool) -> Client:
    """Return a client that consumes and whose socket accepts nothing."""
    client = node.connect()
    client.connection.user = user
    client.call("channel.open", 1)
    node.core(0).delivery.writable(client.connection, False)
    client.call("basic.consume", 1, queue=queue, **options)
    return client


def delivered(*clients: Client) -> int:
    return sum(client.names(1).count("basic.deliver") for client in clients)


def takes(*clients: Client) -> None:
    """Let sockets accept all that there is for them, then nothing again."""
    node = clients[0].node
    for client in clients:
        node.core(0).delivery.writable(client.connection, True)
    node.settle()
    for client in clients:
        node.core(0).delivery.writable(client.connection, False)


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_user_gets_its_share_and_a_message_and_all_of_it_in_the_end(no_ack: bool) -> None:
    with Node(memory=LIMITS, flow=FLOW) as node:
        filled(node, "q")
        clients = [consumer(node, "q", no_ack=no_ack) for _ in range(30)]
        first = delivered(*clients)
        assert first * MESSAGE + 10 * KIB * first > SHARE and (first - 1) * MESSAGE <= SHARE
        for _ in range(MESSAGES):
            if delivered(*clients) == MESSAGES:
                break
            takes(*clients)
        assert delivered(*clients) == MESSAGES


def test_consumers_of_messages_that_are_being_read_do_not_pass_bytes_on_to_each_other_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fed = []
    feed = Share.feed

    def counted(share: Share) -> list[Consumer]:
        fed.append(share)
        assert len(fed) < 10_000, "the same bytes go back and forth"
        return feed(share)

    monkeypatch.setattr(Share, "feed", counted)
    with Node(stores=True, memory_limit=20 * MESSAGE, memory=LIMITS, flow=FLOW) as node:
        filled(node, "q")
        shard = node.shards[0]
        assert shard is not None
        reads: list[tuple[Any, Any]] = []
        shard.in_background = lambda work, done: reads.append((work, done))
        clients = [consumer(node, "q") for _ in range(60)]
        while delivered(*clients) < MESSAGES:
            takes(*clients)
            while reads:
                at_once(*reads.pop(0))


def test_another_user_gets_what_it_takes_beside_one_whose_share_is_used_up() -> None:
    with Node(memory=LIMITS, flow=FLOW) as node:
        filled(node, "q", "other")
        with capture_logs() as logs:
            clients = [consumer(node, "q") for _ in range(30)]
        first = delivered(*clients)
        reported = [line for line in logs if line["event"].startswith("consumers wait")]
        assert [line["user"] for line in reported] == ["guest"] and reported[0]["bytes"] >= SHARE
        good = node.connect()
        good.connection.user = "good"
        good.call("channel.open", 1)
        good.call("basic.consume", 1, queue="other")
        node.settle()
        assert delivered(good) == MESSAGES and delivered(*clients) == first


def test_a_connection_that_goes_leaves_room_to_those_who_wait() -> None:
    with Node(memory=LIMITS, flow=FLOW) as node:
        filled(node, "q")
        clients = [consumer(node, "q", no_ack=True) for _ in range(30)]
        stuck = [client for client in clients if delivered(client)]
        hungry = [client for client in clients if not delivered(client)]
        assert hungry
        for client in stuck:
            client.lose()
        node.settle()
        assert delivered(*hungry)


class Waiting:
    """A consumer whose queue has a message for it, or no longer has one."""

    def __init__(self, finds: bool = True) -> None:
        self.finds = finds

    def finds_message(self) -> bool:
        return self.finds


def send(outlet: Outlet, nbytes: int, consumer: Waiting | None = None) -> bool:
    """Send a message of this size if the outlet allows it; return whether it was sent."""
    if outlet.window <= 0 and not outlet.may_send(consumer or Waiting()):
        return False
    outlet.window -= nbytes
    if outlet.window < 0:
        outlet.overdraw()
    return True


def outlets(share: Share, count: int) -> list[Outlet]:
    return [Outlet(share, 8 * WINDOW, 8 * WINDOW) for _ in range(count)]


def test_what_is_lent_and_not_used_is_had_by_others() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    many = outlets(lending.share("user"), 100)
    for outlet in many:
        assert send(outlet, KIB)
    assert lending.lent <= 4 * WINDOW
    in_hand = sum(outlet.lent - outlet.window for outlet in many)
    assert in_hand == 100 * KIB
    assert send(many[0], 4 * WINDOW)


def test_what_comes_back_goes_to_the_hungry_in_their_order() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    share = lending.share("user")
    greedy, first, second = outlets(share, 3)
    assert send(greedy, 5 * WINDOW) and not send(first, KIB) and not send(second, KIB)
    assert lending.feed() == [] and list(lending.short) == [share]
    greedy.returns(WINDOW + KIB)
    assert greedy.woken() == []
    woken = lending.feed()
    assert len(woken) == 2 and first.window > second.window > 0
    assert send(first, KIB) and send(second, KIB)
    assert list(lending.short) == [share]
    greedy.returns(4 * WINDOW)
    greedy.woken()
    assert lending.feed() == [] and not lending.short


def test_consumers_that_no_longer_find_a_message_are_lent_nothing() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    share = lending.share("user")
    greedy, late, hungry = outlets(share, 3)
    idle = Waiting()
    assert send(greedy, 5 * WINDOW) and not send(late, KIB, idle) and not send(hungry, KIB)
    idle.finds = False
    greedy.returns(4 * WINDOW)
    greedy.woken()
    assert idle in lending.feed()
    assert late.lent == 0 and not late.sleepers and hungry.window > 0


def test_who_comes_later_waits_behind_the_hungry() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    greedy, first, later = outlets(lending.share("user"), 3)
    assert send(greedy, 5 * WINDOW) and not send(first, KIB)
    greedy.returns(4 * WINDOW)
    greedy.woken()
    assert not send(later, KIB)
    lending.feed()
    assert first.window > later.window > 0


def test_an_outlet_that_keeps_its_loan_busy_does_not_pass_the_hungry() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    busy, hungry = outlets(lending.share("user"), 2)
    assert send(busy, 5 * WINDOW) and not send(hungry, KIB)
    busy.returns(3 * WINDOW)
    busy.woken()
    assert not send(busy, KIB)
    lending.feed()
    assert hungry.window > 0


def test_where_all_have_too_much_who_has_less_than_an_equal_part_goes_on() -> None:
    lending = Lending(4 * WINDOW, 6 * WINDOW)
    users = [lending.share(name) for name in "abc"]
    (greedy,), (other,), (modest,) = (outlets(share, 1) for share in users)
    assert send(greedy, 4 * WINDOW) and send(other, 2 * WINDOW)
    assert not send(greedy, 1) and not send(other, 1)
    assert send(modest, WINDOW) and send(modest, WINDOW - 1)
    other.returns(2 * WINDOW)
    other.woken()
    assert len(lending.feed()) == 1
    assert send(other, 1)


def test_an_outlet_that_is_gone_owes_nothing() -> None:
    lending = Lending(4 * WINDOW, 6 * WINDOW)
    share = lending.share("user")
    (outlet,) = outlets(share, 1)
    assert send(outlet, 2 * WINDOW)
    assert lending.lent and share.lent
    del outlet
    assert not lending.lent and not share.lent


def test_what_a_large_message_took_beyond_the_window_is_given_back() -> None:
    lending = Lending(100 * WINDOW, 100 * WINDOW)
    (outlet,) = outlets(lending.share("user"), 1)
    assert send(outlet, 20 * WINDOW)
    assert lending.lent == 20 * WINDOW
    outlet.returns(20 * WINDOW)
    assert lending.lent == outlet.window == 8 * WINDOW


def test_one_connection_that_does_not_read_leaves_room_to_the_others_of_its_user() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    share = lending.share("user")
    stuck, other = outlets(share, 2)
    while send(stuck, KIB):
        pass
    assert 0 < share.room() < stuck.lent + 2 * KIB
    assert lending.feed() == []
    stuck.returns(WINDOW)
    stuck.woken()
    assert len(lending.feed()) == 1 and stuck.lent <= share.room()
    assert send(other, KIB)


def test_a_client_that_reads_gets_all_messages_beside_one_of_its_user_that_does_not() -> None:
    with Node(memory=LIMITS, flow=dict.fromkeys(FLOW, 10 * SHARE)) as node:
        filled(node, "q", "other")
        stuck = consumer(node, "q")
        assert delivered(stuck) < MESSAGES
        good = node.connect()
        good.call("channel.open", 1)
        good.call("basic.consume", 1, queue="other")
        node.settle()
        assert delivered(good) == MESSAGES


def test_consumers_that_read_all_get_theirs_though_none_has_an_eighth_of_a_window() -> None:
    queues = [f"q{number}" for number in range(30)]
    with Node(memory=LIMITS) as node:
        publisher = node.connect()
        publisher.call("channel.open", 1)
        clients = []
        for queue in queues:
            node.declare(queue)
            publisher.publish(1, bytes(MESSAGE), routing_key=queue)
        for queue in queues:
            client = node.connect()
            client.call("channel.open", 1)
            client.call("basic.consume", 1, queue=queue, no_ack=True)
            clients.append(client)
        node.settle()
        assert [delivered(client) for client in clients] == [1] * len(queues)


def test_reports_are_urgent_only_while_a_share_is_short() -> None:
    with Node(memory=LIMITS, flow=FLOW) as node:
        filled(node, "q")
        clients = [consumer(node, "q", no_ack=True) for _ in range(30)]
        assert node.core(0).delivery.urgent == {0}
        for _ in range(MESSAGES):
            takes(*clients)
        assert delivered(*clients) == MESSAGES and node.core(0).delivery.urgent == set()


def test_an_outlet_with_more_in_flight_than_its_limit_is_lent_nothing() -> None:
    lending = Lending(100 * WINDOW, 100 * WINDOW)
    share = lending.share("user")
    large, greedy, hungry = outlets(share, 3)
    assert send(large, 20 * WINDOW) and not send(large, KIB)
    assert send(greedy, 80 * WINDOW) and not send(hungry, KIB)
    large.returns(KIB)
    large.woken()
    greedy.returns(80 * WINDOW)
    greedy.woken()
    assert len(lending.feed()) == 1 and hungry.window > 0
    assert large.lent == 20 * WINDOW - KIB and large.window == 0
