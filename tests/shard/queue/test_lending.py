"""Deliveries in flight to all connections of a user are bounded, however many there are; other users get theirs."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from shard.queue.lending import FREE_PART, Lending, Share
from shard.queue.outlet_cy import Outlet
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

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


def send(outlet: Outlet, nbytes: int) -> bool:
    """Send a message of this size if the outlet allows it; return whether it was sent."""
    if outlet.window <= 0 and not outlet.may_send(object()):
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


def test_what_comes_back_wakes_who_was_hungry_once_enough_is_free() -> None:
    lending = Lending(4 * WINDOW, 100 * WINDOW)
    share = lending.share("user")
    first, second = outlets(share, 2)
    assert send(first, 5 * WINDOW) and not send(second, KIB)
    assert list(lending.hungry) == [share]
    first.returns(WINDOW)
    assert first.woken() == []
    first.returns(4 * WINDOW // FREE_PART)
    assert len(first.woken()) == 1 and not lending.hungry
    assert send(second, KIB)


def test_where_all_have_too_much_who_has_less_than_an_equal_part_goes_on() -> None:
    lending = Lending(4 * WINDOW, 6 * WINDOW)
    users = [lending.share(name) for name in "abc"]
    (greedy,), (other,), (modest,) = (outlets(share, 1) for share in users)
    assert send(greedy, 4 * WINDOW) and send(other, 2 * WINDOW)
    assert not send(greedy, 1) and not send(other, 1)
    assert send(modest, WINDOW) and send(modest, WINDOW - 1)
    other.returns(2 * WINDOW)
    other.woken()
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
