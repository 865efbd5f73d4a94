"""Queues and their consumers, compiled and plain, against lists of messages."""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.twins import both_ways, load_compiled, load_plain

NAME = "shard.contents.queue_cy"
Load = Callable[[str], ModuleType]
LOADS = load_compiled, load_plain
ACK, REQUEUE, REJECT = 0, 1, 2
WEIGHT = 64

sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8)


def batch_of(load: Load, bodies: Iterable[bytes]) -> Any:
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for body in bodies:
        builder.add(b"\0\1q", header_of(body), body, 0)
    return builder.finish()


def header_of(body: bytes) -> bytes:
    """Return a header of one of several sizes, larger or smaller than the body."""
    return b"header" * (1 + len(body) % 4)


def whole_of(body: bytes) -> int:
    """Return the whole size of a message with this body."""
    return len(b"\0\1q") + len(header_of(body)) + len(body) + WEIGHT


def row(consumer: int, sequence: int, count: int, kind: int) -> bytes:
    return struct.pack("<QQII", consumer, sequence, count, kind)


# (sequence number, body, redelivered) of each message
Taken = list[tuple[int, bytes, bool]]


def messages_of(taken: list[Any]) -> Taken:
    found: Taken = []
    for item in taken:
        assert item.count > 0
        bodies = [item.batch.record(item.first + i)[2] for i in range(item.count)]
        assert item.body_bytes == sum(map(len, bodies))
        assert item.whole == sum(map(whole_of, bodies))
        found += [(item.sequence + i, body, item.redelivered) for i, body in enumerate(bodies)]
    return found


@dataclass
class Message:
    body: bytes
    state: str = "ready"  # or unacked, gone
    delivered: bool = False
    holder: int = 0


TOTALS = ("published", "published_bytes", "delivered", "delivered_bytes", "acked", "redelivered", "dropped")


@dataclass
class Line:
    """A model of a queue: messages in the order of their sequence numbers, and totals."""

    messages: list[Message] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOTALS, 0))

    def select(self, state: str) -> list[tuple[int, Message]]:
        return [(sequence, m) for sequence, m in enumerate(self.messages) if m.state == state]

    def counters(self) -> dict[str, int]:
        ready, unacked = self.select("ready"), self.select("unacked")
        return {
            "ready": len(ready),
            "ready_bytes": sum(len(m.body) for _, m in ready),
            "ready_whole": sum(whole_of(m.body) for _, m in ready),
            "unacked": len(unacked),
            "unacked_bytes": sum(len(m.body) for _, m in unacked),
            "unacked_whole": sum(whole_of(m.body) for _, m in unacked),
            "next_sequence": len(self.messages),
            **self.totals,
        }

    def enqueue(self, bodies: list[bytes]) -> int:
        self.messages += [Message(body) for body in bodies]
        self.totals["published"] += len(bodies)
        self.totals["published_bytes"] += sum(map(len, bodies))
        return len(self.messages) - len(bodies)

    def take(self, count: int, limit: int, settled: bool, holder: int = 0) -> Taken:
        """Deliver the first ready messages; those delivered before are all older than those that were not."""
        taken: Taken = []
        for sequence, message in self.select("ready")[: max(count, 0)]:
            if taken and sum(whole_of(body) for _, body, _ in taken) + whole_of(message.body) > limit:
                break
            taken.append((sequence, message.body, message.delivered))
            self.totals["delivered"] += 1
            self.totals["delivered_bytes"] += len(message.body)
            self.totals["redelivered"] += message.delivered
            self.totals["acked"] += settled
            message.state, message.holder, message.delivered = "gone" if settled else "unacked", holder, True
        return taken

    def settle(self, sequence: int, count: int, kind: int, holder: int = 0) -> int:
        """Settle the messages of the range that the holder has unacked; return their number."""
        settled = 0
        for message in self.messages[sequence : sequence + count]:
            if message.state == "unacked" and message.holder == holder:
                settled += 1
                message.state = "ready" if kind == REQUEUE else "gone"
                self.totals["acked"] += kind != REQUEUE
        return settled

    def claim(self, sequence: int, count: int, holder: int, returned: bool) -> int:
        """Return how many of the range were ready and delivered once; the holder gets them unless `returned`."""
        claimed = 0
        for message in self.messages[sequence : sequence + count]:
            if message.state == "ready" and message.delivered:
                claimed += 1
                if not returned:
                    message.state, message.holder = "unacked", holder
        return claimed

    def drop_head(self, max_count: int, max_bytes: int) -> int:
        ready = self.select("ready")
        dropped = 0
        while len(ready) > max_count or (ready and sum(len(m.body) for _, m in ready) > max_bytes):
            ready.pop(0)[1].state = "gone"
            dropped += 1
        self.totals["dropped"] += dropped
        return dropped

    def runs(self, holder: int) -> list[tuple[int, int]]:
        """Return (sequence, count) of each unbroken range that a holder has unacked."""
        found: list[tuple[int, int]] = []
        for sequence, message in self.select("unacked"):
            if message.holder != holder:
                continue
            if found and sum(found[-1]) == sequence:
                found[-1] = found[-1][0], found[-1][1] + 1
            else:
                found.append((sequence, 1))
        return found


@dataclass
class Taker:
    """A model of a consumer."""

    id: int
    queue: int
    no_ack: bool
    prefetch: int
    group: int
    window: int = 0
    active: bool = True


GROUPS = ((0, 400), (3, 0), (3, 250), (0, 0))  # limits of channels, in messages and bytes
OF_USER = (1, 3)
"""Groups of one user, whose unacked messages are limited by the next two constants."""
USER_COUNT, USER_BYTES = 5, 600
TAKERS = [
    Taker(1, 0, False, 0, 0),
    Taker(2, 0, False, 4, 1),
    Taker(3, 0, True, 0, 1),
    Taker(4, 1, False, 0, 1),
    Taker(5, 1, False, 2, 0),
    Taker(6, 0, False, 0, 2),
    Taker(7, 1, True, 0, 2),
    Taker(8, 1, False, 0, 3),
]
takers = st.sampled_from([taker.id for taker in TAKERS])
queues = st.integers(0, 1)


def state_of(consumer: Any) -> tuple[int, int, int]:
    return consumer.credit(), consumer.window, consumer.nbytes


def in_hand_of(group: Any) -> tuple[int, int]:
    return group.outstanding, group.nbytes


class Real:
    """Two queues with their consumers, compiled or plain."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.module = load("shard.queue.consumer_cy")
        self.queues = [load(NAME).Queue(id, f"owner {id}") for id in range(2)]
        self.groups = [self.module.Group(limit, 0, nbytes, True) for limit, nbytes in GROUPS]
        self.hand = self.module.Hand("user", {})
        self.hand.count_limit, self.hand.bytes_limit = USER_COUNT, USER_BYTES
        for group in OF_USER:
            self.groups[group].join(self.hand)
        self.consumers = {
            t.id: self.module.Consumer(t.id, self.queues[t.queue], t.no_ack, t.prefetch, self.groups[t.group], "link")
            for t in TAKERS
        }


def counted(index: int, names: Iterable[str], real: Real) -> dict[str, int]:
    """Return the named counts of a queue, including those of its totals."""
    queue = real.queues[index]
    return {name: getattr(queue.totals if name in TOTALS else queue, name) for name in names}


class Queues(RuleBasedStateMachine):
    """Each step is applied to the model, the compiled queues and the plain ones; answers and counters agree."""

    @initialize()
    def start(self) -> None:
        self.lines = [Line(), Line()]
        self.takers = {t.id: Taker(t.id, t.queue, t.no_ack, t.prefetch, t.group) for t in TAKERS}
        self.real = [Real(load) for load in LOADS]
        self.made = 0

    def both(self, call: Callable[[Real], Any]) -> Any:
        compiled, plain = (call(real) for real in self.real)
        assert compiled == plain
        return compiled

    # The queue itself

    @rule(sizes=sizes, to=st.sampled_from([(0,), (1,), (0, 1)]), skip=st.integers(0, 7))
    def enqueue(self, sizes: list[int], to: tuple[int, ...], skip: int) -> None:
        """Enqueue a batch, or the end of one, in one queue or in both, which then share it."""
        bodies = [(b"%d." % (self.made + i)).ljust(size, b".")[:size] for i, size in enumerate(sizes)]
        self.made += len(sizes)
        first = skip % len(bodies)
        batches = [batch_of(real.load, bodies) for real in self.real]
        for index in to:
            sequence = self.lines[index].enqueue(bodies[first:])
            for real, batch in zip(self.real, batches, strict=True):
                assert real.queues[index].enqueue(batch, first, len(bodies) - first) == sequence

    @rule(index=queues, count=st.integers(20, 50))
    def enqueue_many(self, index: int, count: int) -> None:
        """Enqueue batches of one message, enough for the list of segments to be cut."""
        self.lines[index].enqueue([b"x"] * count)
        for real in self.real:
            for _ in range(count):
                real.queues[index].enqueue(batch_of(real.load, [b"x"]), 0, 1)

    @rule(index=queues, count=st.integers(0, 60), limit=st.integers(0, 1000) | st.just(2**62), settled=st.booleans())
    def take(self, index: int, count: int, limit: int, settled: bool) -> None:
        expected = self.lines[index].take(count, limit, settled)
        assert self.both(lambda real: messages_of(real.queues[index].pop(count, limit, settled))) == expected

    @rule(index=queues, which=st.integers(0, 9), skip=st.integers(0, 9), count=st.integers(1, 60), again=st.booleans())
    def settle_or_requeue(self, index: int, which: int, skip: int, count: int, again: bool) -> None:
        """Settle or requeue some of the messages that were popped without a consumer."""
        runs = self.lines[index].runs(holder=0)
        if not runs:
            return
        start, length = runs[which % len(runs)]
        sequence = start + skip % length
        count = min(count, start + length - sequence)
        self.lines[index].settle(sequence, count, REQUEUE if again else ACK)
        for real in self.real:
            queue = real.queues[index]
            (queue.requeue if again else queue.settle)(sequence, count)

    @rule(index=queues, max_count=st.integers(0, 15), max_bytes=st.integers(0, 200) | st.just(2**62))
    def drop_head(self, index: int, max_count: int, max_bytes: int) -> None:
        expected = self.lines[index].drop_head(max_count, max_bytes)
        assert self.both(lambda real: real.queues[index].drop_head(max_count, max_bytes)) == expected

    @rule(index=queues)
    def purge(self, index: int) -> None:
        expected = self.lines[index].drop_head(0, 0)
        assert self.both(lambda real: real.queues[index].purge()) == expected
        assert not self.lines[index].select("ready")
        if not self.lines[index].select("unacked"):
            assert self.both(lambda real: real.queues[index].weight()) == 0

    # Consumers

    def outstanding(self, id: int) -> int:
        return sum(count for _, count in self.lines[self.takers[id].queue].runs(id))

    def outstanding_in_group(self, group: int) -> int:
        return sum(self.outstanding(taker.id) for taker in self.takers.values() if taker.group == group)

    def nbytes(self, id: int) -> int:
        """Return the whole bytes of the consumer's unacked messages."""
        held = (m for _, m in self.lines[self.takers[id].queue].select("unacked") if m.holder == id)
        return sum(whole_of(m.body) for m in held)

    def bytes_in_group(self, group: int) -> int:
        return sum(self.nbytes(taker.id) for taker in self.takers.values() if taker.group == group)

    def space(self, taker: Taker) -> int:
        """Return how many more bytes the consumer's group and user may have unacked."""
        if taker.no_ack:
            return 2**62
        limit = GROUPS[taker.group][1]
        space = limit - self.bytes_in_group(taker.group) if limit else 2**62
        return min(space, USER_BYTES - self.in_hand()[1]) if taker.group in OF_USER else space

    def in_hand(self) -> tuple[int, int]:
        """Return the messages and bytes that the user has unacked."""
        count = sum(self.outstanding_in_group(group) for group in OF_USER)
        return count, sum(self.bytes_in_group(group) for group in OF_USER)

    def credit(self, taker: Taker) -> int:
        if not taker.active or taker.window <= 0 or self.space(taker) <= 0:
            return 0
        rooms = [2**62]
        if taker.prefetch and not taker.no_ack:
            rooms.append(taker.prefetch - self.outstanding(taker.id))
        if taker.group in OF_USER and not taker.no_ack:
            rooms.append(USER_COUNT - self.in_hand()[0])
        if GROUPS[taker.group][0]:
            room = GROUPS[taker.group][0] - self.outstanding_in_group(taker.group)
            rooms.append(2**62 if taker.no_ack and room > 0 else room)
        return max(min(rooms), 0)

    @rule(id=takers, nbytes=st.integers(1, 1000))
    def open_window(self, id: int, nbytes: int) -> None:
        self.takers[id].window += nbytes
        for real in self.real:
            real.consumers[id].window += nbytes

    @rule(id=takers, prefetch=st.integers(0, 5), active=st.booleans())
    def change(self, id: int, prefetch: int, active: bool) -> None:
        self.takers[id].prefetch, self.takers[id].active = prefetch, active
        for real in self.real:
            real.consumers[id].prefetch, real.consumers[id].active = prefetch, active

    @rule(id=takers, count=st.integers(1, 10))
    def consume(self, id: int, count: int) -> None:
        taker = self.takers[id]
        count = min(count, self.credit(taker))
        if count == 0:
            return
        limit = min(taker.window, self.space(taker))
        expected = self.lines[taker.queue].take(count, limit, taker.no_ack, id)
        assert self.both(lambda real: messages_of(real.consumers[id].pop(count))) == expected
        taker.window -= sum(whole_of(body) for _, body, _ in expected)

    kinds = st.sampled_from([ACK, REQUEUE, REJECT])
    settlements = st.lists(
        st.tuples(
            takers | st.just(99), st.integers(0, 30), st.integers(1, 12), st.sampled_from([ACK, REQUEUE, REJECT])
        ),
        max_size=4,
    )

    @rule(rows=settlements)
    def settle_rows(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Rows may also name messages of other consumers, settled messages and messages of nobody."""
        touched = set()
        for id, sequence, count, kind in rows:
            if id in self.takers and self.lines[self.takers[id].queue].settle(sequence, count, kind, id):
                touched.add(id)
        data = b"".join(row(*each) for each in rows)
        assert self.both(lambda real: {c.id for c in real.module.settle_rows(data, real.consumers)}) == touched

    @rule(rows=settlements)
    def hold_rows(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Rows name deliveries of an earlier incarnation; consumers get those that were delivered and are ready."""
        touched = set()
        for id, sequence, count, kind in rows:
            if id in self.takers and self.lines[self.takers[id].queue].claim(sequence, count, id, kind == REQUEUE):
                touched.add(id)
        data = b"".join(row(*each) for each in rows)
        assert self.both(lambda real: {c.id for c in real.module.hold_rows(data, real.consumers)}) == touched

    @rule(id=takers)
    def requeue_all(self, id: int) -> None:
        line = self.lines[self.takers[id].queue]
        expected = line.settle(0, len(line.messages), REQUEUE, id)
        assert self.both(lambda real: real.consumers[id].requeue_all()) == expected

    @rule(id=takers)
    def lease(self, id: int) -> None:
        """Move all that the consumer has unacked to a lease and back."""
        for real in self.real:
            consumer, held = real.consumers[id], real.load("penstock.batch.ranges_cy").RangeSet()
            assert consumer.leave_to(held) == held.total
            assert (consumer.nbytes, consumer.outstanding.total) == (0, 0)
            consumer.hold_all(held)

    @rule(rows=settlements)
    def hand_over_rows(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Messages named by settlements leave their consumers first, and are settled later."""
        data = b"".join(row(*each) for each in rows)
        for id, sequence, count, kind in rows:
            if id in self.takers:
                self.lines[self.takers[id].queue].settle(sequence, count, kind, id)
        for real in self.real:
            taken: list[Any] = []
            real.module.hand_over_rows(data, real.consumers, taken)
            for queue, sequence, count, kind in taken:
                (queue.requeue if kind == REQUEUE else queue.reject if kind == REJECT else queue.settle)(
                    sequence, count
                )

    @invariant()
    def counters_agree(self) -> None:
        for index, line in enumerate(self.lines):
            expected = line.counters()
            assert self.both(partial(counted, index, expected)) == expected
        for id, taker in self.takers.items():
            runs = [(start, start + count) for start, count in self.lines[taker.queue].runs(id)]
            assert self.both(lambda real, id=id: real.consumers[id].outstanding.ranges()) == runs  # type: ignore[misc]
            state = self.credit(taker), taker.window, self.nbytes(id)
            assert self.both(lambda real, id=id: state_of(real.consumers[id])) == state  # type: ignore[misc]
        for group in range(len(GROUPS)):
            held = self.outstanding_in_group(group), self.bytes_in_group(group)
            assert self.both(lambda real, group=group: in_hand_of(real.groups[group])) == held  # type: ignore[misc]

    @invariant()
    def user_agrees(self) -> None:
        assert self.both(lambda real: (real.hand.count, real.hand.nbytes)) == self.in_hand()

    @precondition(lambda self: self.real)
    @invariant()
    def settled_segments_let_go(self) -> None:
        """Checked in the plain queue, whose internals are accessible."""
        for queue in self.real[1].queues:
            live = [segment for segment in queue.segments[queue.head :] if segment.live]
            assert queue.weight() == sum(segment.weight() for segment in live)
            for segment in queue.segments[queue.head :]:
                assert (segment.batch is None) == (segment.live == 0)
            assert not any(queue.segments[: queue.head])


TestQueues = Queues.TestCase
TestQueues.settings = settings(max_examples=60, stateful_step_count=40)


class Bytes(bytearray):
    """A buffer that a weak reference can point to."""


def watched(load: Load, bodies: list[bytes]) -> tuple[Any, Callable[[], bool]]:
    """Return a batch, and a function that returns whether it is still in memory."""
    made = batch_of(load, bodies)
    contents = Bytes(made.contents)
    kept = weakref.ref(contents)

    def alive() -> bool:
        gc.collect()
        return kept() is not None

    return load("penstock.batch.batch_cy").Batch(bytes(made.entries), contents), alive


@both_ways
def test_a_batch_is_let_go_when_the_last_of_it_is_settled(load: Load) -> None:
    queue = load(NAME).Queue(0, None)
    batch, alive = watched(load, [b"a", b"b", b"c"])
    queue.enqueue(batch, 0, 3)
    del batch
    queue.pop(2, 1000, False)
    queue.pop(1, 1000, True)
    queue.settle(1, 1)
    assert alive()
    queue.settle(0, 1)
    assert not alive()


@both_ways
def test_a_batch_behind_one_that_stays_is_let_go_too(load: Load) -> None:
    queue = load(NAME).Queue(0, None)
    stays, stays_alive = watched(load, [b"a"])
    goes, goes_alive = watched(load, [b"b"])
    for batch in stays, goes:
        queue.enqueue(batch, 0, 1)
    del stays, goes, batch
    queue.pop(2, 1000, False)
    queue.settle(1, 1)
    assert not goes_alive() and stays_alive()
    queue.requeue(0, 1)
    queue.purge()
    assert not stays_alive()


@both_ways
def test_a_batch_lives_as_long_as_one_queue_has_it(load: Load) -> None:
    queues = [load(NAME).Queue(id, None) for id in range(3)]
    batch, alive = watched(load, [b"a", b"b"])
    for queue in queues:
        queue.enqueue(batch, 0, 2)
    del batch
    for queue in queues:
        assert alive()
        queue.purge()
    assert not alive()


def test_one_message_that_stays_unacked_does_not_keep_what_came_after_it() -> None:
    """Checked in the plain queue, whose internals are accessible."""
    queue = load_plain(NAME).Queue(0, None)
    batch = batch_of(load_plain, [b"a"])
    queue.enqueue(batch, 0, 1)
    assert [item.sequence for item in queue.pop(1, 1000, False)] == [0]
    for sequence in range(1, 3000):
        queue.enqueue(batch, 0, 1)
        assert [item.sequence for item in queue.pop(1, 1000, False)] == [sequence]
        if sequence % 100:
            queue.settle(sequence, 1)
    assert queue.unacked == 30
    assert len(queue.segments) < 200
    queue.requeue(0, 1)
    queue.requeue(500, 1)
    assert [item.sequence for item in queue.pop(5, 1000, False)] == [0, 500]


@both_ways
def test_order_and_redelivery(load: Load) -> None:
    queue = load(NAME).Queue(0, None)
    queue.enqueue(batch_of(load, [b"a", b"b", b"c", b"d"]), 0, 4)
    assert messages_of(queue.pop(3, 1000, False)) == [(0, b"a", False), (1, b"b", False), (2, b"c", False)]
    queue.requeue(2, 1)
    queue.requeue(0, 1)
    assert messages_of(queue.pop(9, 1000, False)) == [(0, b"a", True), (2, b"c", True), (3, b"d", False)]


@both_ways
def test_what_is_in_hand_can_be_sent_again(load: Load) -> None:
    queue = load(NAME).Queue(0, None)
    queue.enqueue(batch_of(load, [b"a", b"b", b"c"]), 0, 3)
    queue.enqueue(batch_of(load, [b"d", b"e"]), 0, 2)
    queue.pop(5, 1000, False)
    queue.settle(0, 1)
    unacked = load("penstock.batch.ranges_cy").RangeSet()
    unacked.add(1, 3)
    again = queue.again(unacked)
    assert messages_of(again) == [(1, b"b", True), (2, b"c", True), (3, b"d", True)]
    assert [item.body_bytes for item in again] == [2, 1]
    assert (queue.unacked, queue.ready, queue.totals.delivered, queue.totals.redelivered) == (4, 0, 8, 3)


@both_ways
def test_a_message_larger_than_the_limit_goes_alone(load: Load) -> None:
    queue = load(NAME).Queue(0, None)
    queue.enqueue(batch_of(load, [b"large" * 9, b"", b"b"]), 0, 3)
    assert messages_of(queue.pop(3, 78, False)) == [(0, b"large" * 9, False)]
    assert messages_of(queue.pop(3, 0, False)) == [(1, b"", False)]


@pytest.mark.parametrize("count", [1, 5, 40, 500])
@both_ways
def test_many_batches_pass_through(load: Load, count: int) -> None:
    """The list of segments is cut meanwhile, and no message loses its place."""
    queue = load(NAME).Queue(0, None)
    expected = 0
    for turn in range(count * 3):
        queue.enqueue(batch_of(load, [b"%d" % (2 * turn), b"%d" % (2 * turn + 1)]), 0, 2)
        if turn >= count:
            for sequence, body, _ in messages_of(queue.pop(3, 1000, turn % 2 == 0)):
                assert (sequence, body) == (expected, b"%d" % expected)
                expected += 1
                if turn % 2:
                    queue.settle(sequence, 1)
    assert queue.ready == count * 6 - expected and queue.unacked == 0
