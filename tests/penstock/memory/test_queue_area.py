"""Queues in the gauges: opening, writing, reading and closing their records, gates included."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.memory.gauges import Gauges, QueueCounters, QueueGauge, QueueMarks
from penstock.memory.layout import LAYOUT
from tests.penstock.memory.gauges_file import (
    NAMES_SIZE,
    SHARDS,
    SLOT_SIZE,
    SLOTS,
    break_off,
    make,
    reading,
    row,
    word,
    words,
)

depths = st.integers(0, 2**62)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=255).filter(lambda name: len(name.encode()) <= 255)


@pytest.mark.parametrize("slot", [-1, SLOTS, 2**40, -(2**40)])
def test_slots_out_of_range(gauges: Gauges, slot: int) -> None:
    uses: list[Callable[[], object]] = [
        lambda: gauges.queue_open(slot, 1, "", "", 1),
        lambda: gauges.queue_close(slot),
        lambda: gauges.queue_write(slot, *row(1)),
        lambda: gauges.queue_read(slot),
        lambda: gauges.saturated(slot),
        lambda: gauges.flow_epoch(slot),
        lambda: gauges.depth_count(slot),
        lambda: gauges.depth_bytes(slot),
    ]
    for use in uses:
        with pytest.raises(IndexError, match=f"queue slot {slot} of {SLOTS}"):
            use()


def test_only_open_slots_are_written(gauges: Gauges) -> None:
    for slot in (60, 3):  # one in a chunk without memory, one beside the gates
        with pytest.raises(ValueError, match=f"slot {slot} is not open"):
            gauges.queue_write(slot, *row(1))
        gauges.queue_close(slot)
    assert list(gauges.queue_slots()) == [0, 1]


@pytest.mark.parametrize(("vhost", "name"), [("v" * 256, ""), ("", "n" * 256), ("", "ü" * 128)])
def test_names_longer_than_short_strings(gauges: Gauges, vhost: str, name: str) -> None:
    with pytest.raises(ValueError, match="the most is 255"):
        gauges.queue_open(9, 1, vhost, name, 1)
    assert gauges.queue_read(9) is None


def test_queues_by_id_are_those_that_are_open_without_the_gates(gauges: Gauges) -> None:
    assert gauges.queues_by_id() == {}
    for slot, id in ((9, 5), (4, 7)):
        gauges.queue_open(slot, id, "/", f"q{id}", 1)
    assert {id: gauge.name for id, gauge in gauges.queues_by_id().items()} == {5: "q5", 7: "q7"}


def test_names_that_are_not_utf_8(gauges: Gauges) -> None:
    gauges.queue_open(9, 1, "/", b"caf\xe9".decode("utf-8", "surrogateescape"), 1)
    gauge = gauges.queue_read(9)
    assert gauge is not None and gauge.name == "caf\ufffd"


@given(
    vhost=names,
    name=names,
    id=words,
    since=words,
    depth=st.tuples(*[depths] * 4),
    rest=st.tuples(*[words] * 17),
    whole=depths,
)
def test_queue_round_trip(
    pair: tuple[Gauges, Gauges],
    vhost: str,
    name: str,
    id: int,
    since: int,
    depth: tuple[int, ...],
    rest: tuple[int, ...],
    whole: int,
) -> None:
    one, other = pair
    one.queue_open(40, id, vhost, name, since)
    sums = {"published_bytes": rest[14], "delivered_bytes": rest[15], "whole_bytes": whole}
    one.queue_write(40, *depth, *rest[:14], **sums, lagging=rest[16], reserve=depth[0])
    consumers, epoch, saturated, changed = rest[5:9]
    found = other.queue_read(40)
    assert found is not None
    assert (type(found), type(found.counters), type(found.marks)) == (QueueGauge, QueueCounters, QueueMarks)
    assert found == reading(
        queue_id=id, vhost=vhost, name=name, since_us=since,
        ready=depth[0], unacked=depth[1], ready_bytes=depth[2], unacked_bytes=depth[3], whole_bytes=whole,
        counters=QueueCounters(*rest[:5], *rest[14:16]), marks=QueueMarks(*rest[9:13]),
        consumers=consumers, flow_epoch=epoch, saturated=saturated != 0, saturated_since_us=changed,
        aside=rest[13] != 0, lagging=rest[16] != 0, reserve=min(depth[0], 2**32 - 1),
    )  # fmt: skip
    assert (other.saturated(40), other.aside(40)) == (rest[7] != 0, rest[13] != 0)
    assert other.flow_epoch(40) == rest[6]
    assert (other.depth_count(40), other.depth_bytes(40)) == (depth[0] + depth[1], whole)


def test_queues_that_were_written_are_told_once(gauges: Gauges) -> None:
    seen = memoryview(bytearray(8 * SLOTS)).cast("Q")
    assert gauges.queues_written(seen) == []
    for slot in (SHARDS, 40, SLOTS - 1):
        gauges.queue_open(slot, slot, "/", "q", 1)
    assert gauges.queues_written(seen) == [SHARDS, 40, SLOTS - 1]
    assert gauges.queues_written(seen) == []
    gauges.queue_write(40, *row(0, saturated=0))
    gauges.queue_close(SLOTS - 1)
    assert gauges.queues_written(seen) == [40, SLOTS - 1]
    assert gauges.queues_written(seen) == []
    with pytest.raises(ValueError, match=f"9 words for {SLOTS} slots"):
        gauges.queues_written(memoryview(bytearray(72)).cast("Q"))


def test_a_gate_says_why_it_is_saturated(gauges: Gauges) -> None:
    gauges.queue_open(1, 0, "", "", 17)
    gauges.gate_explain(1, "its store is full: 80 of 80 GiB")
    gauges.queue_write(1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 1, 20, 0, 0, 9, 8)
    gate = gauges.queue_read(1)
    assert gate is not None
    assert (gate.name, gate.saturated, gate.ready_bytes) == ("its store is full: 80 of 80 GiB", True, 5)
    gauges.gate_explain(1, "x" * 300)
    gate = gauges.queue_read(1)
    assert gate is not None and gate.name == "x" * 255
    gauges.gate_explain(1, "")
    gate = gauges.queue_read(1)
    assert gate is not None and (gate.vhost, gate.name, gate.since_us) == ("", "", 17)


def test_the_next_incarnation_of_a_shard_finds_flag_and_depths_of_its_queue(gauges: Gauges) -> None:
    """No publish gets in between the opening of the record and its first write."""
    gauges.queue_open(5, 1, "v", "n", 1)
    gauges.queue_write(5, *row(9))
    seen = gauges.flow(5)
    assert seen == (True, True, 18, 18)
    gauges.queue_open(5, 1, "v", "n", 2)
    assert gauges.flow(5) == seen
    found = gauges.queue_read(5)
    assert found is not None
    assert (found.ready, found.counters.published, found.since_us, found.flow_epoch) == (0, 0, 2, 9)
    gauges.queue_close(5)
    gauges.queue_open(5, 1, "v", "n", 3)
    assert gauges.flow(5) == (False, False, 0, 0)


def test_opening_again_begins_anew_but_for_the_epoch(gauges: Gauges) -> None:
    gauges.queue_open(5, 1, "a long vhost", "a long name", 1)
    gauges.queue_write(5, *row(9))
    gauges.queue_write_peak(5, 9, 9)
    gauges.queue_write_lent(5, 2**40, 2**50)
    noted = gauges.queue_read(5)
    assert noted is not None and (noted.lent_count, noted.lent_bytes) == (2**32 - 1, (2**32 - 1) * 1024)
    gauges.queue_open(5, 2, "v", "n", 2)
    assert gauges.queue_read(5) == reading(queue_id=2, vhost="v", name="n", flow_epoch=9, since_us=2)
    assert (gauges.depth_count(5), gauges.depth_bytes(5), gauges.saturated(5)) == (0, 0, False)
    gauges.queue_write(5, *row(10))
    gauges.queue_close(5)
    assert gauges.queue_read(5) is None
    assert (gauges.depth_count(5), gauges.saturated(5), gauges.flow_epoch(5)) == (0, False, 10)


class Slots(RuleBasedStateMachine):
    """Opening, writing and closing in any order, compared with a dictionary through another mapping."""

    @initialize()
    def create(self) -> None:
        self.directory = tempfile.TemporaryDirectory(dir="/dev/shm")
        path = Path(self.directory.name) / "model.gauges"
        self.writer, self.reader = make(path), Gauges.open(path, writable=False)
        self.open: dict[int, tuple[int, str, int]] = {0: (0, "", 0), 1: (0, "", 0)}
        self.depths: dict[int, int] = {}

    def teardown(self) -> None:
        self.writer.close()
        self.reader.close()
        self.directory.cleanup()

    @rule(slot=st.integers(SHARDS, SLOTS - 1), id=st.integers(1, 9), name=names)
    def queue_open(self, slot: int, id: int, name: str) -> None:
        """Open a record; if it is of the same queue already, its depth stays until the next write."""
        self.writer.queue_open(slot, id, "/", name, 1)
        if slot in self.open and self.open[slot][0] != id:
            self.depths.pop(slot, None)
        self.open[slot] = (id, name, 0)

    @rule(slot=st.integers(SHARDS, SLOTS - 1))
    def queue_close(self, slot: int) -> None:
        self.writer.queue_close(slot)
        self.open.pop(slot, None)
        self.depths.pop(slot, None)

    @rule(data=st.data(), value=st.integers(0, 9))
    def queue_write(self, data: st.DataObject, value: int) -> None:
        slot = data.draw(st.sampled_from(sorted(self.open)))
        self.writer.queue_write(slot, *row(value))
        self.open[slot] = (*self.open[slot][:2], value)
        self.depths[slot] = 2 * value

    @invariant()
    def reader_sees_the_model(self) -> None:
        assert list(self.reader.queue_slots()) == sorted(self.open)
        for slot, record in self.open.items():
            seen = self.reader.queue_read(slot)
            assert seen is not None and (seen.queue_id, seen.name, seen.counters.acked) == record
            assert self.reader.depth_count(slot) == self.depths.get(slot, 0)


TestSlots = Slots.TestCase
TestSlots.settings = settings(max_examples=20, stateful_step_count=20)


def test_closing_while_slots_are_listed(gauges: Gauges) -> None:
    for slot in range(SLOTS):
        gauges.queue_open(slot, slot, "", "", 1)
    slots = gauges.queue_slots()
    assert next(slots) == 0
    gauges.close()
    with pytest.raises(ValueError, match="closed"):
        list(slots)


def test_a_queue_left_in_mid_write_is_torn_until_the_next_write(gauges: Gauges, path: Path) -> None:
    gauges.queue_open(9, 3, "v", "n", 1)
    gauges.queue_write(9, *row(5))
    block = gauges.queues_at + 9 * SLOT_SIZE
    break_off(path, block)
    word(path, block + LAYOUT["queue"]["ready"], 6)
    torn = gauges.queue_read(9)
    assert torn is not None and torn.torn
    assert (torn.ready, torn.unacked, torn.name) == (6, 5, "n")
    assert (gauges.depth_count(9), gauges.saturated(9)) == (10, True)
    assert list(gauges.queue_slots()) == [0, 1, 9]
    with Gauges.open(path) as successor:
        successor.queue_write(9, *row(7))
    mended = gauges.queue_read(9)
    assert mended is not None and not mended.torn and mended.ready == 7
    assert word(path, block) % 2 == 0


def test_names_left_in_mid_write_can_be_read(gauges: Gauges, path: Path) -> None:
    gauges.queue_open(9, 3, "v", "größe", 1)
    break_off(path, gauges.queues_at + 9 * SLOT_SIZE)
    word(path, gauges.names_at + 9 * NAMES_SIZE, 2**64 - 1)
    torn = gauges.queue_read(9)
    assert torn is not None and torn.torn and "\ufffd" in torn.vhost
    gauges.queue_open(9, 3, "v", "größe", 1)
    mended = gauges.queue_read(9)
    assert mended is not None and not mended.torn and mended.name == "größe"
