"""The gauges: layout, whole reads beside concurrent writers, writers that die at work, files left by dead nodes."""

from __future__ import annotations

import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.memory import gauges as module
from penstock.memory.gauges import (
    DEAD,
    FINISHES,
    LAYOUT,
    LAYOUT_VERSION,
    MAGIC,
    READY,
    STATE_NAMES,
    UNSTARTED,
    Gauges,
    QueueGauge,
    remove_stale,
)
from penstock.node.node import Role
from tests.waiting import PATIENCE, wait_for

DOCUMENT = Path(__file__).parents[3] / "docs" / "gauges.md"
ACCEPTORS, SHARDS, QUEUES = 3, 2, 100
SLOTS = SHARDS + QUEUES
PROCESS_SIZE, COUNTERS_AT, MEASURES_AT, SLOT_SIZE, NAMES_SIZE = 384, 128, 320, 256, 512

words = st.integers(0, 2**64 - 1)
depths = st.integers(0, 2**62)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=255).filter(lambda name: len(name.encode()) <= 255)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)


def make(path: Path, pid: int | None = None, queues: int = QUEUES) -> Gauges:
    return Gauges.create(
        path, epoch=17, acceptors=ACCEPTORS, shards=SHARDS, queues=queues, pid=os.getpid() if pid is None else pid
    )


@pytest.fixture
def path(directory: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = directory / f"{request.node.name[:80].replace('/', '-')}.gauges"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def gauges(path: Path) -> Iterator[Gauges]:
    with make(path) as gauges:
        yield gauges


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def row(value: int, saturated: int = 1) -> list[int]:
    """Arguments of queue_write that are `value` throughout."""
    return [value] * 11 + [saturated] + [value] * 6


def word(path: Path, at: int, value: int | None = None) -> int:
    """A word of the file past all methods; a new value when one is given."""
    with path.open("r+b", buffering=0) as file:
        if value is not None:
            os.pwrite(file.fileno(), struct.pack("=Q", value), at)
        return int(struct.unpack("=Q", os.pread(file.fileno(), 8, at))[0])


def break_off(path: Path, block: int) -> None:
    """Leave a record as a writer does that dies in the middle of a write."""
    word(path, block, word(path, block) + 1)


# The layout and its document.


def documented(section: str) -> dict[str, int]:
    text = DOCUMENT.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return {field: int(offset) for offset, field in re.findall(r"^\| (\d+) \| (\w+) \|", text, re.MULTILINE)}


@pytest.mark.parametrize("block", LAYOUT)
def test_document_has_every_field_where_it_is(block: str) -> None:
    assert documented(block.capitalize()) == LAYOUT[block]


def test_document_has_the_states_and_the_version() -> None:
    text = DOCUMENT.read_text()
    assert ", ".join(f"{number} {name}" for number, name in enumerate(STATE_NAMES)) in text
    assert f"layout, version {LAYOUT_VERSION}," in text


def test_records_do_not_overlap() -> None:
    for block, size in {
        "header": 128,
        "process": COUNTERS_AT,
        "counters": MEASURES_AT - COUNTERS_AT,
        "measures": PROCESS_SIZE - MEASURES_AT,
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
        assert made.processes_at + (3 + shards + acceptors) * PROCESS_SIZE <= made.sent_at
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
    gauges.queue_note_over(50, 117, 118)
    gauges.queue_note_peak(50, 121, 122)
    gauges.queue_note_lent(50, 123, 2047)
    gauges.process_write("acceptor", 1, pid=5, incarnation=6, state=READY, started_us=7, restarts=8)
    gauges.beat("acceptor", 1, 6, 9, 3)
    gauges.counters_write("acceptor", 1, *range(10, 30))
    gauges.measures_write("acceptor", 1, *range(30, 34))
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


# The file.


def test_file_is_private_and_sparse(directory: Path) -> None:
    path = directory / "sparse.gauges"
    with make(path, queues=2**20) as gauges:
        gauges.queue_open(2**19, 1, "/", "q", 1)
        assert gauges.queue_read(2**18) is None and not gauges.saturated(2**18)
        assert list(gauges.queue_slots()) == [0, 1, 2**19]
        facts = path.stat()
    assert stat.S_IMODE(facts.st_mode) == 0o600
    assert facts.st_size > 2**20 * (SLOT_SIZE + NAMES_SIZE)
    assert facts.st_blocks * 512 < 64 * 1024


def test_create_refuses_a_path_in_use(gauges: Gauges, path: Path) -> None:
    with pytest.raises(FileExistsError):
        make(path)
    assert Gauges.open(path).epoch == 17


@pytest.mark.parametrize(
    "wrong",
    [{"acceptors": 0}, {"shards": 0}, {"queues": 0}, {"shards": 2**20}, {"pid": 0}, {"epoch": -1}, {"epoch": 2**64}],
)
def test_create_refuses_impossible_counts_and_leaves_nothing(path: Path, wrong: dict[str, int]) -> None:
    facts = {"epoch": 1, "acceptors": 1, "shards": 1, "queues": 1, "pid": 1, **wrong}
    with pytest.raises(ValueError, match="no "):
        Gauges.create(path, **facts)
    assert not path.exists()


def test_open_shares_what_was_created(gauges: Gauges, path: Path) -> None:
    with Gauges.open(str(path)) as other:
        assert (other.epoch, other.pid, other.path) == (17, os.getpid(), path)
        assert (other.acceptors, other.shards, other.queues, other.slots) == (ACCEPTORS, SHARDS, QUEUES, SLOTS)
        other.set_topology_version(5)
        other.queue_open(7, 1, "/", "q", 1)
        assert gauges.topology_version() == 5
        assert gauges.queue_read(7) == other.queue_read(7)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (b"", "is not a gauges file"),
        (b"PENSTOCK", "is not a gauges file"),
        (b"NOTPENST" + bytes(200), "is not a gauges file"),
        (MAGIC + struct.pack("=QQQQQQ", 99, 1, 1, 1, 1, 1), "version 99, this penstock has version 14"),
        (MAGIC + struct.pack("=QQQQQQ", LAYOUT_VERSION, 1, 1, 1, 1, 1), "has 56 octets, its header says"),
        (MAGIC + struct.pack("=QQQQQQ", LAYOUT_VERSION, 1, 1, 2**60, 2**60, 2**60), "no node has"),
        (MAGIC + struct.pack("=QQQQQQ", LAYOUT_VERSION, 1, 1, 1, 1, 0), "no node has"),
    ],
)
def test_open_refuses_other_files(path: Path, contents: bytes, complaint: str) -> None:
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=complaint):
        Gauges.open(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        Gauges.open(path)


# Wrong use.

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
    lambda g: g.queue_note_over(0, 1, 1),
    lambda g: g.queue_note_peak(0, 1, 1),
    lambda g: g.queue_note_lent(0, 1, 1),
]


def test_what_a_shard_is_doing(gauges: Gauges) -> None:
    gauges.pair_write_doing(2, 1, 3, 78, 5)
    assert gauges.pair_read_doing(2, 1, 3, 78) == 5
    assert gauges.pair_read_doing(2, 1, 4, 78) == 0, "of another life of the acceptor"
    assert gauges.pair_read_doing(2, 1, 3, 79) == 0, "of another turn"
    assert gauges.pair_read_doing(1, 1, 3, 78) == 0
    gauges.pair_write_doing(2, 1, 3, 78, 0)
    assert gauges.pair_read_doing(2, 1, 3, 78) == 0
    gauges.pair_write_doing(2, 1, 256 + 3, 2**32 + 78, FINISHES - 1)
    assert gauges.pair_read_doing(2, 1, 256 + 3, 2**32 + 78) == FINISHES - 1
    gauges.pair_write_doing(2, 1, 3, 78, FINISHES)
    assert gauges.pair_read_doing(2, 1, 3, 78) == 0, "there is no room for that ordinal"


def test_what_a_shard_finishes(gauges: Gauges, path: Path) -> None:
    """Two lives of it, each in a word of its own."""
    for life in 6, 7:
        gauges.pair_write_finishing(2, 1, 3, 78, life)
        assert gauges.pair_read_doing(2, 1, 3, 78) == FINISHES + life % 2
        gauges.finishing_write(1, life, 50 + life)
    assert [gauges.finishing_read(1, life) for life in (6, 7)] == [56, 57]
    process = gauges.processes_at + (2 + 1) * PROCESS_SIZE
    assert [word(path, process + LAYOUT["process"]["finishing"] + at) for at in (0, 8)] == [56, 57]


@pytest.mark.parametrize("use", READS + WRITES)
def test_closed_gauges_say_so(gauges: Gauges, use: Callable[[Gauges], object]) -> None:
    gauges.close()
    gauges.close()
    with pytest.raises(ValueError, match="closed"):
        use(gauges)


def test_closing_while_slots_are_listed(gauges: Gauges) -> None:
    for slot in range(SLOTS):
        gauges.queue_open(slot, slot, "", "", 1)
    slots = gauges.queue_slots()
    assert next(slots) == 0
    gauges.close()
    with pytest.raises(ValueError, match="closed"):
        list(slots)


@pytest.mark.parametrize("use", READS)
def test_reading_needs_no_right_to_write(gauges: Gauges, path: Path, use: Callable[[Gauges], object]) -> None:
    with Gauges.open(path, writable=False) as reader:
        assert use(reader) == use(gauges)


@pytest.mark.parametrize("use", WRITES)
def test_writing_needs_the_right_to(gauges: Gauges, path: Path, use: Callable[[Gauges], object]) -> None:
    with Gauges.open(path, writable=False) as reader, pytest.raises(ValueError, match="opened for reading"):
        use(reader)


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


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (ACCEPTORS, 0), (0, SHARDS), (2**40, 2**40)])
def test_pairs_out_of_range(gauges: Gauges, pair: tuple[int, int]) -> None:
    for use in (gauges.pair_in_flight, gauges.pair_reset_sent):
        with pytest.raises(IndexError):
            use(*pair)
    for add in (gauges.pair_add_sent, gauges.pair_add_taken):
        with pytest.raises(IndexError):
            add(*pair, 1)


@pytest.mark.parametrize(
    ("role", "index"), [("supervisor", 1), ("router", -1), ("shard", SHARDS), ("acceptor", ACCEPTORS), ("console", 1)]
)
def test_processes_out_of_range(gauges: Gauges, role: Role, index: int) -> None:
    with pytest.raises(IndexError, match=role):
        gauges.process_read(role, index)
    with pytest.raises(IndexError, match=role):
        gauges.counters_write(role, index, *range(20))


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


def test_names_that_are_not_utf_8(gauges: Gauges) -> None:
    gauges.queue_open(9, 1, "/", b"caf\xe9".decode("utf-8", "surrogateescape"), 1)
    gauge = gauges.queue_read(9)
    assert gauge is not None and gauge.name == "caf\ufffd"


# Buckets.


SECOND = 10**9


def test_what_is_spent_of_a_bucket_all_see(gauges: Gauges) -> None:
    assert gauges.bucket_full_at(7, 100) == (0, 0)
    gauges.bucket_spend(7, 100, count=3, rate=2, octets=5, octets_rate=SECOND)
    with Gauges.open(gauges.path) as other:
        assert other.bucket_full_at(7, 120) == (100 + 3 * SECOND // 2, 105)
        other.bucket_spend(7, 120, count=10, rate=SECOND, octets=1, octets_rate=0)
    assert gauges.bucket_full_at(7, 120) == (110 + 3 * SECOND // 2, 105)
    gauges.bucket_spend(7, 1000, count=1, rate=0, octets=1, octets_rate=SECOND)
    assert gauges.bucket_full_at(7, 1000) == (110 + 3 * SECOND // 2, 1001), "a full bucket takes no more"


def test_whether_a_bucket_is_full_soon(gauges: Gauges) -> None:
    gauges.bucket_spend(7, 100, count=50, rate=SECOND, octets=5, octets_rate=SECOND)
    assert gauges.bucket_is_full_in(7, 100, 50, 5)
    assert not gauges.bucket_is_full_in(7, 100, 49, 5)
    assert not gauges.bucket_is_full_in(7, 100, 50, 4)
    assert gauges.bucket_is_full_in(7, 101, 49, 4)


@pytest.mark.parametrize("rate", [1, 3, 7_919, 10**9, 2**63 - 1])
@pytest.mark.parametrize("octets", [0, 1, 131_072, 2**34 - 1])
def test_what_is_spent_is_rounded_down_once(gauges: Gauges, octets: int, rate: int) -> None:
    gauges.bucket_spend(7, 100, count=0, rate=0, octets=octets, octets_rate=rate)
    assert gauges.bucket_full_at(7, 100) == (0, 100 + octets * SECOND // rate)


def test_what_waits_for_a_bucket(gauges: Gauges) -> None:
    assert gauges.bucket_waiting(5, 1000, 0, 3) == 3
    assert gauges.bucket_waiting(5, 1000, 7, 255) == 255 << 56 | 3
    with Gauges.open(gauges.path) as other:
        assert other.bucket_waiting(5, 1000, 0, 0) == 255 << 56
    assert gauges.bucket_waiting(6, 1000, 1, 1) == 1 << 8, "another bucket"
    for acceptor, code in ((8, 1), (0, 256)):
        with pytest.raises(ValueError, match="no octet"):
            gauges.bucket_waiting(5, 1000, acceptor, code)


def test_queues_of_users(gauges: Gauges) -> None:
    before = gauges.users_changed()
    assert gauges.user_queues(7) == []
    assert all(gauges.user_queue_add(7, id) for id in (3, 9, 3)) and gauges.user_queue_add(8, 9)
    changed = gauges.users_changed()
    assert changed == before + 3, "what is there already is no change"
    with Gauges.open(gauges.path) as other:
        assert (other.user_queues(7), other.user_queues(8)) == ([3, 9], [9])
        other.user_queue_remove(7, 9)
    assert (gauges.user_queues(7), gauges.user_queues(8)) == ([3], [9])
    assert gauges.users_changed() > changed


def test_there_are_places_for_so_many_queues_of_users(gauges: Gauges) -> None:
    assert all(gauges.user_queue_add(7, id) for id in range(1, 8193))
    assert not gauges.user_queue_add(8, 1) and gauges.user_queue_add(7, 1)
    gauges.user_queue_remove(7, 4000)
    assert gauges.user_queue_add(8, 1) and gauges.user_queues(8) == [1]
    assert len(gauges.user_queues(7)) == 8191


def test_what_others_claim(gauges: Gauges, path: Path) -> None:
    place = gauges.claim_place(7)
    assert (gauges.claim_place(7), gauges.claim_place(8)) == (place, place + 1)
    assert gauges.claim(place, 0, 1, 5, 500) == (0, 0)
    with Gauges.open(path) as other:
        assert other.claim_place(7) == place
        assert other.claim(place, 1, 3, 1, 10) == (5, 500)
        assert other.claim(place + 1, 1, 3, 2, 20) == (0, 0)
    assert gauges.claim(place, 0, 1, 4, 400) == (1, 10)
    assert gauges.claim(place, 0, 2, 1, 1) == (5, 410), "its successor"
    assert gauges.claim(place, ACCEPTORS - 1, 1, 0, 0) == (6, 411)
    gauges.claims_clear(1, 3)
    gauges.claims_clear(0, 2)
    assert gauges.claim(place, 0, 1, 4, 400) == (0, 0) == gauges.claim(place + 1, 0, 1, 0, 0)


def test_no_more_places_for_claims(gauges: Gauges) -> None:
    places = {gauges.claim_place(key) for key in range(1, 4097)}
    assert len(places) == 4096 and gauges.claim_place(5000) == -1
    assert gauges.claim_place(4000) in places


@pytest.mark.parametrize(
    "broken",
    [
        lambda g: g.claim(-1, 0, 1, 0, 0),
        lambda g: g.claim(4096, 0, 1, 0, 0),
        lambda g: g.claim(0, ACCEPTORS, 1, 0, 0),
        lambda g: g.claims_clear(-1, 1),
    ],
)
def test_claims_of_nobody(gauges: Gauges, broken: Callable[[Gauges], object]) -> None:
    with pytest.raises(IndexError):
        broken(gauges)


CLAIMANT = """
import sys
from penstock.memory.gauges import Gauges
with Gauges.open(sys.argv[1]) as gauges:
    writer, rounds = int(sys.argv[2]), int(sys.argv[3])
    place, got = gauges.claim_place(7), 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(rounds):
        if gauges.claim(place, writer, 1, 1, 0)[0] == 0:
            got += 1
            before = gauges.depth_count(50)
            gauges.queue_write(50, before + 1, *[0] * 17)
            assert gauges.depth_count(50) == before + 1
        gauges.claim(place, writer, 1, 0, 0)
    print(got)
"""


def test_two_that_claim_the_last_of_something_do_not_both_get_it(gauges: Gauges, path: Path) -> None:
    """Whoever gets it alone counts up a number that is not safe to count up by two at a time."""
    gauges.queue_open(50, 9, "vhost", "queue", 33)
    command = [sys.executable, "-c", CLAIMANT, str(path)]
    both = [
        subprocess.Popen([*command, str(writer), "100000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for writer in range(2)
    ]
    for process in both:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    counts = []
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        counts.append(int(process.communicate(timeout=PATIENCE)[0]))
        assert process.returncode == 0
    assert sum(counts) == gauges.depth_count(50) > 0


def test_full_buckets_are_taken_over(gauges: Gauges) -> None:
    for key in range(7, 7 + 20 * 1024, 1024):
        assert gauges.bucket_full_at(key, key)[0] <= key
        gauges.bucket_spend(key, key, 10, SECOND, 0, 0)
        assert gauges.bucket_full_at(key, key)[0] == key + 10


def test_without_a_free_place_a_bucket_is_shared(gauges: Gauges) -> None:
    for key in range(1 + 1024, 1 + 17 * 1024, 1024):
        gauges.bucket_spend(key, 100, 1, 1, 0, 0)
    gauges.bucket_spend(1, 100, 5, SECOND, 0, 0)
    assert gauges.bucket_full_at(1, 100)[0] == 100 + SECOND + 5


# What is written is what is read.


@pytest.fixture(scope="module")
def pair(directory: Path) -> Iterator[tuple[Gauges, Gauges]]:
    """Two mappings of one file."""
    path = directory / "pair.gauges"
    with make(path) as one, Gauges.open(path) as other:
        yield one, other


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
    one.queue_write(40, *depth, *rest[:14], **sums, left=rest[16], reserve=depth[0])
    flags = (*rest[:7], rest[7] != 0, *rest[8:13], rest[13] != 0, rest[16] != 0)
    assert other.queue_read(40) == (
        id,
        vhost,
        name,
        *depth,
        *flags,
        0,
        0,
        *rest[14:16],
        0,
        0,
        whole,
        0,
        0,
        min(depth[0], 2**32 - 1),
        since,
        False,
    )
    assert (other.saturated(40), other.aside(40)) == (rest[7] != 0, rest[13] != 0)
    assert other.flow_epoch(40) == rest[6]
    assert (other.depth_count(40), other.depth_bytes(40)) == (depth[0] + depth[1], whole)


@given(role=st.sampled_from(["supervisor", "router", "shard", "acceptor", "console"]), life=st.tuples(*[words] * 5))
def test_process_round_trip(pair: tuple[Gauges, Gauges], role: Role, life: tuple[int, ...]) -> None:
    one, other = pair
    pid, incarnation, state, started_us, restarts = life
    one.process_write(role, 0, pid=pid, incarnation=incarnation, state=state, started_us=started_us, restarts=restarts)
    assert other.process_read(role, 0) == (role, 0, *life, False)


@given(numbers=st.tuples(*[words] * 20))
def test_counters_round_trip(pair: tuple[Gauges, Gauges], numbers: tuple[int, ...]) -> None:
    one, other = pair
    one.counters_write("acceptor", 2, *numbers)
    assert other.counters_read("acceptor", 2) == (*numbers, False)


@given(numbers=st.tuples(*[words] * 4))
def test_measures_round_trip(pair: tuple[Gauges, Gauges], numbers: tuple[int, ...]) -> None:
    one, other = pair
    one.measures_write("shard", 1, *numbers)
    assert other.measures_read("shard", 1) == (*numbers, False)


def test_processes_have_their_own_records(gauges: Gauges) -> None:
    places: list[tuple[Role, int]] = [("supervisor", 0), ("router", 0)]
    places += [("shard", index) for index in range(SHARDS)]
    places += [("acceptor", index) for index in range(ACCEPTORS)]
    places += [("console", 0)]
    assert {gauges.process_read(*place).state for place in places} == {UNSTARTED}
    for number, (role, index) in enumerate(places, 1):
        gauges.process_write(role, index, pid=number, incarnation=0, state=READY, started_us=0, restarts=0)
        gauges.counters_write(role, index, *[number] * 20)
        gauges.measures_write(role, index, *[number] * 4)
    assert [gauges.process_read(*place).pid for place in places] == list(range(1, len(places) + 1))
    assert [gauges.counters_read(*place).loop_turns for place in places] == list(range(1, len(places) + 1))
    assert [gauges.measures_read(*place).stored_bytes for place in places] == list(range(1, len(places) + 1))


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


def test_gates_are_open_from_the_start(gauges: Gauges) -> None:
    assert list(gauges.queue_slots()) == list(range(SHARDS))
    gauges.queue_write(1, *row(8))
    gate = gauges.queue_read(1)
    assert gate is not None
    assert (gate.queue_id, gate.vhost, gate.name, gate.since_us, gate.ready) == (0, "", "", 17, 8)
    assert [gauges.saturated(slot) for slot in range(SHARDS)] == [False, True]


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


def test_the_next_life_of_a_shard_finds_flag_and_depths_of_its_queue(gauges: Gauges) -> None:
    """Nobody is let in between its opening the record and its first writing it."""
    gauges.queue_open(5, 1, "v", "n", 1)
    gauges.queue_write(5, *row(9))
    seen = gauges.flow(5)
    assert seen == (True, True, 18, 18)
    gauges.queue_open(5, 1, "v", "n", 2)
    assert gauges.flow(5) == seen
    found = gauges.queue_read(5)
    assert found is not None
    assert (found.ready, found.published, found.since_us, found.flow_epoch) == (0, 0, 2, 9)
    gauges.queue_close(5)
    gauges.queue_open(5, 1, "v", "n", 3)
    assert gauges.flow(5) == (False, False, 0, 0)


def test_opening_again_begins_anew_but_for_the_epoch(gauges: Gauges) -> None:
    gauges.queue_open(5, 1, "a long vhost", "a long name", 1)
    gauges.queue_write(5, *row(9))
    gauges.queue_note_peak(5, 9, 9)
    gauges.queue_note_lent(5, 2**40, 2**50)
    noted = gauges.queue_read(5)
    assert noted is not None and (noted.lent_count, noted.lent_bytes) == (2**32 - 1, (2**32 - 1) * 1024)
    gauges.queue_open(5, 2, "v", "n", 2)
    blank = [0] * 10 + [9, False] + [0] * 5 + [False, False, *[0] * 10]
    assert gauges.queue_read(5) == (2, "v", "n", *blank, 2, False)
    assert (gauges.depth_count(5), gauges.depth_bytes(5), gauges.saturated(5)) == (0, 0, False)
    gauges.queue_write(5, *row(10))
    gauges.queue_close(5)
    assert gauges.queue_read(5) is None
    assert (gauges.depth_count(5), gauges.saturated(5), gauges.flow_epoch(5)) == (0, False, 10)


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 1000))))
def test_in_flight_is_what_was_sent_and_not_taken(
    directory: Path, pair: tuple[Gauges, Gauges], steps: list[tuple[bool, int]]
) -> None:
    acceptor, shard = pair
    acceptor.pair_reset_sent(1, 1)
    sent = taken = 0
    for sends, count in steps:
        if sends:
            acceptor.pair_add_sent(1, 1, count)
            sent += count
        else:
            shard.pair_add_taken(1, 1, count)
            taken += count
        assert acceptor.pair_in_flight(1, 1) == shard.pair_in_flight(1, 1) == max(0, sent - taken)
    assert acceptor.pair_in_flight(0, 1) == acceptor.pair_in_flight(1, 0) == acceptor.pair_in_flight(2, 1) == 0


def test_resetting_a_pair_leaves_nothing_in_flight(gauges: Gauges) -> None:
    gauges.pair_add_sent(0, 1, 100)
    assert gauges.pair_in_flight(0, 1) == 100
    gauges.pair_reset_sent(0, 1)
    assert gauges.pair_in_flight(0, 1) == 0
    gauges.pair_add_sent(0, 1, 3)
    assert gauges.pair_in_flight(0, 1) == 3


class Slots(RuleBasedStateMachine):
    """Opening, writing and closing in any order, against a dictionary, seen through another mapping."""

    @initialize()
    def create(self) -> None:
        self.directory = tempfile.TemporaryDirectory(dir="/dev/shm")
        path = Path(self.directory.name) / "model.gauges"
        self.writer, self.reader = make(path), Gauges.open(path, writable=False)
        self.open: dict[int, tuple[int, str, int]] = {0: (0, "", 0), 1: (0, "", 0)}

    def teardown(self) -> None:
        self.writer.close()
        self.reader.close()
        self.directory.cleanup()

    @rule(slot=st.integers(SHARDS, SLOTS - 1), id=st.integers(1, 9), name=names)
    def queue_open(self, slot: int, id: int, name: str) -> None:
        self.writer.queue_open(slot, id, "/", name, 1)
        self.open[slot] = (id, name, 0)

    @rule(slot=st.integers(SHARDS, SLOTS - 1))
    def queue_close(self, slot: int) -> None:
        self.writer.queue_close(slot)
        self.open.pop(slot, None)

    @rule(data=st.data(), value=st.integers(0, 9))
    def queue_write(self, data: st.DataObject, value: int) -> None:
        slot = data.draw(st.sampled_from(sorted(self.open)))
        self.writer.queue_write(slot, *row(value))
        self.open[slot] = (*self.open[slot][:2], value)

    @invariant()
    def reader_sees_the_model(self) -> None:
        assert list(self.reader.queue_slots()) == sorted(self.open)
        for slot, (id, name, value) in self.open.items():
            seen = self.reader.queue_read(slot)
            assert seen is not None
            assert (seen.queue_id, seen.name, seen.acked, self.reader.depth_count(slot)) == (id, name, value, 2 * value)


TestSlots = Slots.TestCase
TestSlots.settings = settings(max_examples=20, stateful_step_count=20)


# Torn reads.

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
    """Opened at step id (numbers 0), then written at one of the three steps after it (numbers that step)."""
    opened = gauge.queue_id
    assert (gauge.vhost, gauge.name, gauge.since_us) == ("v" * (opened % 256), str(opened) * 12, opened)
    assert set(gauge[3:13] + gauge[15:20]) == {gauge.ready}
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
    """The epoch read after the flag is at least the flag's."""
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


def test_processes_and_counters_left_in_mid_write(gauges: Gauges, path: Path) -> None:
    gauges.process_write("shard", 0, pid=9, incarnation=1, state=READY, started_us=1, restarts=0)
    block = gauges.processes_at + 2 * PROCESS_SIZE
    break_off(path, block)
    break_off(path, block + COUNTERS_AT)
    assert gauges.process_read("shard", 0).torn and gauges.process_read("shard", 0).pid == 9
    assert gauges.counters_read("shard", 0).torn
    gauges.process_write("shard", 0, pid=9, incarnation=1, state=DEAD, started_us=1, restarts=0)
    gauges.counters_write("shard", 0, *range(20))
    assert not gauges.process_read("shard", 0).torn
    assert not gauges.counters_read("shard", 0).torn


# Files that nodes left.


@pytest.fixture
def left(directory: Path, request: pytest.FixtureRequest) -> Path:
    """A directory like /dev/shm."""
    path = directory / f"left-{request.node.name}"
    path.mkdir()
    return path


def test_gauges_of_dead_nodes_are_removed(left: Path, dead_pid: int) -> None:
    stale = left / "penstock-0-stale.gauges"
    make(stale, pid=dead_pid).close()
    alive, other_name = left / "penstock-0-alive.gauges", left / "somebody.gauges"
    make(alive).close()
    make(other_name, pid=dead_pid).close()
    assert remove_stale(left) == [stale]
    assert sorted(left.iterdir()) == [alive, other_name]
    assert remove_stale(left) == []


def test_gauges_of_killed_nodes_are_removed_before_anyone_waits_for_them(left: Path) -> None:
    path = left / "penstock-0-killed.gauges"
    program = """if True:
        import os, sys, time
        from penstock.memory.gauges import Gauges
        gauges = Gauges.create(sys.argv[1], epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid())
        print("made", flush=True)
        time.sleep(600)"""
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"made\n"
        assert remove_stale(left) == []
        process.kill()
        assert wait_for(lambda: remove_stale(left)) == [path]


def test_gauges_still_held_by_their_creator_stay(left: Path, dead_pid: int) -> None:
    path = left / "penstock-0-elsewhere.gauges"
    with make(path, pid=dead_pid):
        assert remove_stale(left) == []
        Gauges.open(path).close()
        assert remove_stale(left) == []
    assert remove_stale(left) == [path]


def test_gauges_of_another_version_are_removed(left: Path, dead_pid: int) -> None:
    old = left / "penstock-0-old.gauges"
    old.write_bytes(MAGIC + struct.pack("=QQQ", 99, 1, dead_pid))
    short = left / "penstock-0-short.gauges"
    short.write_bytes(MAGIC)
    absurd = left / "penstock-0-absurd.gauges"
    absurd.write_bytes(MAGIC + struct.pack("=QQQ", LAYOUT_VERSION, 1, 2**64 - 1))
    assert remove_stale(left) == [absurd, old, short]


def test_files_of_others_are_left_alone(left: Path, dead_pid: int) -> None:
    (left / "penstock-0-empty.gauges").write_bytes(b"")
    (left / "penstock-0-foreign.gauges").write_bytes(b"something else")
    (left / "penstock-0-directory.gauges").mkdir()
    os.mkfifo(left / "penstock-0-pipe.gauges")
    make(left / "target", pid=dead_pid).close()
    (left / "penstock-0-link.gauges").symlink_to(left / "target")
    before = sorted(left.iterdir())
    assert remove_stale(left) == []
    assert sorted(left.iterdir()) == before


def test_a_directory_that_is_not_there(left: Path) -> None:
    assert remove_stale(left / "nowhere") == []


def test_module_is_compiled() -> None:
    assert module.__file__ is not None and module.__file__.endswith(".so")
    assert "__pyx_capi__" in vars(module) or hasattr(Gauges, "__pyx_vtable__")
