"""Suspects: operations that repeatedly end incarnations of a shard are not sent to another; all others are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.moving.suspects import ENDS_MAX
from penstock.bus.to_shard import Publish
from shard.requests.consuming import Consuming
from shard.serving.intake import Intake
from shard.serving.serving import Serving
from shard.turns.doing import NOTED, Doing
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

pytestmark = pytest.mark.usefixtures("bugs_are_contained")


class Bug(Exception):
    pass


class Poison:
    """Operations that fail, at most `most` times; `ends` counts the failures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.ends = 0
        self.most = 100

    def bite(self) -> None:
        if self.ends < self.most:
            self.ends += 1
            raise Bug

    def publishes(self) -> None:
        """Make batches fail that contain `poison`."""
        publish = Intake.publish

        def fails(intake: Intake, link: Any, parts: Any, turn: int, index: int, operation: Publish, *more: Any,
                  **named: Any) -> None:  # fmt: skip
            if b"poison" in bytes(parts[operation.part + 1]):
                self.bite()
            publish(intake, link, parts, turn, index, operation, *more, **named)

        self.monkeypatch.setattr(Intake, "publish", fails)

    def queue(self, name: str) -> None:
        """Make requests about a queue fail."""
        serve_now = Serving.serve_now

        def fails(serving: Serving, queue: Any) -> None:
            if queue.name == name:
                self.bite()
            serve_now(serving, queue)

        self.monkeypatch.setattr(Serving, "serve_now", fails)

    def end_of_turn(self, name: str) -> None:
        """Make the end of a turn fail for a queue with ready messages, once all of its consumers are known."""
        finishes = Doing.finishes

        def fails(doing: Doing, id: int) -> None:
            finishes(doing, id)
            queue = doing.state.queues.get(id)
            if queue is not None and queue.name == name and queue.contents.ready and doing.state.recovery is None:
                self.bite()

        self.monkeypatch.setattr(Doing, "finishes", fails)

    def settlements(self) -> None:
        settle = Consuming.settle

        def fails(consuming: Consuming, link: Any, rows: bytes) -> None:
            self.bite()
            settle(consuming, link, rows)

        self.monkeypatch.setattr(Consuming, "settle", fails)


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    return Poison(monkeypatch)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("good")
        node.declare("bad", **{"x-expires": 3_600_000})  # of whose use the shard must learn
        begin_again(node)
        yield node


def begin_again(node: Node) -> None:
    """Restart the shard, as its first incarnation does not record its operations."""
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()


def settle(node: Node) -> None:
    """Run until nothing moves; a shard that fails is followed by its next incarnation."""
    while True:
        try:
            node.settle()
            return
        except Bug:
            node.kill_shard(0)
            node.start_shard(0)


def two(node: Node) -> tuple[Client, Client]:
    return open_channel(node), open_channel(node)


def check_given_up(node: Node, poison: Poison, unlucky: Client, operation: str, queue: str = "bad") -> None:
    assert poison.ends == ENDS_MAX
    assert unlucky.take("connection.close").code == 541
    (line,) = (line for line in node.logs if line["event"] == "operation given up")
    assert (line["operation"], line["ends"], line["shard"]) == (operation, ENDS_MAX, 0)
    assert [queue in name for name in line["queues"]] == [True]
    (link,) = node.core(0).links
    assert link.in_flight.is_empty() and not link.sent


def check_works(node: Node, client: Client, queue: str = "good") -> None:
    client.publish(1, b"after", routing_key=queue)
    settle(node)
    assert client.call("basic.get", 1, queue=queue, no_ack=True).body == b"after"


@pytest.mark.parametrize("confirms", [True, False])
def test_a_publish(node: Node, poison: Poison, confirms: bool) -> None:
    """Publishes of others in the same turn arrive, and are confirmed."""
    unlucky, other = two(node)
    for client in (other, *([unlucky] if confirms else [])):
        client.call("confirm.select", 1)
    poison.publishes()
    unlucky.publish(1, b"poison", routing_key="bad")
    other.publish(1, b"x", routing_key="good")
    settle(node)
    check_given_up(node, poison, unlucky, "publish")
    assert other.take("basic.ack", 1).delivery_tag == 1
    assert other.call("basic.get", 1, queue="good", no_ack=True).body == b"x"
    assert "basic.ack" not in unlucky.names(1)
    check_works(node, other, "bad")


def test_a_commit(node: Node, poison: Poison) -> None:
    """Nothing of the commit is done."""
    unlucky, other = two(node)
    unlucky.call("tx.select", 1)
    poison.publishes()
    unlucky.publish(1, b"first", routing_key="bad")
    unlucky.publish(1, b"poison", routing_key="bad", headers={"a": "b"})
    unlucky.send("tx.commit", 1)
    settle(node)
    check_given_up(node, poison, unlucky, "commit")
    assert other.call("queue.declare", 1, queue="bad", passive=True).messages == 0
    check_works(node, other)


@pytest.mark.parametrize(
    ("operation", "method", "arguments"),
    [
        ("purge", "queue.purge", {}),
        ("get", "basic.get", {}),
        ("consume", "basic.consume", {}),
        ("stat", "queue.declare", {"passive": True}),
    ],
)
def test_a_request(node: Node, poison: Poison, operation: str, method: str, arguments: dict[str, Any]) -> None:
    unlucky, other = two(node)
    poison.queue("bad")
    unlucky.send(method, 1, queue="bad", **arguments)
    other.send("queue.declare", 1, queue="good", passive=True)
    settle(node)
    check_given_up(node, poison, unlucky, operation)
    assert other.take("queue.declare-ok", 1).messages == 0
    check_works(node, other)


def test_a_consumer_that_is_attached_again(node: Node, poison: Poison) -> None:
    unlucky, other = two(node)
    unlucky.call("basic.consume", 1, queue="bad")
    other.call("basic.consume", 1, queue="good")
    poison.queue("bad")
    node.kill_shard(0)
    node.start_shard(0)
    settle(node)
    check_given_up(node, poison, unlucky, "consume")
    other.publish(1, b"x", routing_key="good")
    settle(node)
    assert other.take("basic.deliver", 1).body == b"x"


def test_settlements(node: Node, poison: Poison) -> None:
    """Rows are not distinguished: all clients that settled in that turn are closed, and their messages redelivered."""
    unlucky, other = two(node)
    other.publish(1, b"x", routing_key="bad", delivery_mode=1)
    node.settle()
    unlucky.call("basic.consume", 1, queue="bad")
    tag = unlucky.take("basic.deliver", 1).delivery_tag
    poison.settlements()
    poison.most = ENDS_MAX
    unlucky.send("basic.ack", 1, delivery_tag=tag)
    unlucky.read()
    node.now += 1
    settle(node)
    check_given_up(node, poison, unlucky, "settle")
    check_works(node, other)


def test_what_ends_a_turn(node: Node, poison: Poison) -> None:
    """Everything sent for that queue is given up, and nothing else."""
    unlucky, too, other = open_channel(node), open_channel(node), open_channel(node)
    for client in (unlucky, other):
        client.call("confirm.select", 1)
    node.declare("idle")
    other.call("basic.consume", 1, queue="idle")
    poison.end_of_turn("bad")
    for client, queue in ((unlucky, "bad"), (other, "good"), (too, "bad"), (other, "good")):
        client.publish(1, b"x", routing_key=queue)
    settle(node)
    assert too.take("connection.close").code == 541
    check_given_up(node, poison, unlucky, "end of a turn")
    assert other.take("basic.ack", 1)
    for _ in range(2):
        assert other.call("basic.get", 1, queue="good", no_ack=True).body == b"x"
    check_works(node, other)


def test_acks_of_a_queue_whose_turn_does_not_end(poison: Poison) -> None:
    """The acks are given up, and their messages come again; acks of other queues in the same turn count."""
    with Node(stores=True) as node:
        begin_again(node)
        unlucky, other = two(node)
        for client, queue in ((unlucky, "bad"), (other, "good")):
            node.declare(queue, durable=True)
            for body in (b"0", b"1"):
                client.publish(1, body, routing_key=queue, delivery_mode=2)
            client.call("basic.qos", 1, prefetch_count=1)
            client.call("basic.consume", 1, queue=queue)
        poison.end_of_turn("bad")
        poison.most = ENDS_MAX
        for client in (unlucky, other):
            client.send("basic.ack", 1, delivery_tag=client.take("basic.deliver", 1).delivery_tag)
            client.read()
        node.now += 1
        settle(node)
        check_given_up(node, poison, unlucky, "end of a turn")
        assert other.take("basic.deliver", 1).body == b"1"
        for queue, left in (("bad", 2), ("good", 0)):
            assert other.call("queue.declare", 1, queue=queue, passive=True).messages == left


def test_the_first_life_is_not_counted(poison: Poison) -> None:
    with Node() as node:
        node.declare("bad")
        unlucky = open_channel(node)
        poison.publishes()
        unlucky.publish(1, b"poison", routing_key="bad")
        settle(node)
        assert poison.ends == ENDS_MAX + 1
        assert unlucky.take("connection.close").code == 541


def test_a_later_incarnation_notes_for_a_while(node: Node, poison: Poison) -> None:
    client = open_channel(node)
    client.publish(1, b"x", routing_key="good")
    node.settle()
    assert node.shard(0).doing.recording
    node.now += NOTED / 1e6
    client.publish(1, b"x", routing_key="good")
    node.settle()
    assert not node.shard(0).doing.recording


def test_what_fails_less_often_is_sent_again(node: Node, poison: Poison) -> None:
    client = open_channel(node)
    client.call("confirm.select", 1)
    poison.publishes()
    poison.most = ENDS_MAX - 1
    client.publish(1, b"poison", routing_key="bad")
    settle(node)
    assert poison.ends == ENDS_MAX - 1
    assert client.take("basic.ack", 1).delivery_tag == 1
    assert client.call("basic.get", 1, queue="bad", no_ack=True).body == b"poison"
    assert node.core(0).links[0].suspect is None


def test_deaths_in_between_are_not_held_against_it(poison: Poison) -> None:
    """Incarnations that have not come as far, or died while doing something else, do not count."""
    with Node(stores=True) as node:
        node.declare("q", durable=True)
        begin_again(node)
        client = open_channel(node)
        client.call("confirm.select", 1)
        poison.publishes()
        poison.most = ENDS_MAX - 1
        client.publish(1, b"poison", routing_key="q", delivery_mode=2)
        settle(node)
        for _ in range(2 * ENDS_MAX):
            node.kill_shard(0)
            node.start_shard(0)
            client.publish(1, b"x", routing_key="q", delivery_mode=2)
            client.read()
        settle(node)
        assert "connection.close" not in client.names(0)
        assert client.call("queue.declare", 1, queue="q", passive=True).messages == 1 + 2 * ENDS_MAX
