"""A queue, its journal and a real store: a later incarnation finds what the earlier one had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.batch.batch_cy import HAS_PRIORITY, PERSISTENT, Batch, BatchBuilder
from penstock.files.witness import Witness
from shard.contents.errors import StoreError
from shard.contents.queue_cy import EXPIRED, MAXLEN, UNLIMITED, Queue
from shard.store.environment import Environment
from shard.store.journal import Journal
from shard.store.store import Store
from shard.store.stored import DATABASES, FORMAT, NUMBER, pack_held

LIMIT = 1 << 24
SEGMENT_WEIGHT = 1100
EPOCH = 1


def batch(*bodies: bytes, flags: int = PERSISTENT) -> Batch:
    builder = BatchBuilder()
    for body in bodies:
        builder.add(b"\0\0", bytes(14), body, flags)
    return builder.finish()


def prioritised(priority: int, *messages: bytes) -> Batch:
    builder = BatchBuilder()
    for body in messages:
        header = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + b"\x08\0" + bytes([priority])
        builder.add(b"\0\0", header, body, PERSISTENT | HAS_PRIORITY)
    return builder.finish()


class OpenedStore:
    """A store opened anew, and queue 7 recovered from it."""

    def __init__(self, path: Path, make: Callable[[Journal], Queue] | None = None) -> None:
        self.store = Store(path, LIMIT, durable=False, epoch=EPOCH)
        self.journal = Journal(self.store.read)
        base = self.store.starts << 36
        self.queue = Queue(7, None, base, self.journal, True) if make is None else make(self.journal)
        found = (segment for queue_id, segment in self.store.segments() if queue_id == 7)
        segments = sorted(found, key=lambda segment: segment.sequence)
        for segment in segments:
            self.journal.count_recovered(segment)
        leases = {priority: number for queue_id, priority, number in self.store.numbers("leases") if queue_id == 7}
        self.queue.recover(segments, leases)

    def commit(self) -> None:
        self.store.write(self.journal.hand_over())
        self.journal.written()

    def end(self) -> None:
        self.store.close()


def bodies(queue: Queue) -> list[tuple[bytes, bool]]:
    """Pop all ready messages; return their bodies and redelivered flags."""
    found = []
    for item in queue.pop(UNLIMITED, UNLIMITED, False):
        found += [(item.batch.record(item.first + i)[2], item.redelivered) for i in range(item.count)]
    return found


def test_a_later_incarnation_has_what_was_committed(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"one", b"two"), 0, 2)
    opened.queue.enqueue(batch(b"three"), 0, 1)
    opened.commit()
    opened.queue.enqueue(batch(b"lost"), 0, 1)
    opened.end()
    opened = OpenedStore(tmp_path)
    assert (opened.queue.ready, opened.queue.ready_bytes) == (3, 11)
    assert bodies(opened.queue) == [(b"one", False), (b"two", False), (b"three", False)]
    opened.end()


def test_what_was_settled_does_not_come_back_and_what_was_delivered_says_so(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    first = opened.queue.enqueue(batch(b"a", b"b", b"c", b"d"), 0, 4)
    opened.queue.pop(3, UNLIMITED, False)
    opened.queue.settle(first + 1, 1)
    opened.queue.record_position()
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    assert (opened.queue.ready, opened.queue.ready_bytes) == (3, 3)
    assert bodies(opened.queue) == [(b"a", True), (b"c", True), (b"d", False)]
    opened.end()


def test_without_a_last_word_what_may_have_been_delivered_says_so(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a", b"b"), 0, 2)
    opened.queue.pop(1, UNLIMITED, False)
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    assert bodies(opened.queue) == [(b"a", True), (b"b", True)]
    opened.end()


def test_an_undelivered_message_that_comes_back_after_its_delivery_says_so(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a", b"b", b"c"), 0, 3)
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    (item,) = opened.queue.pop(2, UNLIMITED, False)
    assert not item.redelivered
    opened.queue.requeue(item.sequence, 2)
    assert bodies(opened.queue) == [(b"a", True), (b"b", True), (b"c", False)]
    opened.end()


def test_numbers_do_not_come_again(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    before = opened.queue.enqueue(batch(b"a", flags=0), 0, 1)
    opened.end()
    opened = OpenedStore(tmp_path)
    assert opened.queue.enqueue(batch(b"a"), 0, 1) > before
    opened.end()


def test_dead_letters_stay_in_the_store_until_they_are_buried(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.configure(-1, True, -1)
    opened.queue.enqueue(batch(b"a", b"b", b"c"), 0, 3)
    opened.commit()
    opened.queue.drop(2, UNLIMITED, MAXLEN)
    ((reason, item),) = opened.queue.take_dead()
    assert reason == MAXLEN
    commit = opened.journal.hand_over()
    assert not commit.kept.index
    opened.store.write(commit)
    opened.queue.buried(item, 0, 1)
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    assert [body for body, _ in bodies(opened.queue)] == [b"b", b"c"]
    opened.end()


def test_claimed_messages_are_in_hand_and_others_are_ignored(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    first = opened.queue.enqueue(batch(b"a", b"b", b"c"), 0, 3)
    opened.queue.pop(2, UNLIMITED, False)
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    assert opened.queue.claim(first, 2) == [(first, 2)]
    assert opened.queue.claim(first, 2) == []
    assert opened.queue.claim(12345, 1) == []
    assert (opened.queue.ready, opened.queue.unacked, opened.queue.unacked_bytes) == (1, 2, 2)
    opened.queue.settle(first, 1)
    opened.queue.requeue(first + 1, 1)
    assert bodies(opened.queue) == [(b"b", True), (b"c", True)]
    opened.end()


def test_expiry_outlives_the_shard(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.configure(1000, False, -1)
    opened.queue.enqueue(batch(b"old"), 0, 1, 5000)
    opened.queue.configure(-1, False, -1)
    opened.queue.enqueue(batch(b"young"), 0, 1, 5000)
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    assert opened.queue.expiring
    assert opened.queue.next_expiry() == 6000
    assert opened.queue.expire(6000) == 1
    assert [body for body, _ in bodies(opened.queue)] == [b"young"]
    assert EXPIRED == 0
    opened.end()


def test_the_end_of_a_queue_leaves_nothing(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a", b"b"), 0, 2)
    opened.queue.pop(1, UNLIMITED, False)
    opened.commit()
    opened.queue.close()
    opened.commit()
    assert list(opened.store.segments()) == []
    assert list(opened.store.numbers("leases")) == []
    opened.end()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path, LIMIT, durable=False, epoch=EPOCH).close()
    environment = Environment(tmp_path, DATABASES, LIMIT, synced=False)
    environment.write(lambda txn: txn.put(b"format", NUMBER.pack(FORMAT + 1), db=environment["facts"]))
    environment.close()
    with pytest.raises(StoreError, match=f"format {FORMAT + 1}"):
        Store(tmp_path, LIMIT, durable=False, epoch=EPOCH)


def test_leases_are_written_and_read(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    for queue, id in ((7, "one/0/1"), (7, "één"), (9, "x" * 255)):
        opened.journal.put_lease(queue, id, pack_held(5, 6, [(10, 13), (20, 21)]))
    opened.commit()
    opened.journal.put_lease(7, "één", None)
    opened.commit()
    held = 5, 6, [(10, 3), (20, 1)]
    assert list(opened.store.held()) == [(7, "one/0/1", held), (9, "x" * 255, held)]
    opened.end()


@pytest.mark.parametrize("record", [b"", b"x", bytes(24)])
def test_a_lease_that_cannot_be_read_is_said(tmp_path: Path, record: bytes) -> None:
    opened = OpenedStore(tmp_path)
    opened.journal.put_lease(7, "broken", record)
    opened.commit()
    with pytest.raises(StoreError, match="held"):
        list(opened.store.held())
    opened.end()


def test_what_replaces_contents_that_are_paged_out_is_in_memory(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.merges = False
    first = opened.queue.enqueue(batch(b"old"), 0, 1)
    opened.queue.enqueue(batch(b"other"), 0, 1)
    opened.commit()
    opened.queue.page_out(UNLIMITED, 0)
    assert opened.queue.replace(first, batch(b"newer"), 0)
    assert opened.queue.weight() == opened.queue.ready_whole // 2 + SEGMENT_WEIGHT
    assert [body for body, _ in bodies(opened.queue)] == [b"newer", b"other"]
    assert opened.queue.paged == 0
    opened.end()


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_replaced_does_not_outlive_what_replaced_it(tmp_path: Path, fails: bool) -> None:
    """The store never saw the newer message, which was gone before it was written."""
    opened = OpenedStore(tmp_path)
    opened.queue.merges = False
    first = opened.queue.enqueue(batch(b"old"), 0, 1)
    opened.commit()
    assert opened.queue.replace(first, batch(b"newer"), 0)
    if fails:
        opened.journal.take_back(opened.journal.hand_over())
    assert [body for body, _ in bodies(opened.queue)] == [b"newer"]
    opened.queue.settle(first, 1)
    opened.commit()
    assert opened.journal.nbytes == 0
    opened.end()
    opened = OpenedStore(tmp_path)
    assert bodies(opened.queue) == []
    opened.end()


def test_a_message_among_others_is_not_replaced(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    first = opened.queue.enqueue(batch(b"a", b"b"), 0, 2)
    assert not opened.queue.replace(first, batch(b"new"), 0)
    assert [body for body, _ in bodies(opened.queue)] == [b"a", b"b"]
    opened.end()


def test_what_was_spilled_does_not_outlive_the_node(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a", flags=0), 0, 1)
    opened.queue.page_out(UNLIMITED, 0)
    opened.commit()
    opened.end()
    store = Store(tmp_path, LIMIT, durable=False, epoch=EPOCH + 1)
    assert store.restarted
    assert list(store.segments()) == []
    store.close()


def test_while_contents_are_read_what_is_taken_ends_before_them(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a"), 0, 1)
    opened.queue.enqueue(batch(b"b" * 5000), 0, 1)
    opened.commit()
    opened.queue.page_out(1, 0)
    opened.queue.reading = True
    assert [body for body, _ in bodies(opened.queue)] == [b"a"]
    assert opened.queue.ready == 1
    opened.queue.reading = False
    assert [body for body, _ in bodies(opened.queue)] == [b"b" * 5000]
    opened.end()


def test_another_shards_store_is_refused(tmp_path: Path) -> None:
    Store(tmp_path, LIMIT, durable=False, epoch=EPOCH, shard=2).close()
    with pytest.raises(StoreError, match=f"{tmp_path}: it is the store of shard 2"):
        Store(tmp_path, LIMIT, durable=False, epoch=EPOCH, shard=1)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"x" * 10000)
    with pytest.raises(StoreError, match=f"^{tmp_path}: ") as caught:
        Store(tmp_path, LIMIT, durable=False, epoch=EPOCH)
    assert not caught.value.reason.startswith("mdb_")


def test_a_witness_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "witness" / "shard.0.new").mkdir(parents=True)
    witness = Witness(tmp_path, "shard.0", 1)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "shards" / "0", LIMIT, True, 1, 0, witness)
    assert caught.value.path == witness.path


def test_nothing_is_safe_before_what_was_taken_back_is_written(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    first = opened.queue.enqueue(batch(b"a"), 0, 1)
    opened.queue.pop(1, UNLIMITED, False)
    failed = opened.journal.hand_over()
    assert opened.journal.is_empty()
    opened.queue.settle(first, 1)
    opened.journal.take_back(failed)
    assert not opened.journal.is_empty()
    opened.end()


def test_more_than_the_map_has_room_for_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removals need room as well: a store whose map is full could never become empty."""
    monkeypatch.setattr("shard.store.environment.SLACK", 1 << 20)
    store = Store(tmp_path, 0, durable=False, epoch=EPOCH)
    journal = Journal(store.read)
    queue = Queue(7, None, 0, journal, True)
    for _ in range(30):
        queue.enqueue(batch(bytes(100_000)), 0, 1)
        store.write(journal.hand_over())
    assert store.overflowed()
    assert not store.overflowed()
    assert bodies(queue) == [(bytes(100_000), False)] * 30
    store.close()


def test_what_is_within_its_limit_is_no_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of a shard grows when another shard is removed."""
    monkeypatch.setattr("shard.store.environment.SLACK", 1 << 20)
    store = Store(tmp_path, 0, durable=False, epoch=EPOCH)
    store.limit(10_000_000)
    journal = Journal(store.read)
    queue = Queue(7, None, 0, journal, True)
    for _ in range(30):
        queue.enqueue(batch(bytes(100_000)), 0, 1)
        store.write(journal.hand_over())
    assert not store.overflowed()
    assert not store.is_empty()
    queue.purge()
    store.write(journal.hand_over())
    assert store.is_empty()
    store.discard()
    assert not tmp_path.exists()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.sampled_from((0, PERSISTENT)), min_size=1, max_size=5)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("settle"), st.integers(0, 8)),
        st.tuples(st.just("requeue"), st.integers(0, 8)),
        st.tuples(st.just("drop"), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("fail"), st.none()),
        st.tuples(st.just("page out"), st.integers(1, 100)),
        st.tuples(st.just("crash"), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_any_history_is_recovered_as_of_its_last_commit(
    steps: list[tuple[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store")
    opened = OpenedStore(path)
    number = 0
    there: dict[bytes, int] = {}
    held: dict[bytes, int] = {}
    written: dict[bytes, None] = {}
    for step, value in steps:
        if step == "publish":
            assert isinstance(value, list)
            builder = BatchBuilder()
            names = [b"%d" % (number + i) for i in range(len(value))]
            number += len(value)
            for name, flags in zip(names, value, strict=True):
                builder.add(b"\0\0", bytes(14), name, flags)
            opened.queue.enqueue(builder.finish(), 0, len(names))
            # A transient message is stored if its batch has a persistent one.
            kept = any(value)
            there.update({name: int(kept) for name in names})
        elif step == "take":
            assert isinstance(value, int)
            for item in opened.queue.pop(value, UNLIMITED, False):
                held.update({item.batch.record(item.first + i)[2]: item.sequence + i for i in range(item.count)})
        elif step in ("settle", "requeue") and held:
            assert isinstance(value, int)
            name = list(held)[value % len(held)]
            sequence = held.pop(name)
            if step == "settle":
                opened.queue.settle(sequence, 1)
                del there[name]
            else:
                opened.queue.requeue(sequence, 1)
        elif step == "drop":
            assert isinstance(value, int)
            ready = [name for name in there if name not in held]
            count = opened.queue.drop(value, UNLIMITED, MAXLEN)
            assert count == min(value, len(ready))
            there = _after_drop(opened, there, held)
        elif step == "page out":
            assert isinstance(value, int)
            opened.commit()
            opened.queue.page_out(value, 0)
            opened.commit()
            opened.queue.page_out(value, 0)
            written = dict.fromkeys(name for name, kept in there.items() if kept)
        elif step == "commit":
            opened.commit()
            written = dict.fromkeys(name for name, kept in there.items() if kept)
        elif step == "fail":
            opened.journal.take_back(opened.journal.hand_over())
        elif step == "crash":
            opened.end()
            opened = OpenedStore(path)
            there, held = _recovered(opened, written, number), {}
    opened.commit()
    written = dict.fromkeys(name for name, kept in there.items() if kept)
    opened.end()
    opened = OpenedStore(path)
    _recovered(opened, written, number)
    opened.end()


def _recovered(opened: OpenedStore, written: dict[bytes, None], ever: int) -> dict[bytes, int]:
    """Return the messages of a new incarnation: the written ones in order, maybe with spilled transient ones."""
    assert opened.queue.ready_bytes >= sum(map(len, written))
    taken = opened.queue.pop(UNLIMITED, UNLIMITED, False)
    found = [item.batch.record(item.first + i)[2] for item in taken for i in range(item.count)]
    for item in taken:
        opened.queue.requeue(item.sequence, item.count)
    assert found == sorted(set(found), key=int)
    assert set(written) <= set(found) <= {b"%d" % i for i in range(ever)}
    assert opened.queue.ready == len(found)
    return dict.fromkeys(found, 1)


def _after_drop(opened: OpenedStore, there: dict[bytes, int], held: dict[bytes, int]) -> dict[bytes, int]:
    """Return the remaining messages, found by reading all segments."""
    left = {}
    taken = opened.queue.pop(UNLIMITED, UNLIMITED, False)
    for item in taken:
        for i in range(item.count):
            name = item.batch.record(item.first + i)[2]
            left[name] = there[name]
    for item in taken:
        opened.queue.requeue(item.sequence, item.count)
    return {name: kept for name, kept in there.items() if name in left or name in held}
