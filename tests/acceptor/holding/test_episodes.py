"""Episodes of held channels, as rows: one for each cause, complete from stop to resume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.clients.flow_compliance import AFTER_ANSWER_COUNT
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

PIKA = {"product": "Pika Python Client Library"}
PARKING = 1024
MARKS = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}
Row = dict[str, Any]
BESIDE = 3 + 14 + 64
"""The bytes that a message counts beside its body: address and header, and MESSAGE_WEIGHT."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"parking_bytes": PARKING}) as node:
        yield node


def open_one(node: Node, properties: dict[str, str] = PIKA) -> Client:
    client = node.connect(properties=properties)
    client.call("channel.open", 1)
    return client


def publish(client: Client, count: int, size: int = 10, exchange: str = "", key: str = "q") -> None:
    for _ in range(count):
        client.publish(1, bytes(size), exchange=exchange, routing_key=key)
        client.node.settle()


def pass_time(node: Node, seconds: float) -> None:
    node.now += seconds
    node.core(0).state.now = node.now
    node.core(0).tick()
    node.settle(1)


def drain(node: Node, queue: str = "q") -> None:
    consumer = node.connect()
    consumer.call("channel.open", 1)
    consumer.call("basic.consume", 1, queue=queue, no_ack=True)
    node.settle(3)
    consumer.lose()
    node.settle()


def flow(node: Node, *actions: str) -> list[Row]:
    return [row for row in node.rows["flow"] if not actions or row["action"] in actions]


def test_an_episode_is_told_from_its_beginning_to_its_end(node: Node) -> None:
    node.declare("q", **MARKS)
    client = open_one(node)
    publish(client, 7)
    stop, park = flow(node)
    assert (stop["action"], park["action"]) == ("stop", "park")
    queue = node.queue("q")
    expected = {
        "vhost": "/", "queue": "q", "shard": queue.shard, "acceptor": 0, "connection": client.connection.id,
        "channel": 1, "user": "guest", "product": PIKA["product"], "cause": "count", "exchange": "", "depth": 5,
        "bytes": 5 * (10 + BESIDE), "mark": 4, "flow_epoch": 1, "outcome": None, "stopped_ms": None,
    }  # fmt: skip
    assert {name: stop[name] for name in expected} == expected
    assert "5 of 4 messages" in stop["reason"]
    pass_time(node, 3)
    drain(node)
    (resume,) = flow(node, "resume")
    reported = {
        name: resume[name] for name in ("peak_depth", "parked", "after_stop", "notified_by", "obeyed", "outcome")
    }
    assert reported == {
        "peak_depth": 5, "parked": 2, "after_stop": 1, "notified_by": "blocked", "obeyed": None, "outcome": "free"
    }  # fmt: skip
    assert resume["stopped_ms"] >= 3000
    assert resume["ts"] - stop["ts"] == pytest.approx(1000 * resume["stopped_ms"], abs=1000)
    assert resume["parked_bytes"] >= 20
    assert len(flow(node)) == 3


def test_who_ends_while_it_is_held_has_an_episode_too(node: Node) -> None:
    node.declare("q", **MARKS)
    client = open_one(node)
    publish(client, 6)
    client.lose()
    assert [row["outcome"] for row in flow(node, "resume")] == ["closed"]
    assert not node.core(0).holding.books.episodes.open


def test_a_pause_is_told_with_its_time(node: Node) -> None:
    node.declare("q", **MARKS)
    client = open_one(node)
    publish(client, 6)
    publish(client, 1, size=2 * PARKING)
    assert not client.socket.reads
    assert [row["action"] for row in flow(node)] == ["stop", "park", "pause"]
    pass_time(node, 2)
    drain(node)
    assert [row["action"] for row in flow(node)][3:] == ["unpause", "resume"]
    assert 2000 <= flow(node, "resume")[0]["paused_ms"] <= flow(node, "resume")[0]["stopped_ms"]


@pytest.mark.parametrize(("after", "obeyed"), [(0, True), (AFTER_ANSWER_COUNT, True), (AFTER_ANSWER_COUNT + 1, False)])
def test_who_publishes_on_after_its_flow_ok_has_not_obeyed(after: int, obeyed: bool) -> None:
    with Node() as node:
        node.declare("q", **MARKS)
        client = open_one(node, JAVA)
        publish(client, 6)
        assert client.take("channel.flow", 1).active is False
        client.send("channel.flow-ok", 1, active=False)
        node.settle()
        before = node.core(0).holding.books.episodes.open[client.connection.channels[1]].after_stop
        publish(client, after)
        client.lose()
        (resume,) = flow(node, "resume")
        assert (resume["obeyed"], resume["notified_by"]) == (obeyed, "flow+blocked")
        assert resume["after_stop"] == before + after


def test_who_has_not_answered_yet_is_not_judged(node: Node) -> None:
    node.declare("q", **MARKS)
    client = open_one(node, JAVA)
    publish(client, 6)
    client.lose()
    assert [row["obeyed"] for row in flow(node, "resume")] == [None]


def test_rungs_are_told(node: Node) -> None:
    node.declare("q", **MARKS, **{"x-hold": "park 1 s, close-channel"})
    publish(open_one(node), 6)
    node.now += 2
    node.recheck(0)
    node.settle()
    assert [(row["rung"], row["queue"]) for row in flow(node, "escalate")] == [("close-channel", "q")]
    assert [row["outcome"] for row in flow(node, "resume")] == ["closed"]


def test_another_cause_is_another_episode(node: Node) -> None:
    node.declare("q", **MARKS)
    client = open_one(node)
    publish(client, 6)
    names: dict[str, str | None] = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))
    node.router.command("flow_stop", author="me", reason="why", seconds=None, **names)
    node.publish_changes()
    node.settle()
    drain(node)
    pass_time(node, 10)
    assert [(row["action"], row["cause"], row["outcome"]) for row in flow(node, "stop", "resume")] == [
        ("stop", "count", None), ("resume", "count", "other-cause"), ("stop", "operator", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "size", "cause", "mark"),
    [
        ({"qpid.flow_stop_size": 30, "qpid.flow_resume_size": 10}, 20, "bytes", 30),
        ({**MARKS, "qpid.flow_stop_size": 10_000, "qpid.flow_resume_size": 10}, 20, "count", 4),
        ({**MARKS, "qpid.flow_stop_size": 30, "qpid.flow_resume_size": 10}, 20, "bytes", 30),
    ],
)
def test_the_mark_that_holds_is_told(node: Node, arguments: dict[str, int], size: int, cause: str, mark: int) -> None:
    node.declare("q", **arguments)
    publish(open_one(node), 6, size)
    assert [(row["cause"], row["mark"]) for row in flow(node, "stop")] == [(cause, mark)]


@pytest.mark.parametrize(
    ("pattern", "apply_to", "cause"),
    [("^guest$", "users", "user"), ("^/$", "vhosts", "vhost"), ("^x$", "exchanges", "exchange")],
)
def test_limits_over_several_queues_are_told_as_such(node: Node, pattern: str, apply_to: str, cause: str) -> None:
    node.declare("q")
    node.bind("x", "q", type="direct", key="k")
    vhost = "" if apply_to == "vhosts" else "/"
    node.policy("all", pattern, {"sum-stop-count": 4, "sum-resume-count": 2}, apply_to, vhost)
    publish(open_one(node), 8, exchange="x", key="k")
    (stop,) = flow(node, "stop")
    assert (stop["cause"], stop["queue"], stop["shard"], stop["flow_epoch"]) == (cause, None, None, None)
    assert (stop["mark"], stop["exchange"]) == (4, "x")


def test_want_of_memory_is_told_as_such() -> None:
    with Node(memory_limit=100_000) as node:
        node.declare("q")
        client = open_one(node)
        publish(client, 12, size=10_000)
        (stop,) = flow(node, "stop")
        assert (stop["cause"], stop["shard"], stop["queue"], stop["mark"]) == ("memory", 0, None, 80_000)
        assert stop["bytes"] > 80_000


def connections(node: Node) -> list[Row]:
    return node.rows["connection"]


def test_a_connection_is_told_when_it_comes_and_when_it_goes(node: Node) -> None:
    client = node.connect(properties={"product": "p", "platform": "l", "version": "1.2"})
    client.call("channel.open", 1)
    node.now += 5
    client.call("connection.close", code=200, text="bye", class_id=0, method_id=0)
    client.lose()
    opened, closed = connections(node)
    assert {name: opened[name] for name in ("event", "product", "platform", "product_version", "user", "vhost")} == {
        "event": "open", "product": "p", "platform": "l", "product_version": "1.2", "user": "guest", "vhost": "/"
    }  # fmt: skip
    assert (closed["event"], closed["channels"], closed["reason"]) == ("close", 1, "closed by the client: 200 bye")
    assert closed["open_ms"] >= 5000
    assert opened["connection"] == closed["connection"] == client.connection.id


def test_a_connection_that_is_lost_or_fails_says_why(node: Node) -> None:
    open_one(node).lose()
    failing = open_one(node)
    failing.send("channel.open", 1)
    node.settle()
    failing.lose()
    reasons = [row["reason"] for row in connections(node) if row["event"] == "close"]
    assert reasons[0] == "connection lost"
    assert "second 'channel.open' seen" in reasons[1]


def test_who_is_refused_is_told_and_who_says_nothing_is_not(node: Node) -> None:
    client = node.visit()
    client.log_in("nowhere")
    node.settle()
    client.lose()
    node.visit().lose()
    (row,) = connections(node)
    assert (row["event"], row["user"], row["vhost"]) == ("refused", "guest", None)
    assert "vhost nowhere not found" in row["reason"]
