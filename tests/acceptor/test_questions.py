"""Answers to an operator's questions about held channels: the channels named, their causes, and those refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor import questions as asked
from tests.acceptor.holding.test_escalation import FULL, PARKING, confirmed, held
from tests.raw import JAVA
from tests.shard.steps import publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MARKS = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}
NOTHING = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2, flow={"parking_bytes": PARKING}) as node:
        node.declare("full", **MARKS)
        node.settle()
        yield node


def fill(client: Client, queue: str = "full") -> None:
    """Fill a queue, and park three more publishes."""
    publish(client, queue, *[b"m"] * 5)
    publish(client, queue, *[b"m"] * 3)


def ask(node: Node, question: str, **arguments: Any) -> Any:
    function, types = asked.questions(node.core(0))[question]
    assert {*types} == {*arguments}
    return function(**arguments)


def causes(node: Node) -> list[dict[str, Any]]:
    (channel,) = ask(node, "held")
    found: list[dict[str, Any]] = channel["causes"]
    return found


def test_every_question_can_be_answered_by_an_idle_acceptor(node: Node) -> None:
    samples = {str: "0.1.1", int: 1, list: [1]}
    for name, (function, types) in asked.questions(node.core(0)).items():
        answer = function(**{argument: samples[kind] for argument, kind in types.items()})
        assert not answer or isinstance(answer, dict), name


def test_a_held_channel_is_named_with_all_that_was_done_to_it(node: Node) -> None:
    client = open_channel(node, properties=JAVA)
    assert ask(node, "held") == []
    fill(client)
    node.now += 2
    (channel,) = ask(node, "held")
    connection = client.connection
    assert (channel["connection"], channel["channel"], channel["user"], channel["vhost"]) == (
        connection.id, 1, "guest", "/",
    )  # fmt: skip
    assert (channel["notified_by"], channel["withheld"], channel["rung"], channel["spent"]) == (
        ["flow", "blocked"], 0, None, None,
    )  # fmt: skip
    assert channel["parked_bytes"] == channel["parked_bytes_connection"] == connection.kept.parked > 0
    assert not channel["paused"] and not channel["ignores_flow"]


def test_a_client_that_cannot_be_sent_blocked_is_not_said_to_know(node: Node) -> None:
    fill(open_channel(node, capabilities={}))
    (channel,) = ask(node, "held")
    assert channel["notified_by"] == []


def test_withheld_confirms_are_a_cause_though_nothing_is_parked(node: Node) -> None:
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "full", *[b"m"] * 5)
    (channel,) = ask(node, "held")
    assert channel["withheld"] == client.connection.channels[1].withheld > 0 == channel["parked_bytes"]
    assert [cause["name"] for cause in channel["causes"]] == ["full"]


# Causes of each kind


def test_a_full_queue(node: Node) -> None:
    queue = node.queue("full")
    fill(open_channel(node))
    assert causes(node) == [
        {"kind": "queue", "vhost": "/", "name": "full", "shard": 0, "slot": queue.slot, "id": queue.queue_id,
         "text": "queue 'full' in vhost '/': 5 of 4 messages, resume at 2"},
    ]  # fmt: skip


def test_a_limit_over_several_queues(node: Node) -> None:
    node.policy("p", "^guest$", {"sum-stop-count": 3, "sum-resume-count": 1}, "users")
    node.declare("free")
    fill(open_channel(node), "free")
    node.settle(1)
    (cause,) = causes(node)
    assert cause == {"kind": "limit", "text": cause["text"]} and "user 'guest' in vhost '/'" in cause["text"]


def test_an_operators_stop_with_its_end(node: Node) -> None:
    for named, seconds in ((NOTHING, None), ({**NOTHING, "user": "guest"}, 60)):
        node.command("flow_stop", **named, author="ann", reason="", seconds=seconds)
    node.settle()
    publish(open_channel(node), "full", b"m")
    (first, second) = sorted(causes(node), key=lambda cause: cause["number"])
    numbers = sorted(node.core(0).gates.stops)
    assert first == {"kind": "stop", "number": numbers[0], "until": None, "text": "stopped by ann"}
    state, until = node.core(0).state, node.core(0).gates.stops[numbers[1]].stop.until
    assert until is not None and second["until"] == until - state.origin.node + state.origin.wall


def test_a_rate_with_the_time_that_all_waiting_messages_take(node: Node) -> None:
    node.declare("free")
    node.policy("p", "^free$", {"max-rate": 10}, "queues")
    publish(open_channel(node), "free", *[b"m"] * 40)
    node.settle(rechecks=6)
    (cause,) = causes(node)
    assert (cause["kind"], cause["text"]) == ("rate", "rate of queue 'free' in vhost '/': 10 messages a second")
    assert 2.3 <= cause["resumes_in"] <= 2.6


def test_a_queue_that_moves(node: Node) -> None:
    client = open_channel(node)
    node.begin_move("full", 1)
    acceptor = node.acceptors[0]
    assert acceptor is not None
    while node.change(acceptor):
        pass
    client.publish(1, b"m", routing_key="full")
    client.read()
    assert causes(node) == [
        {"kind": "rebalance", "vhost": "/", "name": "full", "id": node.queue("full").queue_id, "source": 0,
         "target": 1, "text": "queue 'full' in vhost '/': rebalance, it moves from shard 0 to shard 1"},
    ]  # fmt: skip


def test_a_shard_that_has_no_room(node: Node) -> None:
    client = open_channel(node)
    node.gauges.queue_write(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0)
    node.gauges.gate_explain(0, "memory of the node")
    client.publish(1, b"m", routing_key="full")
    client.read()
    node.recheck(0)
    assert causes(node) == [{"kind": "shard", "shard": 0, "text": "shard 0: memory of the node"}]


# Deadlocks


def test_of_channels_that_settle_nothing_one_for_each_party_and_cause_is_named(node: Node) -> None:
    node.declare("other", **MARKS)
    first, second, third, consumer = (open_channel(node) for _ in range(4))
    fill(first)
    fill(second)
    fill(third, "other")
    publish(consumer, "full", b"m")
    found = ask(node, "entangled")
    assert [(each["connection"], each["settles"]) for each in found] == [
        (first.connection.id, False), (third.connection.id, False),
    ]  # fmt: skip
    assert {each["party"] for each in found} == {"guest at 127.0.0.1"}
    assert [each["connection"] for each in ask(node, "held")] == [
        each.connection.id for each in (first, second, third, consumer)
    ]


def test_all_channels_of_connections_that_consume_are_named(node: Node) -> None:
    node.declare("empty")
    clients = [open_channel(node) for _ in range(2)]
    for client in clients:
        client.call("basic.consume", 1, queue="empty")
        fill(client)
    found = ask(node, "entangled")
    assert [(each["connection"], each["settles"]) for each in found] == [
        (client.connection.id, True) for client in clients
    ]


def test_consumers_that_exist_are_described(node: Node) -> None:
    client = open_channel(node)
    client.call("basic.consume", 1, queue="full", consumer_tag="c")
    (id,) = node.core(0).delivery.consumers
    (found,) = ask(node, "consumers", ids=[id, id + 256, "text", None])
    assert (found["id"], found["connection"], found["channel"], found["tag"], found["party"]) == (
        id, client.connection.id, 1, "c", "guest at 127.0.0.1",
    )  # fmt: skip


def test_a_channel_is_refused_at_once_where_that_is_asked_for(node: Node) -> None:
    client = held(node, "forever")
    named = {"connection": client.connection.id, "channel": 1, "id": node.queue("q").queue_id}
    assert ask(node, "refuse", **named) and ask(node, "refuse", **named)
    node.settle()
    assert confirmed(client) == {tag: tag <= FULL for tag in range(1, FULL + 4)}
    for other in ({"channel": 2}, {"id": 99}, {"connection": "0.1.99"}):
        assert not ask(node, "refuse", **(named | other))
    idle = open_channel(node)
    assert not ask(node, "refuse", **(named | {"connection": idle.connection.id})), "it is not held"


def test_a_queue_is_found_with_its_shard_and_ready_messages(node: Node) -> None:
    client = open_channel(node)
    publish(client, "full", b"1", b"2")
    record = node.router.topology.queue("/", "full")
    assert record is not None
    assert ask(node, "queue", vhost="/", name="full") == {"id": record.queue_id, "shard": record.shard, "ready": 2}
    assert ask(node, "queue", vhost="/", name="none") is None
