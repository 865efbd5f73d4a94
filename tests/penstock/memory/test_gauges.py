"""The gauges: misuse of any method, whole reads beside concurrent writers, and writers that die at work."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges, QueueGauge
from penstock.memory.mapped_file import MappedFile
from tests.penstock.memory.gauges_file import (
    SHARDS,
    SLOTS,
    row,
)
from tests.waiting import PATIENCE, wait_for

READS: list[Callable[[Gauges], object]] = [
    lambda g: g.pair_read_doing(0, 0, 1, 1),
    lambda g: g.finishing_read(0, 1),
    lambda g: g.topology_version(),
    lambda g: g.process_read("router", 0),
    lambda g: g.counters_read("shard", 0),
    lambda g: g.measures_read("shard", 0),
    lambda g: g.queues_written(memoryview(bytearray(8 * SLOTS)).cast("Q")),
    lambda g: g.pair_in_flight(0, 0),
    lambda g: g.queue_read(0),
    lambda g: list(g.queue_slots()),
    lambda g: g.saturated(0),
    lambda g: g.flow_epoch(0),
    lambda g: g.depth_count(0),
    lambda g: g.depth_bytes(0),
]
WRITES: list[Callable[[Gauges], object]] = [
    lambda g: g.set_topology_version(1),
    lambda g: g.process_write("router", 0, pid=1, incarnation=1, state=1, started_us=1, restarts=1),
    lambda g: g.counters_write("router", 0, *range(20)),
    lambda g: g.pair_add_sent(0, 0, 1),
    lambda g: g.pair_add_taken(0, 0, 1),
    lambda g: g.pair_write_safe(0, 0, 1, 1),
    lambda g: g.pair_write_doing(0, 0, 1, 1, 1),
    lambda g: g.pair_write_finishing(0, 0, 1, 1, 1),
    lambda g: g.finishing_write(0, 1, 1),
    lambda g: g.pair_reset_sent(0, 0),
    lambda g: g.queue_open(5, 1, "", "", 1),
    lambda g: g.queue_close(0),
    lambda g: g.queue_write(0, *row(1)),
    lambda g: g.queue_write_over(0, 1, 1),
    lambda g: g.queue_write_peak(0, 1, 1),
    lambda g: g.queue_write_lent(0, 1, 1),
]


@pytest.mark.parametrize("use", READS + WRITES)
def test_closed_gauges_say_so(gauges: Gauges, use: Callable[[Gauges], object]) -> None:
    gauges.close()
    gauges.close()
    with pytest.raises(ValueError, match="closed"):
        use(gauges)


@pytest.mark.parametrize("use", READS)
def test_reading_needs_no_right_to_write(gauges: Gauges, path: Path, use: Callable[[Gauges], object]) -> None:
    with Gauges.open(path, writable=False) as reader:
        assert use(reader) == use(gauges)


@pytest.mark.parametrize("use", WRITES)
def test_writing_needs_the_right_to(gauges: Gauges, path: Path, use: Callable[[Gauges], object]) -> None:
    with Gauges.open(path, writable=False) as reader, pytest.raises(ValueError, match="opened for reading"):
        use(reader)


def test_unknown_roles_and_numbers_that_do_not_fit(gauges: Gauges) -> None:
    with pytest.raises(ValueError, match="'clerk'"):
        gauges.process_read("clerk", 0)  # type: ignore[arg-type]
    for number in (-1, 2**64):
        with pytest.raises(OverflowError):
            gauges.queue_write(0, *row(number))
        with pytest.raises(OverflowError):
            gauges.set_topology_version(number)
    with pytest.raises(TypeError):
        Gauges()  # type: ignore[call-arg,unused-ignore]


def test_gates_are_open_from_the_start(gauges: Gauges) -> None:
    assert list(gauges.queue_slots()) == list(range(SHARDS))
    gauges.queue_write(1, *row(8))
    gate = gauges.queue_read(1)
    assert gate is not None
    assert (gate.queue_id, gate.vhost, gate.name, gate.since_us, gate.ready) == (0, "", "", 17, 8)
    assert [gauges.saturated(slot) for slot in range(SHARDS)] == [False, True]


WRITER = """
import sys
from penstock.memory.gauges import Gauges
gauges, k = Gauges.open(sys.argv[1]), 0
print("at work", flush=True)
while True:
    k += 1
    gauges.process_write("shard", 1, pid=k, incarnation=k, state=k, started_us=k, restarts=k)
    gauges.counters_write("shard", 1, *[k] * 20)
    gauges.queue_open(77, k, "v" * (k % 256), str(k) * 12, k)
    for _ in range(3):
        k += 1
        gauges.queue_write(77, *[k] * 17)
"""


@pytest.fixture
def writer(path: Path, gauges: Gauges) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"at work\n"
        yield process
        process.kill()


def check_queue(gauge: QueueGauge) -> None:
    """Check a record opened at step id with numbers 0, or written at one of the next three steps with that number."""
    opened = gauge.queue_id
    assert (gauge.vhost, gauge.name, gauge.since_us) == ("v" * (opened % 256), str(opened) * 12, opened)
    depth = (gauge.ready, gauge.unacked, gauge.ready_bytes, gauge.unacked_bytes)
    counters = gauge.counters._replace(published_bytes=gauge.ready, delivered_bytes=gauge.ready)  # not written
    assert {*depth, *counters, *gauge.marks, gauge.consumers, gauge.saturated_since_us} == {gauge.ready}
    if gauge.ready:
        assert opened < gauge.ready == gauge.flow_epoch <= opened + 3 and gauge.saturated
    else:
        assert gauge.flow_epoch in (0, opened - 1) and not gauge.saturated


def test_reads_are_of_one_write(gauges: Gauges, writer: subprocess.Popen[bytes]) -> None:
    seen: set[int] = set()
    whole, deadline = 0, time.monotonic() + PATIENCE
    wait_for(lambda: gauges.queue_read(77))
    while whole < 20_000 or len(seen) < 1000:
        assert time.monotonic() < deadline, f"{whole} reads, {len(seen)} different"
        process, counters = gauges.process_read("shard", 1), gauges.counters_read("shard", 1)
        gauge = gauges.queue_read(77)
        assert gauge is not None
        if not process.torn:
            assert len(set(process[2:7])) == 1
        if not counters.torn:
            assert len(set(counters[:-1])) == 1
        if not gauge.torn:
            check_queue(gauge)
            seen.add(gauge.ready)
            whole += 1
        depth = gauges.depth_count(77)
        assert depth % 2 == 0


def test_what_belongs_to_a_flag_is_read_after_it(gauges: Gauges, writer: subprocess.Popen[bytes]) -> None:
    """An epoch read after the flag is at least that of the flag."""
    wait_for(lambda: gauges.queue_read(77))
    epoch = 0
    for _ in range(50_000):
        saturated, now = gauges.saturated(77), gauges.flow_epoch(77)
        assert now >= epoch
        assert now or not saturated
        epoch = now


@pytest.mark.parametrize("round", range(3))
def test_killed_writers_hang_nobody_and_are_repaired(
    gauges: Gauges, writer: subprocess.Popen[bytes], round: int
) -> None:
    wait_for(lambda: gauges.flow_epoch(77) > 1003)  # it was opened some steps before
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    before = gauges.queue_read(77)
    gauges.process_read("shard", 1)
    assert before is None or before.queue_id > 1000
    gauges.queue_open(77, 1, "", "1" * 12, 1)
    gauges.counters_write("shard", 1, *[4] * 20)
    gauge = gauges.queue_read(77)
    assert gauge is not None and not gauge.torn and gauge.queue_id == 1
    assert gauges.counters_read("shard", 1) == (*[4] * 20, False)


@pytest.mark.parametrize("area", Gauges.__bases__)
def test_an_area_adds_methods_to_the_file_and_no_fields(area: type) -> None:
    """An area with fields of its own, or C methods, could not be combined with the others."""
    assert area.__basicsize__ == MappedFile.__basicsize__ == Gauges.__basicsize__
    assert str(sys.modules[area.__module__].__file__).endswith(".so")
    assert not hasattr(area, "__pyx_vtable__")
