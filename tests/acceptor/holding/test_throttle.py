"""What is read from a paused socket, and when."""

from __future__ import annotations

import pytest

from acceptor.clients.parked import ParkedRun
from acceptor.holding.throttle import RELIEF_BYTES
from acceptor.questions import questions
from penstock.batch.arena import BLOCK_BYTES, Arena
from penstock.batch.batch_cy import BatchBuilder
from tests.joined import Client, Node, open_channel
from tests.living import living
from tests.raw import JAVA

PARKING = 1024
PIKA = "Pika Python Client Library"


def paused(node: Node, parked: int, product: str, heartbeat: int = 0) -> Client:
    """A client whose socket is paused with about so many parked bytes."""
    node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
    client = node.connect(properties={"product": product}, heartbeat=heartbeat)
    client.call("channel.open", 1)
    for _ in range(2):
        client.publish(1, b"", routing_key="full")
    node.settle(1)
    client.publish(1, bytes(parked), routing_key="full")
    node.settle(1)
    assert not client.socket.reads
    return client


@pytest.mark.usefixtures("without_collector")
def test_what_a_connection_had_sent_goes_with_it() -> None:
    """Parked publishes, and one that has come by half."""
    with Node(flow={"parking_bytes": PARKING, "parked_memory": 0, "spool_limit": 0}) as node:
        client = paused(node, 2 * PARKING, PIKA)
        client.socket.reads = True
        client.publish(1, bytes(PARKING), routing_key="full")
        client.unread[0] = client.unread[0][0][:-PARKING], None
        node.settle(1)
        assert client.connection.kept.parked
        assert living(BatchBuilder)
        client.lose()
        node.settle(1)
        assert (living(BatchBuilder), living(ParkedRun)) == (0, 0)


def test_what_is_held_leaves_the_arena_to_what_passes() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        arena = node.core(0).state.arena = Arena(3 * BLOCK_BYTES, shards=1, acceptors=1)
        for _ in range(4):
            paused(node, 64 * PARKING, PIKA)
        blocks = [arena.take() for _ in range(4)]
        assert [block is None for block in blocks] == [False, False, False, True]


@pytest.mark.parametrize(
    ("parked", "overfull", "nbytes"),
    [(9 * PARKING, False, 0), (2 * PARKING, True, RELIEF_BYTES), (9 * PARKING, True, 0)],
)
def test_a_receive_buffer_that_is_overfull_is_relieved_within_a_bound(parked: int, overfull: bool, nbytes: int) -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, parked, PIKA)
        client.socket.overfull = overfull
        node.core(0).throttle.arrived(client.connection)
        node.core(0).throttle.drip(node.core(0).state.now)
        assert client.socket.drips == nbytes


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, 60), (3, 1), (60, 20), (600, 60)])
def test_a_client_that_cannot_send_its_heartbeats_is_read_as_often(heartbeat: int, seconds: int) -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, 9 * PARKING, "aiormq", heartbeat)
        throttle = node.core(0).throttle
        throttle.drip(node.now + seconds - 0.5)
        assert not client.socket.drips
        throttle.drip(node.now + seconds)
        assert client.socket.drips == 256 * 1024


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, 10), (6, 3)])
def test_a_paused_client_is_sent_heartbeats_though_none_was_agreed(heartbeat: int, seconds: int) -> None:
    """One that was killed is noticed only by the answer of its kernel."""
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, 9 * PARKING, PIKA, heartbeat)
        free = node.connect()
        before = client.heartbeats
        for passed, beats in ((seconds - 1, 0), (1, 1)):
            node.now += passed
            node.core(0).state.now = node.now
            node.core(0).tick()
            node.settle()
            assert client.heartbeats - before == beats
        assert free.heartbeats == 0


@pytest.mark.parametrize("taken_by", ["get", "consumer"])
def test_acks_of_a_transaction_may_make_room_so_its_commit_is_read(taken_by: str) -> None:
    """All that the client was sent is acked, and it consumes no more: the queue stays full until the commit."""
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
        client = node.connect(properties={"product": PIKA})
        client.call("channel.open", 1)
        client.call("channel.open", 2)
        client.call("tx.select", 2)
        for _ in range(2):
            client.publish(1, b"", routing_key="full")
        node.settle(1)
        if taken_by == "get":
            for _ in range(2):
                client.send("basic.get", 2, queue="full")
        else:
            client.call("basic.consume", 2, queue="full", consumer_tag="c")
            client.call("basic.cancel", 2, consumer_tag="c")
        node.settle(1)
        client.send("basic.ack", 2, delivery_tag=2, multiple=True)
        for _ in range(2):
            client.publish(1, bytes(20 * PARKING), routing_key="full")
        node.settle(1)
        assert not client.socket.reads
        client.send("tx.commit", 2)
        node.settle(3)
        client.take("tx.commit-ok", 2)
        assert client.socket.reads


def test_who_begins_to_consume_while_paused_is_read_for_its_acks() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.declare("free")
        other = open_channel(node)
        for _ in range(3):
            other.publish(1, b"", routing_key="free")
        client = paused(node, 9 * PARKING, "aiormq")
        (all_held, _), (entangled, _) = (questions(node.core(0))[name] for name in ("held", "entangled"))
        assert len(all_held()) == len(entangled()) == 1
        client.send("basic.qos", 1, prefetch_count=1)
        client.send("basic.consume", 1, queue="free")
        node.settle(rechecks=1)
        assert "basic.consume-ok" not in client.names(1)
        node.now += 60
        node.settle(rechecks=1)
        for tag in (1, 2, 3):
            assert client.take("basic.deliver", 1).delivery_tag == tag
            client.send("basic.ack", 1, delivery_tag=tag)
            node.settle(rechecks=1)
        assert not client.connection.channels[1].unacked.total and not client.socket.reads
        party = {"party": "guest at 127.0.0.1", "settles": True}
        assert entangled() == [row | party for row in all_held()] != []


MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}


def held(node: Node, throttle: str, properties: dict[str, str], *, confirms: bool = False) -> Client:
    """A client that is held by a queue which says by what means; nothing of it is parked."""
    node.declare("full", **MARKS, **{"x-throttle": throttle})
    client = node.connect(properties=properties)
    client.call("channel.open", 1)
    if confirms:
        client.call("confirm.select", 1)
    for _ in range(3):
        client.publish(1, b"", routing_key="full")
        node.settle()
    return client


@pytest.mark.parametrize(
    ("throttle", "properties", "flow"),
    [
        ("auto", JAVA, True),
        ("auto", {"product": PIKA}, False),
        ("flow, park", {"product": PIKA}, True),
        ("flow, park", JAVA, True),
        ("flow, park", {"product": "aiormq"}, False),
        ("flow, park", {"product": "amqplib"}, False),
        ("flow, park", {"product": "Bunny"}, False),
        ("blocked, park, pause, confirms", JAVA, False),
    ],
)
def test_channel_flow_as_chosen_but_never_to_those_that_it_breaks(
    throttle: str, properties: dict[str, str], flow: bool
) -> None:
    with Node() as node:
        client = held(node, throttle, properties)
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert ("channel.flow" in client.names(1)) == flow
        assert ("connection.blocked" in client.names()) == ("blocked" in throttle or throttle == "auto")


@pytest.mark.parametrize("withheld", [False, True])
def test_confirms_are_withheld_only_as_a_means(withheld: bool) -> None:
    with Node() as node:
        client = held(node, "confirms, park" if withheld else "flow, park", JAVA, confirms=True)
        assert [event.delivery_tag for event in client.events[1] if event.name == "basic.ack"][-1] == 3 - withheld
        assert node.core(0).gates.queue_gates[node.queue("full").queue_id].withheld or not withheld


@pytest.mark.parametrize(("throttle", "budgets"), [("pause", 0), ("park, pause", 1), ("park", 16), ("auto", 1)])
def test_how_much_is_parked_before_the_pause(throttle: str, budgets: int) -> None:
    """However it is chosen there is an end."""
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = held(node, throttle, {"product": PIKA})
        while client.socket.reads:
            client.publish(1, bytes(500), routing_key="full")
            node.settle()
        parked = client.connection.kept.parked
        assert budgets * PARKING < parked <= budgets * PARKING + PARKING
        assert node.core(0).throttle.budget(client.connection) == budgets * PARKING


def test_a_policy_for_the_user_counts_before_the_queue() -> None:
    with Node() as node:
        node.policy("gentle", "^guest$", {"throttle": "blocked, park"}, apply_to="users")
        client = held(node, "flow, park, pause", JAVA, confirms=True)
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert "channel.flow" not in client.names(1)
        assert client.events[1][-1].delivery_tag == 3
        assert "connection.blocked" in client.names()


def test_a_changed_policy_is_followed_while_held() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.policy("p", "^full$", {"throttle": "park"})
        node.declare("full", **MARKS)
        client = node.connect()
        client.call("channel.open", 1)
        client.call("confirm.select", 1)
        for _ in range(3):
            client.publish(1, bytes(2 * PARKING), routing_key="full")
            node.settle()
        client.publish(1, bytes(2 * PARKING), routing_key="full")
        node.settle()
        assert client.socket.reads
        node.policy("p", "^full$", {"throttle": "park, pause"})
        node.settle()
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert not client.socket.reads


def test_the_reason_is_brought_up_to_date_once_in_a_while() -> None:
    with Node() as node:
        client = held(node, "auto", {"product": PIKA})
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert client.take("connection.blocked").reason == "queue 'full' in vhost '/': 3 of 2 messages, resume at 0"
        consumer = node.connect()
        consumer.call("channel.open", 1)
        consumer.call("basic.get", 1, queue="full", no_ack=True)
        for seconds in (20, 15, 100):
            node.now += seconds
            node.core(0).state.now = node.now
            node.core(0).throttle.refresh_notices(node.now)
            node.settle()
        again = [event.reason for event in client.events[0] if event.name == "connection.blocked"]
        assert again == ["queue 'full' in vhost '/': 2 of 2 messages, resume at 0"]
        assert "connection.unblocked" not in client.names()
