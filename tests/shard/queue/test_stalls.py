"""Unreadable contents: their queue delivers nothing, loses nothing, and goes on once they can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.batch.batch_cy import PERSISTENT, Batch, BatchBuilder
from shard.contents.errors import StoreError
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.contents.segment_cy import Segment
from shard.store.journal import Journal
from tests.shard.steps import drain, get, pass_ms, publish
from tests.shard.store.test_store import OpenedStore, batch, bodies
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


class Unreliable:
    """Reads like the store, except while `broken`."""

    def __init__(self, journal: Journal) -> None:
        self.broken = False
        self._read = journal.read
        journal.read = self

    def __call__(self, key: bytes, count: int, spilled: bool) -> Batch:
        if self.broken:
            raise StoreError(Path("somewhere"), "not today")
        return self._read(key, count, spilled)


def prioritised(*bodies: bytes) -> Batch:
    """Return messages whose priority is the digit in their first byte."""
    builder = BatchBuilder()
    for body in bodies:
        header = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + b"\x08\0" + bytes([body[0] - ord("0")])
        builder.add(b"\0\0", header, body, PERSISTENT | 8)
    return builder.finish()


def with_priorities(journal: Journal) -> Queue:
    return PriorityQueue(7, None, 9, 1 << 36, journal, True)


@pytest.fixture(params=["plain", "priority"])
def later(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[OpenedStore, Unreliable]]:
    """An incarnation with its recovered messages in the store only: batches of three, two and one."""
    make = with_priorities if request.param == "priority" else None
    opened = OpenedStore(tmp_path, make)
    for names in ((b"5a", b"5b", b"5c"), (b"5d", b"5e"), (b"5f",)):
        opened.queue.enqueue(prioritised(*names), 0, len(names))
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path, make)
    yield opened, Unreliable(opened.journal)
    opened.end()


NAMES = [b"5a", b"5b", b"5c", b"5d", b"5e", b"5f"]


def counts(queue: Queue) -> tuple[int, ...]:
    totals = queue.totals
    return (
        *(queue.ready, queue.ready_bytes, queue.unacked, queue.unacked_bytes, totals.delivered, totals.acked),
        *(totals.dropped, totals.published, queue.paged),
    )


def test_what_cannot_be_read_stays_where_it_is(later: tuple[OpenedStore, Unreliable]) -> None:
    opened, store = later
    before = counts(opened.queue)
    store.broken = True
    for attempt in (
        lambda: opened.queue.pop(UNLIMITED, UNLIMITED, False),
        lambda: opened.queue.pop(2, UNLIMITED, True),
        lambda: opened.queue.pop(1, 0, True),
    ):
        with pytest.raises(StoreError, match="not today"):
            attempt()
        assert counts(opened.queue) == before
    store.broken = False
    assert [body for body, _ in bodies(opened.queue)] == NAMES


def test_what_can_be_read_is_taken(later: tuple[OpenedStore, Unreliable]) -> None:
    opened, store = later
    (first,) = opened.queue.pop(1, UNLIMITED, False)
    store.broken = True
    taken = opened.queue.pop(UNLIMITED, UNLIMITED, False)
    assert [(item.sequence, item.count) for item in taken] == [(first.sequence + 1, 2)]
    with pytest.raises(StoreError):
        opened.queue.pop(UNLIMITED, UNLIMITED, False)
    store.broken = False
    assert [body for body, _ in bodies(opened.queue)] == NAMES[3:]


def burying(journal: Journal) -> Queue:
    queue = Queue(7, None, 1 << 36, journal, True)
    queue.configure(-1, True, -1)
    return queue


def test_what_was_rejected_and_cannot_be_read_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable message is no longer known to be dead; a readable one is."""
    opened = OpenedStore(tmp_path, burying)
    opened.queue.enqueue(prioritised(*NAMES), 0, len(NAMES))
    (taken,) = opened.queue.pop(4, UNLIMITED, False)
    opened.queue.reject(taken.sequence + 1, 3)
    opened.queue.buried(opened.queue.take_dead()[0][1], 1, 1)
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path, burying)
    assert [(item.sequence, item.count) for _, item in opened.queue.take_dead()] == [
        (taken.sequence + 1, 1), (taken.sequence + 3, 1),
    ]  # fmt: skip
    assert [body for body, _ in bodies(opened.queue)] == [b"5a", b"5e", b"5f"]
    assert (opened.queue.ready, opened.queue.unacked) == (0, 3)
    opened.end()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "load", no_load)
        opened = OpenedStore(tmp_path, burying)
    assert not opened.queue.take_dead()
    assert [body for body, _ in bodies(opened.queue)] == [b"5a", b"5b", b"5d", b"5e", b"5f"]
    opened.end()


def no_load(journal: Journal, queue_id: int, segment: Segment) -> Batch:
    raise StoreError(Path("somewhere"), "not today")


def test_what_came_since_waits_behind_it(tmp_path: Path, later: tuple[OpenedStore, Unreliable]) -> None:
    opened, store = later
    opened.queue.enqueue(prioritised(b"5g"), 0, 1)
    store.broken = True
    with pytest.raises(StoreError):
        opened.queue.pop(UNLIMITED, UNLIMITED, False)
    store.broken = False
    assert [body for body, _ in bodies(opened.queue)] == [*NAMES, b"5g"]


def test_what_is_in_hand_is_settled_all_the_same(later: tuple[OpenedStore, Unreliable]) -> None:
    opened, store = later
    store.broken = True
    first = opened.queue.first_ready()
    assert opened.queue.claim(first, 5) == [(first, 5)] or opened.queue.claim(first + 3, 2)
    opened.queue.settle(first, 2)
    opened.queue.requeue(first + 2, 2)
    assert (opened.queue.ready, opened.queue.unacked, opened.queue.totals.acked) == (3, 1, 2)
    store.broken = False
    assert [body for body, _ in bodies(opened.queue)] == [b"5c", b"5d", b"5f"]


def test_what_is_rejected_and_cannot_be_buried_is_ready_again(later: tuple[OpenedStore, Unreliable]) -> None:
    opened, store = later
    opened.queue.configure(-1, True, -1)
    store.broken = True
    first = opened.queue.first_ready()
    opened.queue.claim(first, 3)
    opened.queue.reject(first + 1, 2)
    assert (opened.queue.ready, opened.queue.unacked) == (5, 1)
    assert not opened.queue.take_dead()
    store.broken = False
    assert [body for body, _ in bodies(opened.queue)] == NAMES[1:]


def test_drops_need_to_read_what_is_to_be_buried(later: tuple[OpenedStore, Unreliable]) -> None:
    opened, store = later
    opened.queue.configure(-1, True, -1)
    store.broken = True
    before = counts(opened.queue)
    with pytest.raises(StoreError):
        opened.queue.drop_head(2, UNLIMITED)
    assert counts(opened.queue) == before
    opened.queue.configure(-1, False, -1)
    assert opened.queue.purge() == 6
    assert (opened.queue.ready, opened.queue.ready_bytes, opened.queue.paged) == (0, 0, 0)


# With the shard around the queue


def in_the_gauges(node: Node, name: str) -> None:
    state = node.state(name)
    gauge = node.gauges.queue_read(state.slot)
    assert gauge is not None
    assert (gauge.ready, gauge.ready_bytes) == (state.contents.ready, state.contents.ready_bytes)


Restarted = Callable[[], tuple[Node, Client, Unreliable]]


@pytest.fixture
def restarted() -> Iterator[Restarted]:
    """Return a function that makes a joined node whose shard has recovered the queues a and b of 20 messages each."""
    with Node(stores=True) as node:

        def start() -> tuple[Node, Client, Unreliable]:
            client = open_channel(node)
            for queue in "ab":
                node.declare(queue, durable=True)
                for first in range(0, 20, 5):
                    publish(client, queue, *(b"%d" % number for number in range(first, first + 5)), delivery_mode=2)
            node.settle()
            node.kill_shard(0)
            node.start_shard(0)
            node.settle()
            journal = node.shard(0).state.journal
            assert journal is not None
            return node, client, Unreliable(journal)

        yield start


def test_a_queue_is_tried_again_each_second(restarted: Restarted) -> None:
    node, client, store = restarted()
    store.broken = True
    client.call("basic.consume", 1, queue="a", consumer_tag="c", no_ack=True)
    node.settle()
    assert "basic.deliver" not in client.names(1)
    assert node.shard(0).stalls.stalled.keys() == {node.state("a").id}
    assert node.state("a").contents.ready == 20
    in_the_gauges(node, "a")
    store.broken = False
    pass_ms(node, 900)
    assert "basic.deliver" not in client.names(1)
    assert node.shard(0).next_wake() <= node.microseconds() + 100_000
    pass_ms(node, 100)
    found = [int(client.take("basic.deliver", 1).body) for _ in range(20)]
    assert found == list(range(20))
    assert not node.shard(0).stalls.stalled
    in_the_gauges(node, "a")


def test_others_go_on(restarted: Restarted) -> None:
    node, client, store = restarted()
    assert len(drain(client, "b")) == 20
    store.broken = True
    assert get(client, "a") is None
    publish(client, "b", b"new", delivery_mode=2)
    assert drain(client, "b") == [b"new"]
    assert get(client, "a") is None
    store.broken = False
    pass_ms(node, 1000)
    assert drain(client, "a") == [b"%d" % number for number in range(20)]


def test_a_queue_that_cannot_be_read_is_purged_or_deleted(restarted: Restarted) -> None:
    node, client, store = restarted()
    store.broken = True
    assert get(client, "a") is None
    assert get(client, "b") is None
    assert client.call("queue.purge", 1, queue="a").messages == 20
    assert client.call("queue.delete", 1, queue="b").messages == 20
    node.settle()
    assert not node.shard(0).stalls.stalled or node.state("a").id in node.shard(0).stalls.stalled
    pass_ms(node, 1000)
    assert not node.shard(0).stalls.stalled
    in_the_gauges(node, "a")


def test_an_ordinary_read_is_what_it_was(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    store = Unreliable(opened.journal)
    opened.queue.enqueue(batch(b"a"), 0, 1)
    store.broken = True
    assert bodies(opened.queue) == [(b"a", False)]
    opened.end()
