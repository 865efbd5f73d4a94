"""A transaction over two shards is done on both or on neither, whatever is killed in the middle of its commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faults.node import Node
from tests.faults.plan import Plan
from tests.faults.publishers import PERSISTENT
from tests.outcomes import Confirms
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(300)]

MESSAGES = 10


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    try:
        yield node
    finally:
        node.end()


@contextmanager
def stopped(node: Node, shard: int) -> Iterator[None]:
    """Stop the process of a shard (SIGSTOP) until it is killed or the block ends."""
    pid = node.pid("shard", shard)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Split:
    """A client that moves ten messages from `source`, on shard 0, to `target`, on shard 1, in one transaction."""

    def __init__(self, node: Node) -> None:
        self.node = node
        plan = Plan(node.vhost)
        self.source, self.target, self.beside = (plan.name_on(shard, stem) for shard, stem in
                                                 ((0, "source"), (1, "target"), (0, "beside")))  # fmt: skip
        self.client = node.connect()
        with node.connect() as client:
            for queue in (self.source, self.target, self.beside):
                client.channel().call("queue.declare", queue=queue, durable=True)
            self.publish_to(client, self.source, MESSAGES)

    def publish_to(self, client: Client, queue: str, count: int) -> None:
        """Publish messages and wait until all of them are in the store."""
        confirms = Confirms(client.channel())
        for number in range(count):
            confirms.publish(b"%d" % number, queue, delivery_mode=PERSISTENT)
        confirms.wait()

    def begin(self) -> None:
        """Get, publish and ack the messages, without the commit."""
        self.channel = self.client.channel()
        self.channel.call("tx.select")
        for _ in range(MESSAGES):
            event = self.channel.get(self.source, no_ack=False)
            assert event is not None
            self.channel.publish(event.body, self.target, delivery_mode=PERSISTENT)
        self.channel.send("basic.ack", delivery_tag=event.delivery_tag, multiple=True)

    def commit(self) -> None:
        """Send the commit; wait until shard 0 has stored its part, which is as far as it gets alone."""
        self.channel.send("tx.commit")
        self.publish_to(self.client, self.beside, 1)

    def left(self) -> tuple[int, int]:
        """Return the number of messages in source and target, once none is unacked."""
        with self.node.connect() as client:
            channel = client.channel()
            wait_for(lambda: not any(each.unacked for each in self.node.counts().values()), 30, "nothing in hand")
            return channel.depth(self.source), channel.depth(self.target)


def test_all_are_killed_while_one_shard_has_not_got_its_part(node: Node) -> None:
    split = Split(node)
    split.begin()
    with stopped(node, 1):
        split.commit()
        assert not split.client.line(split.channel.number)
        node.kill_all()
    node.start()
    assert split.left() == (MESSAGES, 0)


def test_acceptors_are_killed_while_one_shard_has_not_got_its_part(node: Node) -> None:
    split = Split(node)
    split.begin()
    with stopped(node, 1):
        split.commit()
        node.kill(("acceptor", 0), ("acceptor", 1))
    node.wait_ready()
    assert split.left() == (MESSAGES, 0)


@pytest.mark.parametrize("shard", [0, 1])
def test_a_shard_is_killed(node: Node, shard: int) -> None:
    """The client waits, and its transaction is done once the shard is back."""
    split = Split(node)
    split.begin()
    with stopped(node, 1):
        split.commit()
        node.kill(("shard", shard))
    split.channel.take("tx.commit-ok")
    assert split.left() == (0, MESSAGES)
