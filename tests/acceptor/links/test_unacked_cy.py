"""Delivery tags and their deliveries (AMQP 0-9-1, 3.1.8), compiled and plain, against a dict."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.batch.consumer_ids import GETS
from tests.twins import both_ways, load_compiled, load_plain

NAME = "acceptor.links.unacked_cy"
Load = Callable[[str], ModuleType]
LOADS = load_compiled, load_plain
ACK, REQUEUE, REJECT = 0, 1, 2
SHARDS = 3
WHOLE = 7
NOBODY = 0
"""The bytes that each message counts whole."""
# Ids of consumers on the bus; the lowest byte is the shard.
CONSUMERS = (0x0100, 0x0101, 0x0201, 2**56 + 2)
# (consumer, sequence number, kind), one a message
Settled = tuple[int, int, int]
Row = tuple[int, int, int, int]
Settlement = tuple[int, int, bool]

kinds = st.sampled_from([ACK, REQUEUE, REJECT])


def packed(settlements: list[Settlement]) -> bytearray:
    """Return rows as `scan_cy.SettleRun` makes them of (tag, kind, multiple); a run has room behind its last row."""
    return bytearray(b"".join(struct.pack("<QII", *settlement) for settlement in settlements) + b"\xff" * 48)


def rows_of(builder: Any) -> list[Row]:
    """Return the rows (consumer, sequence, count, kind) of a finished `Settlements`."""
    assert len(builder) == builder.count
    rows = list(struct.iter_unpack("<QQII", builder.finish()))
    assert len(rows) == builder.count
    assert all(count > 0 for _, _, count, _ in rows)
    return rows


def merged(settled: list[Settled]) -> list[Row]:
    """Return the rows sent to one shard: neighbours of one consumer and one kind are one row."""
    rows: list[Row] = []
    for consumer, sequence, kind in settled:
        if rows:
            last, first, count, fate = rows[-1]
            if (last, first + count, fate) == (consumer, sequence, kind):
                rows[-1] = last, first, count + 1, fate
                continue
        rows.append((consumer, sequence, 1, kind))
    return rows


def settle(load: Load, tags: Any, settlements: list[Settlement]) -> tuple[int, list[list[Row]]]:
    builders = [load(NAME).Settlements() for _ in range(SHARDS)]
    unknown = tags.settle(packed(settlements), len(settlements), builders)
    return unknown, [rows_of(builder) for builder in builders]


class Tags(RuleBasedStateMachine):
    """The model: the consumer and the sequence number of each unsettled tag."""

    @initialize()
    def start(self) -> None:
        self.tags = {load: load(NAME).UnackedTags() for load in LOADS}
        self.model: dict[int, tuple[int, int]] = {}
        self.next_tag = 1
        self.sequences = dict.fromkeys(CONSUMERS, 0)
        self.journals = {load: bytearray() for load in LOADS}
        self.noted: dict[int, tuple[int, int]] = {}

    def both(self, call: Callable[[Any], Any]) -> Any:
        compiled, plain = (call(tags) for tags in self.tags.values())
        assert compiled == plain
        return compiled

    @rule(consumer=st.sampled_from(CONSUMERS), count=st.integers(1, 9), gap=st.integers(0, 2))
    def deliver(self, consumer: int, count: int, gap: int) -> None:
        sequence = self.sequences[consumer] + gap
        self.sequences[consumer] = sequence + count
        assert self.both(lambda tags: tags.deliver(consumer, sequence, count, 0, WHOLE * count)) == self.next_tag
        self.model.update((self.next_tag + i, (consumer, sequence + i)) for i in range(count))
        self.next_tag += count

    @rule(consumer=st.sampled_from(CONSUMERS), count=st.integers(50, 100))
    def deliver_many(self, consumer: int, count: int) -> None:
        """Deliver single messages, enough for the rows to move."""
        for _ in range(count):
            self.deliver(consumer, 1, 1)

    @rule(consumer=st.sampled_from(CONSUMERS), count=st.integers(1, 5))
    def redeliver(self, consumer: int, count: int) -> None:
        """Deliver requeued messages again, with a lower sequence number than the last."""
        sequence = max(self.sequences[consumer] - count, 0)
        assert self.both(lambda tags: tags.deliver(consumer, sequence, count, 0, WHOLE * count)) == self.next_tag
        self.model.update((self.next_tag + i, (consumer, sequence + i)) for i in range(count))
        self.next_tag += count

    @rule(ids=st.sets(st.sampled_from(CONSUMERS), max_size=2))
    def leave(self, ids: set[int]) -> None:
        """Have consumers leave their unacked messages to others; the tags are still known."""
        self.both(lambda tags: tags.leave(ids))
        self.model |= {tag: (NOBODY, facts[1]) for tag, facts in self.model.items() if facts[0] in ids}

    @rule(count=st.integers(1, 9))
    def skip(self, count: int) -> None:
        assert self.both(lambda tags: tags.skip(count)) == self.next_tag
        self.next_tag += count

    def expect(self, settlements: list[Settlement]) -> tuple[int, list[Settled]]:
        """Return the first unknown tag or -1, and the settled messages before it, in order."""
        settled: list[Settled] = []
        for tag, kind, multiple in settlements:
            if multiple and tag == 0:
                fall = sorted(self.model)
            elif tag not in self.model:
                return tag, settled
            else:
                fall = [each for each in sorted(self.model) if each == tag or (multiple and each < tag)]
            settled += [(*facts, kind) for facts in map(self.model.pop, fall) if facts[0] != NOBODY]
        return -1, settled

    def settle(self, settlements: list[Settlement]) -> None:
        unknown, settled = self.expect(settlements)
        expected = unknown, [merged([s for s in settled if s[0] & 255 == shard]) for shard in range(SHARDS)]
        for load, tags in self.tags.items():
            assert settle(load, tags, settlements) == expected

    @rule(settlements=st.lists(st.tuples(st.integers(0, 200), kinds, st.booleans()), min_size=1, max_size=5))
    def settle_any(self, settlements: list[Settlement]) -> None:
        """Settle tags counted back from the newest, among them unknown and settled ones."""
        self.settle([(max(self.next_tag - back, 0), kind, multiple) for back, kind, multiple in settlements])

    @precondition(lambda self: self.model)
    @rule(choices=st.lists(st.tuples(st.integers(0, 300), kinds, st.sampled_from([False] * 5 + [True])), min_size=1))
    def settle_outstanding(self, choices: list[tuple[int, int, bool]]) -> None:
        known = sorted(self.model)
        self.settle([(known[which % len(known)], kind, multiple) for which, kind, multiple in choices])

    @precondition(lambda self: self.model)
    @rule(kind=kinds, every=st.integers(1, 4), backwards=st.booleans())
    def settle_one_by_one(self, kind: int, every: int, backwards: bool) -> None:
        tags = sorted(self.model, reverse=backwards)[::every]
        self.settle([(tag, kind, False) for tag in tags])

    @precondition(lambda self: self.model)
    @rule(choices=st.lists(st.tuples(st.integers(0, 300), kinds, st.booleans()), min_size=1, max_size=4))
    def settle_in_a_transaction(self, choices: list[tuple[int, int, bool]]) -> None:
        known = sorted(self.model)
        settlements = [(known[which % len(known)], kind, multiple) for which, kind, multiple in choices]
        before = dict(self.model)
        unknown, _ = self.expect(settlements)
        for load, tags in self.tags.items():
            builders = [load(NAME).Settlements() for _ in range(SHARDS)]
            found = tags.settle_noted(packed(settlements), len(settlements), builders, self.journals[load])
            assert found == unknown
            noted = struct.iter_unpack("<QQQIIQ", self.journals[load])
            assert all(whole == WHOLE * count for _, _, _, count, _, whole in noted)
        self.noted |= {tag: before[tag] for tag in before.keys() - self.model.keys()}

    @rule()
    def take_back(self) -> None:
        """Roll back a transaction: the messages it settled are unsettled again."""
        for load, tags in self.tags.items():
            tags.restore(self.journals[load])
            self.journals[load].clear()
        self.model |= self.noted
        self.noted.clear()

    @rule(kind=kinds)
    def settle_all(self, kind: int) -> None:
        expected = self.expect([(0, kind, True)])[1]
        for load, tags in self.tags.items():
            builders = [load(NAME).Settlements() for _ in range(SHARDS)]
            tags.settle_all(kind, builders)
            for shard, builder in enumerate(builders):
                assert rows_of(builder) == merged([s for s in expected if s[0] & 255 == shard])

    @rule(shard=st.integers(0, SHARDS - 1))
    def hold(self, shard: int) -> None:
        """Check the unacked messages that would be reported to a shard."""
        left = [facts for _, facts in sorted(self.model.items()) if facts[0] != NOBODY]
        outstanding = [(*facts, 0) for facts in left if facts[0] & 255 == shard]
        for load, tags in self.tags.items():
            held = load(NAME).Settlements()
            tags.hold(shard, held)
            assert held.consumers() == {consumer for consumer, _, _ in outstanding}
            assert rows_of(held) == merged(outstanding)

    @invariant()
    def same(self) -> None:
        count = len(self.model)
        assert self.both(lambda tags: (len(tags), tags.total, tags.next_tag)) == (count, count, self.next_tag)
        assert self.both(lambda tags: tags.whole) == WHOLE * count


TestTags = Tags.TestCase
TestTags.settings = settings(max_examples=60, stateful_step_count=30)


@both_ways
def test_settlements_of_one_consumer_merge_across_its_deliveries(load: Load) -> None:
    tags = load(NAME).UnackedTags()
    for sequence in 0, 5, 10:
        tags.deliver(0x0100, sequence, 5)
    assert settle(load, tags, [(tag, ACK, False) for tag in range(1, 16)]) == (-1, [[(0x0100, 0, 15, ACK)], [], []])
    assert len(tags) == 0


@both_ways
def test_each_shard_is_told_of_its_own(load: Load) -> None:
    tags = load(NAME).UnackedTags()
    for i in range(4):
        tags.deliver(0x0100 + i % 2, i, 1)
    tags.skip(10)
    assert settle(load, tags, [(4, REQUEUE, True)]) == (
        -1,
        [[(0x0100, 0, 1, REQUEUE), (0x0100, 2, 1, REQUEUE)], [(0x0101, 1, 1, REQUEUE), (0x0101, 3, 1, REQUEUE)], []],
    )


@pytest.mark.parametrize(
    ("settlement", "unknown"),
    [((9, ACK, False), 9), ((9, ACK, True), 9), ((0, ACK, False), 0), ((2, REJECT, False), 2), ((4, ACK, True), 4)],
)
@both_ways
def test_an_unknown_tag_ends_it_and_what_came_before_counts(load: Load, settlement: Settlement, unknown: int) -> None:
    """A settled tag is unknown, and so is that of a delivery that needs no settling (1.8.3.13)."""
    tags = load(NAME).UnackedTags()
    tags.deliver(0x0100, 0, 3)
    tags.skip(2)
    settlements = [(2, ACK, False), settlement, (3, ACK, False)]
    assert settle(load, tags, settlements) == (unknown, [[(0x0100, 1, 1, ACK)], [], []])
    assert len(tags) == 2


@pytest.mark.parametrize("tag", [2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
@both_ways
def test_the_largest_tags_are_unknown(load: Load, tag: int, multiple: bool) -> None:
    tags = load(NAME).UnackedTags()
    tags.deliver(0x0100, 0, 3)
    unknown, rows = settle(load, tags, [(tag, ACK, multiple)])
    assert unknown & 2**64 - 1 == tag
    assert rows == [[], [], []] and len(tags) == 3


@both_ways
def test_acknowledging_everything_when_there_is_nothing(load: Load) -> None:
    """Tag 0 with multiple means everything outstanding, even if that is nothing (1.8.3.13)."""
    assert settle(load, load(NAME).UnackedTags(), [(0, ACK, True)]) == (-1, [[], [], []])


def test_one_delivery_that_stays_unsettled_does_not_keep_those_behind_it() -> None:
    """Checked in the plain object, whose internals are accessible."""
    tags = load_plain(NAME).UnackedTags()
    tags.deliver(0x0100, 0, 1)
    for tag in range(2, 3000):
        assert tags.deliver(0x0100, tag, 1) == tag
        if tag % 100:
            assert settle(load_plain, tags, [(tag, ACK, False)])[0] == -1
    assert len(tags) == 30
    assert len(tags.rows) < 32 * 200
    assert settle(load_plain, tags, [(500, ACK, False), (1, ACK, False)])[1][0] == [
        (0x100, 500, 1, 0),
        (0x100, 0, 1, 0),
    ]


@pytest.mark.parametrize("requeues", [False, True])
@both_ways
def test_settlements_are_gathered_with_or_without_what_is_requeued(load: Load, requeues: bool) -> None:
    tags = load(NAME).UnackedTags()
    tags.deliver(0x0100, 0, 6)
    builders = [load(NAME).Settlements()]
    run = [(2, ACK, True), (3, REQUEUE, False), (6, REJECT, True)]
    assert tags.settle(packed(run), len(run), builders) == -1
    gathered = load(NAME).Settlements()
    for _ in range(2):
        gathered.extend(builders[0], requeues)
    rows = [(0x100, 0, 2, ACK), *[(0x100, 2, 1, REQUEUE)][: int(requeues)], (0x100, 3, 3, REJECT)]
    assert rows_of(gathered) == rows * 2
    held = load(NAME).Settlements()
    held.extend_held(builders[0])
    assert rows_of(held) == [(0x100, 0, 6, ACK)]
    returned = load(NAME).Settlements()
    returned.extend_returned(builders[0])
    assert rows_of(returned) == [(0x100, 2, 1, REQUEUE)]
    assert rows_of(builders[0]) == [(0x100, 0, 2, ACK), (0x100, 2, 1, REQUEUE), (0x100, 3, 3, REJECT)]


@both_ways
def test_acks_are_counted_and_those_of_a_transaction_until_it_is_undone(load: Load) -> None:
    module, journal = load(NAME), bytearray()
    tags = module.UnackedTags()
    tags.deliver(0x100, 0, 9)
    settle(load, tags, [(2, ACK, True), (3, REQUEUE, False), (4, REJECT, False), (6, ACK, False), (99, ACK, False)])
    assert tags.acked == 3
    run = [(7, ACK, True), (8, REJECT, False)]
    tags.settle_noted(packed(run), len(run), [module.Settlements() for _ in range(SHARDS)], journal)
    assert tags.acked == 5
    tags.restore(journal)
    assert (tags.acked, tags.total) == (3, 4)


@both_ways
def test_rows_of_some_consumers_go_by_another_shard(load: Load) -> None:
    """Rows change in the table, in pending settlements, and in the journal of a transaction."""
    module, journal = load(NAME), bytearray()
    gets = GETS | 0x300
    tags = module.UnackedTags()
    for consumer in (0x100, 0x200, gets):
        tags.deliver(consumer, 10, 3)
    tags.readdress({0x100, gets}, 2)
    held = module.Settlements()
    tags.hold_of({0x102}, held)
    assert rows_of(held) == [(0x102, 10, 3, ACK)]
    builders = [module.Settlements() for _ in range(SHARDS)]
    run = [(9, REQUEUE, True)]
    assert tags.settle_noted(packed(run), len(run), builders, journal) == -1
    taken = builders[2].take_out({0x102}, 1)
    assert rows_of(taken) == [(0x101, 10, 3, REQUEUE)]
    assert not builders[2].take_out({0x102}, 1)
    assert rows_of(builders[0]) == [(0x200, 10, 3, REQUEUE)]
    assert rows_of(builders[2]) == [(gets | 2, 10, 3, REQUEUE)]
    module.readdress_rows(journal, 0, len(journal) // module.ROW_BYTES, {0x102}, 1)
    tags.restore(journal)
    held = module.Settlements()
    tags.hold(1, held)
    assert rows_of(held) == [(0x101, 10, 3, ACK)]
