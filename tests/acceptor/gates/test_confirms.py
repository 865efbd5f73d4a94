"""Publisher confirms (RabbitMQ's extension) by ranges: each sent once, correctly, and not too early."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acceptor.gates.queue_gate import QueueGate
from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges
from tests import frames
from tests.twins import load_plain

NAME = "acceptor.gates.confirms"
Load = Callable[[str], ModuleType]
# The module is plain Python: only the modules under it differ.
LOADS: tuple[Load, Load] = import_module, load_plain
on_both = pytest.mark.parametrize("load", LOADS, ids=["compiled", "plain"])
CHANNEL = 3
QUEUES = 4


class Publisher:
    """A client's side: the tags that wait for their confirms. `done` is the broker's truth, tag to sign."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        self.done: dict[int, bool] = {}
        self.answered: dict[int, bool] = {}

    def receive(self, data: bytes) -> int:
        """Receive confirms and return the number of frames. AssertionError if one is wrong or repeated."""
        count, at = 0, 0
        while at < len(data):
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            event = frames.parse_method(CHANNEL, data[at + 7 : at + 7 + size])
            at += size + 8
            count += 1
            tags = (
                {tag for tag in self.waiting if tag <= event.delivery_tag} if event.multiple else {event.delivery_tag}
            )
            assert tags <= self.waiting, "told twice, or never published"
            assert tags <= self.done.keys(), "told before its time"
            ack = event.name == "basic.ack"
            assert all(self.done[tag] is ack for tag in tags), "told the opposite"
            self.answered.update(dict.fromkeys(tags, ack))
            self.waiting -= tags
        return count


class Waiter:
    """A span's calls to its channel: how often it was complete, and where confirms are withheld now."""

    def __init__(self) -> None:
        self.woken = 0
        self.held: list[QueueGate] = []

    def confirmed(self) -> None:
        self.woken += 1

    def withholds(self, queue_gate: QueueGate) -> bool:
        return True

    def withheld_at(self, gate: QueueGate) -> None:
        self.held.append(gate)

    def no_longer_withheld(self) -> None:
        self.held.pop()


class Channel:
    """The confirms of one channel and their output."""

    def __init__(self, load: Load) -> None:
        self.confirms = load(NAME).Confirms()
        self.output = load("penstock.amqp.encode_cy").Output()
        self.publisher = Publisher()

    def publish(self, count: int) -> int:
        first: int = self.confirms.number(count)
        self.publisher.waiting.update(range(first, first + count))
        return first

    def complete(self, first: int, count: int, negative: bool) -> None:
        self.publisher.done.update(dict.fromkeys(range(first, first + count), not negative))
        self.confirms.complete(first, count, negative)

    def write(self) -> int:
        """Write the confirms of everything that is done; return the number of frames."""
        self.confirms.write(CHANNEL, self.output)
        tags = self.publisher.receive(b"".join(self.output.pop_chunks()))
        assert self.publisher.answered == self.publisher.done
        return tags


@given(
    spans=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=25),
    order=st.randoms(use_true_random=False),
    every=st.integers(1, 6),
)
@on_both
def test_every_tag_is_told_once_and_rightly(load: Load, spans: list[tuple[int, bool]], order: Any, every: int) -> None:
    """Spans complete in any order, and any number of them before a turn ends."""
    channel = Channel(load)
    ranges = [(channel.publish(count), count, negative) for count, negative in spans]
    order.shuffle(ranges)
    for at, (first, count, negative) in enumerate(ranges, 1):
        channel.complete(first, count, negative)
        if at % every == 0:
            channel.write()
    channel.write()
    assert not channel.publisher.waiting
    assert channel.confirms.lowest == channel.confirms.next_tag
    assert channel.write() == 0


@on_both
def test_what_is_done_in_order_is_one_frame(load: Load) -> None:
    channel = Channel(load)
    ranges = [(channel.publish(count), count) for count in (5, 1, 700)]
    for first, count in reversed(ranges):
        channel.complete(first, count, False)
    assert channel.write() == 1
    channel.complete(channel.publish(3), 3, False)
    assert channel.write() == 1


@on_both
def test_beyond_a_gap_each_is_told_alone_and_the_gap_closes_it(load: Load) -> None:
    channel = Channel(load)
    early, late = channel.publish(4), channel.publish(6)
    channel.complete(late, 6, False)
    assert channel.write() == 6
    assert channel.publisher.waiting == {1, 2, 3, 4}
    channel.complete(early, 4, False)
    assert channel.write() == 1
    assert channel.confirms.lowest == 11


@on_both
def test_the_refused_are_told_one_by_one_and_acks_go_on_behind_them(load: Load) -> None:
    channel = Channel(load)
    channel.publish(10)
    for first, count, negative in (1, 3, False), (4, 2, True), (6, 5, False):
        channel.complete(first, count, negative)
    assert channel.write() == 3
    assert [tag for tag, ack in channel.publisher.answered.items() if not ack] == [4, 5]


@contextmanager
def gauges() -> Iterator[Gauges]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "gauges"
        with Gauges.create(path, epoch=1, acceptors=1, shards=1, queues=QUEUES, pid=os.getpid()) as made:
            yield made


def queue_gate(made: Gauges, slot: int) -> QueueGate:
    made.queue_open(slot, slot, "/", f"q{slot}", 0)
    return QueueGate(made, 1, slot, slot, "/", f"q{slot}", QueueLimits(10, None, "flow", Marks(8, 7)))


def saturate(made: Gauges, slot: int, saturated: bool) -> None:
    """Set the flag in the gauges, as the shard does before it notifies anyone."""
    made.queue_write(slot, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, saturated, 0, 8, 7, 0, 0)


class Spans(RuleBasedStateMachine):
    """Runs of publishes go to some shards and queues; shards take them in or refuse some; queues fill and empty."""

    @initialize(load=st.sampled_from(LOADS))
    def start(self, load: Load) -> None:
        self.load = load
        self.entered = gauges()
        self.gauges = self.entered.__enter__()
        self.queue_gates = [queue_gate(self.gauges, slot) for slot in range(1, QUEUES + 1)]
        self.full: set[int] = set()
        self.channel = Channel(load)
        self.waiter = Waiter()
        # Per span: the real one, first tag, count, shards that it is in flight to, queue gates, refused tags.
        self.spans: list[dict[str, Any]] = []
        self.wakes = 0

    def teardown(self) -> None:
        if hasattr(self, "entered"):
            self.entered.__exit__(None, None, None)

    def done_with(self, span: dict[str, Any]) -> None:
        """Record the tags that may be confirmed now: those that have left every queue at which the span waits."""
        if span["shards"] or span["done"]:
            return
        tags = set(range(span["first"], span["first"] + span["count"]))
        answered = {tag for tag in tags if all(tag in span["left"][queue] for queue in span["held"])}
        span["done"] = answered == tags
        new = answered - span["confirmed"]
        span["confirmed"] |= answered
        self.wakes += bool(new)
        self.channel.publisher.done.update({tag: tag not in span["refused"] for tag in new})

    @rule(count=st.integers(1, 6), shards=st.integers(1, 3), queue_gates=st.sets(st.integers(0, QUEUES - 1)))
    def publish(self, count: int, shards: int, queue_gates: set[int]) -> None:
        first = self.channel.publish(count)
        through = [self.queue_gates[i] for i in sorted(queue_gates)]
        made = self.load(NAME).Span(self.channel.confirms, first, count, shards, through, self.waiter)
        self.spans.append(
            {
                "span": made, "first": first, "count": count, "shards": shards, "queue_gates": queue_gates,
                "held": set(), "refused": set(), "done": False, "confirmed": set(),
                "left": [set() for _ in range(QUEUES)],
            }
        )  # fmt: skip

    def under_way(self) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["shards"]]

    @precondition(lambda self: self.under_way())
    @rule(which=st.integers(0, 20), at=st.integers(0, 5), count=st.integers(1, 6))
    def refuse(self, which: int, at: int, count: int) -> None:
        """Have a queue refuse some messages, perhaps the same ones as another queue."""
        span = self.under_way()[which % len(self.under_way())]
        offset = at % span["count"]
        count = min(count, span["count"] - offset)
        span["refused"].update(range(span["first"] + offset, span["first"] + offset + count))
        span["span"].reject(offset, count)

    @precondition(lambda self: self.under_way())
    @rule(which=st.integers(0, 20))
    def take_in(self, which: int) -> None:
        span = self.under_way()[which % len(self.under_way())]
        span["shards"] -= 1
        if not span["shards"]:
            span["held"] = span["queue_gates"] & self.full
        self.done_with(span)
        span["span"].settle_one()

    @rule(queue=st.integers(0, QUEUES - 1))
    def fill(self, queue: int) -> None:
        self.full.add(queue)
        saturate(self.gauges, queue + 1, True)

    @precondition(lambda self: self.full)
    @rule(which=st.integers(0, QUEUES - 1))
    def resume(self, which: int) -> None:
        queue = sorted(self.full)[which % len(self.full)]
        self.full.discard(queue)
        saturate(self.gauges, queue + 1, False)
        for span in self.spans:
            if queue in span["held"]:
                span["held"].discard(queue)
                self.done_with(span)
        self.queue_gates[queue].release_withheld()

    @precondition(lambda self: self.spans)
    @rule(which=st.integers(0, 20), queue=st.integers(0, QUEUES - 1), at=st.integers(0, 5), count=st.integers(1, 6))
    def leave(self, which: int, queue: int, at: int, count: int) -> None:
        """Have some messages leave one of their queues, reported before or after all shards have taken them in."""
        span = self.spans[which % len(self.spans)]
        offset = at % span["count"]
        low = span["first"] + offset
        tags = set(range(low, min(low + count, span["first"] + span["count"]))) - span["refused"]
        if queue in span["queue_gates"] and tags == set(range(low, low + len(tags))) and not tags & span["left"][queue]:
            span["left"][queue] |= tags
            self.done_with(span)
            span["span"].leave(self.queue_gates[queue], offset, len(tags))

    @rule()
    def write(self) -> None:
        self.channel.write()

    @invariant()
    def woken_for_each_that_is_done(self) -> None:
        if hasattr(self, "spans"):
            assert self.waiter.woken == self.wakes
            for slot, each in enumerate(self.queue_gates):
                held = [span["span"] for span in self.spans if slot in span["held"] and not span["done"]]
                waiting = [span for span in each.withheld if not span.done]
                assert len(waiting) == len(held) and all(span in waiting for span in held)


TestSpans = Spans.TestCase
TestSpans.settings = settings(max_examples=40, stateful_step_count=30)


@on_both
def test_a_confirm_is_withheld_until_the_last_of_its_queues_has_room(load: Load) -> None:
    with gauges() as made:
        through = [queue_gate(made, slot) for slot in (1, 2, 3)]
        for slot in 1, 2:
            saturate(made, slot, True)
        channel, waiter = Channel(load), Waiter()
        span = load(NAME).Span(channel.confirms, channel.publish(5), 5, 2, through, waiter)
        span.settle_one()
        assert [len(each.withheld) for each in through] == [0, 0, 0]
        span.settle_one()
        assert [len(each.withheld) for each in through] == [1, 1, 0]
        assert waiter.held == [through[0]]
        saturate(made, 3, True)
        through[0].release_withheld()
        assert not waiter.woken and channel.write() == 0
        through[1].release_withheld()
        through[1].release_withheld()
        assert (waiter.woken, waiter.held) == (1, [])
        channel.publisher.done.update(dict.fromkeys(range(1, 6), True))
        assert channel.write() == 1


@on_both
def test_a_confirm_that_waits_for_nobody_is_not_withheld(load: Load) -> None:
    channel, waiter = Channel(load), Waiter()
    span = load(NAME).Span(channel.confirms, channel.publish(2), 2, 1, (), waiter)
    channel.publisher.done.update({1: True, 2: True})
    span.settle_one()
    assert waiter.woken == 1 and channel.write() == 1
