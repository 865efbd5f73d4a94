"""The layout of the gauges: fields and areas lie where the document says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.memory.gauges import READY, Gauges
from penstock.memory.layout import LAYOUT, LAYOUT_VERSION, MAGIC
from tests.penstock.memory.gauges_file import (
    ACCEPTORS,
    COUNTERS_AT,
    FLOW_AT,
    MEASURES_AT,
    NAMES_SIZE,
    PROCESS_SIZE,
    QUEUES,
    SHARDS,
    SLOT_SIZE,
    word,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "gauges.md"


def documented(section: str) -> dict[str, int]:
    text = DOCUMENT.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return {field: int(offset) for offset, field in re.findall(r"^\| (\d+) \| (\w+) \|", text, re.MULTILINE)}


@pytest.mark.parametrize("block", LAYOUT)
def test_document_has_every_field_where_it_is(block: str) -> None:
    assert documented(block.capitalize()) == LAYOUT[block]


def test_records_do_not_overlap() -> None:
    for block, size in {
        "header": 128,
        "process": COUNTERS_AT,
        "counters": MEASURES_AT - COUNTERS_AT,
        "measures": FLOW_AT - MEASURES_AT,
        "flow": PROCESS_SIZE - FLOW_AT,
        "queue": SLOT_SIZE,
    }.items():
        offsets = list(LAYOUT[block].values())
        assert len(set(offsets)) == len(offsets)
        assert all(offset % 8 == 0 and offset + 8 <= size for offset in offsets)


@settings(max_examples=50)
@given(acceptors=st.integers(1, 300), shards=st.integers(1, 300), queues=st.integers(1, 2**24))
def test_areas_follow_each_other(directory: Path, acceptors: int, shards: int, queues: int) -> None:
    path = directory / "areas.gauges"
    path.unlink(missing_ok=True)
    with Gauges.create(path, epoch=1, acceptors=acceptors, shards=shards, queues=queues, pid=1) as made:
        slots = shards + queues
        assert made.slots == slots
        assert made.processes_at + (5 + shards + acceptors) * PROCESS_SIZE <= made.sent_at
        assert made.sent_at + acceptors * shards * 8 <= made.taken_at
        assert made.taken_at + acceptors * shards * 8 <= made.safe_at
        assert made.safe_at + acceptors * shards * 8 <= made.doing_at
        assert made.doing_at + acceptors * shards * 8 <= made.buckets_at
        assert made.buckets_at + 1024 * 32 <= made.users_at
        assert made.users_at + 8192 * 16 <= made.claims_at
        assert made.claims_at + 4096 * 8 * (1 + 4 * acceptors) <= made.queues_at
        assert made.queues_at + slots * SLOT_SIZE <= made.names_at
        assert made.names_at + slots * NAMES_SIZE <= made.size == path.stat().st_size
        assert (
            made.sent_at % 64
            == made.taken_at % 64
            == made.safe_at % 64
            == made.doing_at % 64
            == made.claims_at % 4096
            == made.queues_at % 4096
            == made.names_at % 4096
            == 0
        )
        last = slots - 1
        made.queue_open(last, 1, "v", "last", 1)
        made.pair_add_sent(acceptors - 1, shards - 1, 5)
        assert made.pair_in_flight(acceptors - 1, shards - 1) == 5
        assert list(made.queue_slots()) == [*range(shards), last]


def test_fields_lie_where_the_layout_says(gauges: Gauges, path: Path) -> None:
    gauges.set_topology_version(4)
    gauges.queue_open(50, 9, "vhost", "queue", 33)
    gauges.queue_write(
        50, *[*range(100, 111), 1, *range(112, 117)], published_bytes=119, delivered_bytes=120, whole_bytes=205,
        reserve=3,
    )  # fmt: skip
    gauges.queue_write_over(50, 117, 118)
    gauges.queue_write_peak(50, 121, 122)
    gauges.queue_write_lent(50, 123, 2047)
    gauges.process_write("acceptor", 1, pid=5, incarnation=6, state=READY, started_us=7, restarts=8)
    gauges.beat("acceptor", 1, 6, 9, 3)
    gauges.counters_write("acceptor", 1, *range(10, 30))
    gauges.measures_write("acceptor", 1, *range(30, 34))
    gauges.flow_write("acceptor", 1, range(40, 47), 47, range(50, 66), range(70, 86))
    gauges.pair_add_sent(2, 1, 70)
    gauges.pair_add_taken(2, 1, 30)
    gauges.pair_write_safe(2, 1, 3, 77)
    gauges.pair_write_doing(2, 1, 3, 78, 5)
    assert path.read_bytes()[:8] == MAGIC
    header = {"version": LAYOUT_VERSION, "epoch": 17, "pid": os.getpid(), "acceptors": ACCEPTORS, "shards": SHARDS}
    header |= {"queues": QUEUES, "topology_version": 4}
    assert {field: word(path, LAYOUT["header"][field]) for field in header} == header
    process = gauges.processes_at + (2 + SHARDS + 1) * PROCESS_SIZE
    assert [word(path, process + at) for at in LAYOUT["process"].values()] == [2, 5, 6, READY, 7, 8, (9 << 3) + 3, 0]
    assert [word(path, process + COUNTERS_AT + at) for at in LAYOUT["counters"].values()] == [2, *range(10, 30)]
    assert [word(path, process + MEASURES_AT + at) for at in LAYOUT["measures"].values()] == [2, *range(30, 34)]
    flow = [word(path, process + FLOW_AT + at) for at in LAYOUT["flow"].values()]
    assert flow == [2, *range(40, 48), 50, 70]
    assert word(path, process + FLOW_AT + LAYOUT["flow"]["resume_delays"] + 15 * 8) == 85
    assert word(path, gauges.sent_at + 2 * 64 + 8) == 70
    assert word(path, gauges.taken_at + 1 * 64 + 2 * 8) == 30
    assert word(path, gauges.safe_at + 1 * 64 + 2 * 8) == (3 << 40) + 77
    assert gauges.pair_read_safe(2, 1) == (3, 77)
    assert word(path, gauges.doing_at + 1 * 64 + 2 * 8) == (3 << 56) + (78 << 24) + 5
    assert gauges.pair_read_safe(0, 0) == (0, 0)
    slot = gauges.queues_at + 50 * SLOT_SIZE
    expected = [10, 1, 9, 33, 110, 1, 201, 205, *range(100, 110), *range(112, 117), 3 << 32, *range(117, 123), 205]
    expected.append((123 << 32) + 2)
    assert [word(path, slot + at) for at in LAYOUT["queue"].values()] == expected
    at = gauges.names_at + 50 * NAMES_SIZE
    assert path.read_bytes()[at : at + 13] == b"\x05\x05vhostqueue\x00"


def test_document_has_the_version() -> None:
    assert f"layout, version {LAYOUT_VERSION}," in DOCUMENT.read_text()
