"""The prefetch limit that consumers of a channel share over several shards, in any order of events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

QUEUES = {"a": 0, "b": 1, "c": 0, "d": 2}


class Limited:
    """A client with a limited channel that consumes from queues of three shards, and a publisher to these queues."""

    def __init__(self, node: Node, queues: str, limit: int, prefetch: int = 0) -> None:
        self.node = node
        self.limit = limit
        for name in queues:
            node.declare(name, QUEUES[name])
        self.client = node.connect()
        self.client.call("channel.open", 1)
        self.client.call("basic.qos", 1, prefetch_count=limit, global_=True)
        self.client.call("basic.qos", 1, prefetch_count=prefetch)
        self.publisher = node.connect()
        self.publisher.call("channel.open", 1)
        self.got = 0

    @property
    def outstanding(self) -> int:
        channel = self.client.connection.channels[1]
        return channel.unacked.consumed

    def consume(self, *queues: str) -> None:
        for queue in queues:
            self.client.call("basic.consume", 1, queue=queue)

    def fill(self, queue: str, count: int) -> None:
        for _ in range(count):
            self.publisher.publish(1, queue.encode(), routing_key=queue)

    def gather(self) -> list[str]:
        found = deliveries(self.client)
        self.got += len(found)
        return found

    def ack_all(self) -> None:
        self.client.send("basic.ack", 1, delivery_tag=0, multiple=True)
        self.node.settle()


def deliveries(client: Client) -> list[str]:
    """Return the queue of each delivery that has come."""
    found = []
    while "basic.deliver" in client.names(1):
        found.append(client.take("basic.deliver", 1).body.decode())
    return found


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_the_limit_is_the_channels(limit: int) -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "abcd", limit)
        limited.consume(*"abcd")
        for queue in "abcd":
            limited.fill(queue, 10)
        node.settle()
        while limited.got < 40:
            before = limited.got
            limited.gather()
            assert limited.got - before == limited.outstanding == min(limit, 40 - before)
            limited.ack_all()


def test_all_shards_get_their_turn() -> None:
    """No shard is served only when the others are empty."""
    with Node(1, 3) as node:
        limited = Limited(node, "abd", 1)
        limited.consume(*"abd")
        for queue in "abd":
            limited.fill(queue, 10)
        node.settle()
        order = []
        for _ in range(30):
            order += limited.gather()
            limited.ack_all()
        assert all(set(order[i : i + 3]) == set("abd") for i in range(0, 30, 3))


def test_what_a_channel_had_before_its_second_shard_counts() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 3)
        limited.consume("a")
        limited.fill("a", 2)
        limited.fill("b", 10)
        node.settle()
        limited.consume("b")
        node.settle()
        assert limited.gather() == ["a", "a", "b"]
        limited.ack_all()
        assert limited.gather() == ["b"] * 3


@pytest.mark.parametrize(("end", "more"), [("tx.commit", 3), ("tx.rollback", 0)])
def test_what_is_settled_in_a_transaction_counts_until_its_end(end: str, more: int) -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 3)
        limited.client.call("tx.select", 1)
        limited.consume("a", "b")
        for queue in "ab":
            limited.fill(queue, 10)
        node.settle()
        assert len(limited.gather()) == 3
        limited.ack_all()
        assert not limited.gather()
        limited.client.call(end, 1)
        assert len(limited.gather()) == more
        assert limited.outstanding == 3


def test_a_shard_that_is_hungry_while_others_are_told_is_not_forgotten() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "abd", 2)
        limited.consume("a")
        limited.fill("a", 20)
        node.settle()
        limited.consume("d")
        limited.ack_all()
        limited.ack_all()
        limited.gather()
        assert limited.got == 6
        limited.client.call("basic.qos", 1, prefetch_count=0, global_=True)
        node.settle()
        limited.gather()
        limited.client.call("basic.qos", 1, prefetch_count=1, global_=True)
        limited.fill("a", 3)
        limited.fill("d", 3)
        node.settle()
        for _ in range(6):
            limited.ack_all()
        limited.gather()
        assert limited.got == 26


def test_what_a_dead_shard_was_granted_is_not_granted_to_another_while_its_last_turns_may_come() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 1)
        limited.consume("a", "b")
        limited.fill("a", 1)
        limited.publisher.read()
        while not limited.client.connection.channels[1].shared_prefetch.granted.get(0):
            node.send_up(0, 0)
            node.finish_shard(0)
            node.send_down(0, 0)
            node.finish(0)
        node.send_up(0, 0)
        node.finish_shard(0)
        node.kill_shard(0)
        assert node.meet(0)
        limited.fill("b", 2)
        limited.publisher.read()
        for _ in range(5):
            node.finish(0)
            node.send_up(0, 1)
            node.finish_shard(1)
            node.send_down(1, 0)
        while node.send_down(0, 0):
            pass
        assert limited.outstanding == 1
        node.start_shard(0)
        node.settle()
        limited.ack_all()
        assert limited.outstanding == 1


def test_the_limit_changes_at_run_time() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 0)
        limited.consume(*"ab")
        for queue in "ab":
            limited.fill(queue, 6)
        node.settle()
        assert len(limited.gather()) == 12
        limited.client.call("basic.qos", 1, prefetch_count=4, global_=True)
        for queue in "ab":
            limited.fill(queue, 20)
        node.settle()
        assert limited.gather() == []
        limited.ack_all()
        assert len(limited.gather()) == 4
        limited.client.call("basic.qos", 1, prefetch_count=6, global_=True)
        node.settle()
        assert len(limited.gather()) == 2
        limited.client.call("basic.qos", 1, prefetch_count=1, global_=True)
        limited.client.send("basic.ack", 1, delivery_tag=17, multiple=True)
        node.settle()
        assert (limited.gather(), limited.outstanding) == ([], 1)
        limited.client.call("basic.qos", 1, prefetch_count=0, global_=True)
        node.settle()
        assert len(limited.gather()) == 40 - 6


def test_gets_are_not_limited_and_do_not_count() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 2)
        for queue in "ab":
            limited.fill(queue, 5)
        node.settle()
        for _ in range(3):
            assert limited.client.call("basic.get", 1, queue="a").name == "basic.get-ok"
        limited.consume(*"ab")
        assert limited.outstanding == 2
        for tag in 1, 2, 3:
            limited.client.send("basic.ack", 1, delivery_tag=tag)
        node.settle()
        assert len(limited.gather()) == limited.outstanding == 2


def test_both_limits_hold() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 5, prefetch=3)
        limited.consume(*"ab")
        limited.fill("a", 10)
        node.settle()
        assert limited.gather() == ["a"] * 3
        limited.fill("b", 10)
        node.settle()
        assert limited.gather() == ["b"] * 2


def test_no_ack_takes_nothing_of_a_limit_but_waits_while_it_is_used_up() -> None:
    with Node(1, 3) as node:
        limited = Limited(node, "abd", 1)
        limited.consume(*"ab")
        limited.client.call("basic.consume", 1, queue="d", no_ack=True)
        for queue in "abd":
            limited.fill(queue, 4)
        node.settle()
        found = limited.gather()
        for _ in range(8):
            assert limited.outstanding == 1
            limited.ack_all()
            found += limited.gather()
        assert sorted(found) == ["a"] * 4 + ["b"] * 4 + ["d"] * 4


def test_a_shard_that_dies_takes_no_room_with_it() -> None:
    """Grants to a dead shard are free again, and its next incarnation gets grants as before."""
    with Node(1, 3) as node:
        limited = Limited(node, "ab", 2)
        limited.consume(*"ab")
        node.kill_shard(1)
        limited.fill("a", 5)
        node.settle()
        assert limited.gather() == ["a", "a"]
        node.start_shard(1)
        node.settle()
        limited.fill("b", 5)
        node.settle()
        limited.ack_all()
        assert "b" in limited.gather()
        while limited.outstanding:
            limited.ack_all()
            limited.gather()
        assert limited.got == 10


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("aborted", [False, True])
def test_what_is_unacked_of_a_queue_that_moves_counts_all_the_time(aborted: bool, cancelled: bool) -> None:
    """A queue moves away from the shard of another queue that the channel consumes from; it arrives, or stays."""
    with Node(1, 3) as node:
        limited = Limited(node, "ac", 4)
        tag = limited.client.call("basic.consume", 1, queue="a").consumer_tag
        limited.fill("a", 2)
        node.settle()
        limited.consume("c")
        limited.fill("c", 10)
        node.settle()
        assert limited.gather() == ["a", "a", "c", "c"]
        if cancelled:
            limited.client.call("basic.cancel", 1, consumer_tag=tag)
        results = node.move("a", 1)
        if aborted:
            assert node.abort_move("a")
        while node.step():
            assert limited.outstanding <= 4
        assert results[0]["result"] == ("rolled-back" if aborted else "moved")
        assert limited.gather() == []
        limited.client.send("basic.ack", 1, delivery_tag=3)
        node.settle()
        assert limited.gather() == ["c"]
        limited.client.send("basic.ack", 1, delivery_tag=2, multiple=True)
        node.settle()
        assert limited.gather() == ["c", "c"]


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32), limit=st.integers(1, 4), prefetch=st.sampled_from([0, 0, 1, 2]))
def test_whatever_the_order_of_events(seed: int, limit: int, prefetch: int) -> None:
    """Deliveries outstanding never exceed the limit; once all has settled, nothing waits while there is room."""
    random = Random(seed)
    with Node(1, 3) as node:
        limited = Limited(node, "abcd", limit, prefetch)
        waiting = list("abcd")
        for _ in range(120):
            match random.randrange(14):
                case 0 if waiting:
                    limited.client.send("basic.consume", 1, queue=waiting.pop())
                case 1 | 2:
                    limited.fill(random.choice("abcd"), random.randint(1, 3))
                case 3:
                    limited.client.send("basic.ack", 1, delivery_tag=0, multiple=True)
                case 4 | 5 | 6:
                    limited.client.read()
                    limited.publisher.read()
                case 7 | 8 | 9:
                    node.finish(0)
                case 10 | 11:
                    node.send_up(0, random.randrange(3))
                case 12:
                    node.finish_shard(random.randrange(3))
                case _:
                    node.send_down(random.randrange(3), 0)
            assert limited.outstanding <= limit
        for queue in waiting:
            limited.client.send("basic.consume", 1, queue=queue)
        while True:
            node.settle()
            assert limited.outstanding <= limit
            left = sum(node.state(queue).contents.ready for queue in "abcd")
            assert left == 0 or limited.outstanding >= (min(limit, prefetch) if prefetch else limit)
            if not left:
                break
            limited.ack_all()
