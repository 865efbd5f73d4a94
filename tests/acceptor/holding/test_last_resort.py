"""The last resort: the bound on what is kept for a held connection, and what happens to the connection there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from acceptor.budgets.quotas import OVERDRAFT
from acceptor.clients.spool import Spool
from acceptor.questions import held
from tests.shard.steps import drain
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

KIB = 1024
HELD = 64 * KIB
FLOW = {"parking_bytes": KIB, "held_bytes": HELD}
WHOLE = {"spool_limit": 0, "user_percent": 100, "vhost_percent": 100}
"""A user's share is all that an acceptor has."""
MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}
PY_AMQP, PHP = {"product": "py-amqp"}, {"product": "AMQPLib", "platform": "PHP"}
GO, PIKA = {"product": "AMQP 0.9.1 Client", "platform": "golang"}, {"product": "Pika Python Client Library"}
JAVA = {"product": "RabbitMQ", "platform": "Java"}
READ = 8 * KIB
"""The most bytes read from a connection at once in these tests."""


def producer(node: Node, properties: dict[str, Any], *, confirms: bool = False) -> Client:
    """Return a client with a channel, and as much to send as the kernel accepts."""
    client = node.connect(properties=properties)
    client.socket.filled = True
    client.call("channel.open", 1)
    if confirms:
        client.call("confirm.select", 1)
    return client


def flood(client: Client, count: int, queue: str = "full") -> list[bytes]:
    """Write publishes of 1 KiB, which nobody has read yet; return their bodies."""
    name = client.connection.id.encode()
    bodies = [b"%s %d " % (name, number) + bytes(KIB) for number in range(count)]
    for body in bodies:
        client.publish(1, body, routing_key=queue)
    return bodies


def pass_time(node: Node, seconds: float) -> None:
    """Let time pass; sockets are read in small pieces meanwhile."""
    for _ in range(round(seconds / node.settings.flow.recheck_seconds)):
        node.now += node.settings.flow.recheck_seconds
        for client in list(node.clients.values()):
            client.read(READ)
        for index, _ in node.running_acceptors():
            node.finish(index)
            node.recheck(index)
        settle_shards(node)


def settle_shards(node: Node) -> None:
    """Exchange turns with the shards, but read no client."""
    for _ in range(8):
        for shard in range(len(node.shards)):
            for acceptor in range(len(node.acceptors)):
                while node.send_up(acceptor, shard):
                    pass
            node.finish_shard(shard)
            for acceptor in range(len(node.acceptors)):
                while node.send_down(shard, acceptor):
                    pass
                node.finish(acceptor)


def taken(node: Node, count: int) -> list[bytes]:
    """Drain the queue until `count` messages have come; return their bodies."""
    taker = node.connect()
    taker.call("channel.open", 1)
    bodies: list[bytes] = []
    for _ in range(10 * count):
        bodies += drain(taker, "full")
        pass_time(node, 0.1)
        if len(bodies) >= count:
            break
    return bodies


def closed(client: Client) -> bool:
    return "connection.close" in client.names()


@pytest.mark.parametrize("properties", [PY_AMQP, PHP, GO])
def test_a_client_that_would_give_up_is_closed_with_a_reason_and_what_was_read_is_delivered(
    properties: dict[str, Any],
) -> None:
    with Node(flow=FLOW) as node:
        node.declare("full", **MARKS)
        client = producer(node, properties)
        bodies = flood(client, 1000)
        with capture_logs() as lines:
            pass_time(node, 60)
        method = client.take("connection.close")
        assert method.code == 506
        assert method.text.startswith("RESOURCE_ERROR - queue 'full' in vhost '/': 3 of 2 messages, resume at 0; ")
        assert [line["way"] for line in lines if line["event"] == "last resort"] == ["close"]
        parking = node.core(0).holding.parking
        assert HELD * 3 // 4 <= parking.parked_bytes <= HELD + READ + KIB
        assert parking.orphan_bytes == parking.parked_bytes and not parking.drip.paused
        assert node.core(0).holding.escalations.counts["close-connection"] == 1
        kept = taken(node, parking.parked_bytes // (KIB + 200))
        assert kept == bodies[: len(kept)] and len(kept) > 40
        assert parking.parked_bytes == 0 and node.core(0).quotas.users == {}


@pytest.mark.parametrize("properties", [PIKA, JAVA, {}])
def test_a_client_that_waits_is_left_waiting(properties: dict[str, Any]) -> None:
    with Node(flow=FLOW) as node:
        node.declare("full", **MARKS)
        client = producer(node, properties)
        bodies = flood(client, 100)
        pass_time(node, 200)
        assert not closed(client)
        parked = client.connection.kept.parked
        assert parked < 8 * KIB + 2 * READ
        assert taken(node, len(bodies)) == bodies


def test_a_client_that_would_give_up_but_sends_no_more_is_left_waiting() -> None:
    with Node(flow=FLOW | {"held_bytes": HELD}) as node:
        node.declare("full", **MARKS)
        client = producer(node, PY_AMQP)
        flood(client, 70)
        client.socket.filled = False
        pass_time(node, 60)
        assert not closed(client) and client.connection in node.core(0).holding.last_resort.spent


def consuming(node: Node, properties: dict[str, Any] = PIKA) -> Client:
    """Return a client that consumes from a queue to which it does not publish."""
    node.declare("in")
    node.declare("full", **MARKS)
    client = producer(node, properties)
    client.call("channel.open", 2)
    client.call("basic.qos", 2, prefetch_count=1)
    client.call("basic.consume", 2, queue="in")
    return client


def test_who_consumes_and_has_nothing_in_hand_is_not_read_on() -> None:
    with Node(flow=FLOW) as node:
        client = consuming(node)
        flood(client, 1000)
        pass_time(node, 60)
        assert client.connection.kept.parked < 16 * KIB + 2 * READ
        assert not closed(client)


def feed(node: Node, count: int) -> None:
    other = node.connect()
    other.call("channel.open", 1)
    for number in range(count):
        other.publish(1, b"%d" % number, routing_key="in")
    other.read()
    settle_shards(node)


def test_acks_behind_publishes_are_read_and_nothing_new_is_delivered_beyond_the_budget() -> None:
    with Node(flow=FLOW) as node:
        client = consuming(node)
        feed(node, 3)
        flood(client, 56)
        client.send("basic.ack", 2, delivery_tag=1)
        flood(client, 1000)
        pass_time(node, 8)
        assert client.names(2).count("basic.deliver") == 1
        assert not client.connection.has_in_hand()
        assert HELD <= client.connection.kept.held < HELD * OVERDRAFT
        pass_time(node, 12)
        assert closed(client)
        assert node.state("in").depth == 2


def test_who_never_acks_is_closed_all_the_same() -> None:
    with Node(flow=FLOW) as node:
        client = consuming(node)
        feed(node, 2)
        flood(client, 1000)
        pass_time(node, 60)
        assert closed(client)
        assert node.core(0).holding.parking.parked_bytes < HELD * OVERDRAFT + READ + 4 * KIB
        assert node.state("in").contents.ready == 2


def test_who_has_got_what_keeps_the_queue_full_and_is_not_read_any_more_gives_it_back() -> None:
    """The client has no consumer, and its acks are behind publishes that wait for them."""
    with Node(flow=FLOW) as node:
        node.declare("full", **MARKS)
        client = producer(node, PIKA)
        flood(client, 3)
        pass_time(node, 1)
        for _ in range(3):
            client.send("basic.get", 1, queue="full")
        pass_time(node, 1)
        assert node.state("full").contents.unacked == 3
        flood(client, 1000)
        client.send("basic.ack", 1, delivery_tag=3, multiple=True)
        pass_time(node, 60)
        assert closed(client)
        assert node.state("full").contents.ready == 3


def test_deliveries_go_on_once_what_was_parked_has_left() -> None:
    with Node(flow=FLOW) as node:
        client = consuming(node)
        feed(node, 3)
        bodies = flood(client, 62)
        client.send("basic.ack", 2, delivery_tag=1)
        pass_time(node, 5)
        assert client.names(2).count("basic.deliver") == 1 and client.connection.deliveries_withheld
        assert taken(node, len(bodies)) == bodies
        settle_shards(node)
        assert client.names(2).count("basic.deliver") == 2 and not client.connection.deliveries_withheld


def test_who_comes_again_and_again_keeps_within_what_its_user_may_have_parked(tmp_path: Path) -> None:
    quota = 400 * KIB
    with Node(flow={**FLOW, "parked_memory": 40 * KIB, "spool_limit": 2 * quota - 40 * KIB}) as node:
        node.core(0).state.spool = Spool(tmp_path, 40 * KIB, 2 * quota - 40 * KIB)
        node.declare("full", **MARKS)
        core, sent = node.core(0), {}
        for _ in range(30):
            client = producer(node, PY_AMQP)
            sent[client.connection.id.encode()] = flood(client, 100)
            pass_time(node, 10)
            assert closed(client)
            client.lose()
            assert core.quotas.kept <= quota * OVERDRAFT
            assert core.parked_in_memory() < 150 * KIB
        others = node.connect(properties=PIKA)
        others.call("channel.open", 1)
        flood(others, 100)
        pass_time(node, 100)
        assert not closed(others) and others.connection.kept.parked <= READ + KIB
        others.lose()
        kept = taken(node, 250)
        assert len(kept) > 250
        for name, bodies in sent.items():
            mine = [body for body in kept if body.split()[0] == name]
            assert mine == bodies[: len(mine)]
        assert core.quotas.kept == 0


def nacked(client: Client) -> int:
    return client.names(1).count("basic.nack")


@pytest.mark.parametrize("asked", ["setting", "property", "policy"])
def test_confirmed_publishes_are_nacked_where_that_is_asked_for(asked: str) -> None:
    with Node(flow={**FLOW, "last_resort": "nack" if asked == "setting" else "close"}) as node:
        if asked == "policy":
            node.policy("p", "^guest$", {"last-resort": "nack"}, apply_to="users")
        node.declare("full", **MARKS)
        client = producer(node, PY_AMQP | ({"last-resort": "nack"} if asked == "property" else {}), confirms=True)
        bodies = flood(client, 300)
        pass_time(node, 20)
        assert not closed(client) and nacked(client)
        assert node.core(0).holding.parking.parked_bytes == 0
        assert taken(node, 3) == bodies[:3]
        pass_time(node, 1)
        client.publish(1, b"more", routing_key="full")
        pass_time(node, 1)
        assert taken(node, 1) == [b"more"]


def test_who_is_nacked_is_so_until_there_is_room_whatever_changes_meanwhile() -> None:
    with Node(flow={**FLOW, "last_resort": "nack"}) as node:
        queue = node.declare("full", **MARKS)
        client = producer(node, PY_AMQP, confirms=True)
        flood(client, 300)
        pass_time(node, 20)
        node.policy("p", "^guest$", {"throttle": "park, pause"}, apply_to="users")
        pass_time(node, 1)
        before = nacked(client)
        flood(client, 5)
        node.settle()
        assert nacked(client) > before and client.connection.kept.parked == 0
        node.ask("queue_delete", queue_id=queue.queue_id)
        node.settle(rechecks=1)
        assert client.connection.channels[1].held_by is None and "connection.unblocked" in client.names()


@pytest.mark.parametrize("acceptors", [1, 2])
def test_a_paced_queue_nacks_too_until_there_is_room(acceptors: int) -> None:
    with Node(acceptors, flow={**FLOW, "last_resort": "nack"}) as node:
        node.declare("paced", **{"x-pace-depth": 3})
        client = producer(node, PY_AMQP, confirms=True)
        bodies = flood(client, 300, "paced")
        pass_time(node, 20)
        before = nacked(client)
        assert before and client.connection.kept.parked == 0
        flood(client, 5, "paced")
        pass_time(node, 1)
        assert nacked(client) == before + 5
        taker = node.connect()
        taker.call("channel.open", 1)
        assert drain(taker, "paced") == bodies[:3]
        pass_time(node, 1)
        client.publish(1, b"more", routing_key="paced")
        pass_time(node, 1)
        assert drain(taker, "paced") == [b"more"]


def test_without_confirms_there_is_nothing_to_nack() -> None:
    with Node(flow={**FLOW, "last_resort": "nack"}) as node:
        node.declare("full", **MARKS)
        client = producer(node, PY_AMQP)
        flood(client, 300)
        pass_time(node, 20)
        assert closed(client)


def test_paused_for_good_if_that_is_what_is_set() -> None:
    with Node(flow={**FLOW, "last_resort": "pause"}) as node:
        node.declare("full", **MARKS)
        client = producer(node, PY_AMQP)
        bodies = flood(client, 300)
        with capture_logs() as lines:
            pass_time(node, 60)
        assert not closed(client)
        assert client.connection.kept.parked <= HELD + READ + KIB
        assert [line["way"] for line in lines if line["event"] == "last resort"] == ["pause"]
        assert taken(node, len(bodies)) == bodies


def test_what_a_closed_connection_sends_on_is_read_slowly_and_its_close_ok_ends_it() -> None:
    with Node(flow=FLOW) as node:
        node.declare("full", **MARKS)
        client = producer(node, PY_AMQP)
        flood(client, 100)
        client.send("connection.close-ok")
        pass_time(node, 10)
        assert closed(client) and client.socket.closed and not client.unread
        client.lose()
        assert not node.core(0).holding.last_resort.closing


def overdrawn(node: Node) -> Client:
    """Park more than the user's share for another queue; return the last producer."""
    node.declare("first", **MARKS)
    quotas = node.core(0).quotas
    while quotas.kept <= quotas.of_user * OVERDRAFT:
        client = producer(node, PIKA)
        flood(client, 20, "first")
        pass_time(node, 1)
    return client


def test_acks_are_read_once_others_of_the_same_user_have_let_go_of_its_share() -> None:
    with Node(flow=FLOW | WHOLE | {"parked_memory": 16 * KIB}) as node:
        node.declare("full", **MARKS)
        client = producer(node, PIKA)
        client.call("channel.open", 2)
        client.call("basic.consume", 2, queue="full")
        flood(client, 3)
        node.settle()
        assert client.names(2).count("basic.deliver") == 3
        overdrawn(node)
        flood(client, 2 * READ // KIB)
        client.send("basic.ack", 2, delivery_tag=3, multiple=True)
        pass_time(node, 5)
        assert client.connection.kept.parked and client.unread and node.state("full").depth == 3
        node.ask("queue_delete", queue_id=node.queue("first").queue_id)
        for incarnation in node.acceptors_and_shards():
            while node.change(incarnation):
                pass
        pass_time(node, 5)
        assert not client.unread and not client.connection.has_in_hand()


def test_a_close_that_came_while_the_users_share_was_used_up_is_answered_once_there_is_some() -> None:
    """The close gives back the channel's unacked messages, which may be all that the full queue waits for."""
    with Node(flow=FLOW | WHOLE | {"parked_memory": 16 * KIB}) as node:
        node.declare("full", **MARKS)
        client = producer(node, PIKA)
        flood(client, 3)
        node.settle()
        for _ in range(3):
            client.send("basic.get", 1, queue="full")
        node.settle()
        overdrawn(node)
        client.publish(1, b"waits", routing_key="full")
        client.send("channel.close", 1, code=200)
        pass_time(node, 5)
        assert not client.unread and "channel.close-ok" not in client.names(1)
        node.ask("queue_delete", queue_id=node.queue("first").queue_id)
        for incarnation in node.acceptors_and_shards():
            while node.change(incarnation):
                pass
        pass_time(node, 5)
        assert "channel.close-ok" in client.names(1)
        assert node.state("full").contents.unacked == 0


def test_what_outlives_its_connection_is_within_the_share_with_all_that_is_charged_for_it() -> None:
    with Node(flow=FLOW | WHOLE | {"parked_memory": 64 * KIB}) as node:
        node.declare("full", **MARKS)
        node.declare("other", **MARKS)
        quotas = node.core(0).quotas
        for _ in range(20):
            client = producer(node, PIKA)
            for number in range(40):
                client.publish(1, b"small", routing_key=("full", "other")[number % 2])
            pass_time(node, 1)
            client.lose()
            assert quotas.kept <= quotas.of_user * OVERDRAFT


def test_who_is_closed_beyond_the_share_of_its_user_is_told_that_not_all_is_kept() -> None:
    with Node(flow=FLOW | WHOLE | {"parked_memory": 16 * KIB}) as node:
        node.declare("full", **MARKS)
        overdrawn(node)
        late = producer(node, PY_AMQP)
        flood(late, 2 * READ // KIB)
        with capture_logs() as lines:
            pass_time(node, 10)
        closing = late.take("connection.close")
        assert closing.code == 506 and closing.text.endswith("user 'guest' has its share (flow.user_percent)")
        assert any(line["event"] == "parked publishes dropped with their connection" for line in lines)


VHOSTS_SHARE = {"parked_memory": 16 * KIB, "spool_limit": 240 * KIB, "user_percent": 40, "vhost_percent": 50}


def fill_share(node: Node, vhost: str, leave: bool) -> None:
    """Have users, each within its share, publish as much as may be parked for a vhost, and leave if `leave`."""
    quotas = node.core(0).quotas
    for number in range(9):
        node.add_user(f"user{number}", vhost=vhost)
        client = node.connect(properties=PIKA, vhost=vhost, user=f"user{number}")
        client.call("channel.open", 1)
        flood(client, 40)
        pass_time(node, 3)
        if leave:
            client.lose()
    assert quotas.of_vhost < quotas.vhosts[vhost] <= quotas.of_vhost * OVERDRAFT + 2 * READ
    assert all(kept < quotas.of_user for kept in quotas.users.values())


@pytest.mark.parametrize("leave", [False, True])
def test_the_users_of_a_vhost_together_leave_others_their_part(leave: bool) -> None:
    with Node(flow={**FLOW, **VHOSTS_SHARE}) as node:
        node.add_vhost("crowd")
        node.ask("queue_declare", vhost="crowd", name="full", arguments=MARKS)
        node.declare("full", **MARKS)
        fill_share(node, "crowd", leave)
        late = node.connect(properties=PY_AMQP, vhost="crowd")
        late.socket.filled = True
        late.call("channel.open", 1)
        flood(late, 2 * READ // KIB)
        other = producer(node, PY_AMQP)
        bodies = flood(other, 16)
        other.socket.filled = False
        with capture_logs() as lines:
            pass_time(node, 10)
        reason = "vhost 'crowd' has its share (flow.vhost_percent)"
        assert late.take("connection.close").text.endswith(f"nor may they all be kept, {reason}")
        assert [line["bound"] for line in lines if line["event"] == "last resort"] == [reason]
        assert not closed(other) and not other.unread
        assert taken(node, len(bodies)) == bodies
        assert node.core(0).quotas.vhosts.keys() == {"crowd"}


def test_who_asks_is_told_whose_share_it_is_while_no_more_is_kept() -> None:
    with Node(flow={**FLOW, **VHOSTS_SHARE}) as node:
        node.add_vhost("crowd")
        node.ask("queue_declare", vhost="crowd", name="full", arguments=MARKS)
        fill_share(node, "crowd", leave=False)
        pass_time(node, 1)
        assert {held["spent"] for held in held(node.core(0))} == {"vhost 'crowd' has its share (flow.vhost_percent)"}
        (queue,) = [queue for queue in node.router.topology.queues() if queue.vhost == "crowd"]
        node.ask("queue_delete", vhost="crowd", queue_id=queue.queue_id)
        for incarnation in node.acceptors_and_shards():
            while node.change(incarnation):
                pass
        pass_time(node, 5)
        assert (node.core(0).quotas.vhosts, held(node.core(0))) == ({}, [])
