"""The copy of a moving queue in its file: a whole copy is read back unchanged, and a damaged one is not."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.properties import encode_properties
from penstock.batch.batch_cy import HAS_EXPIRATION, HAS_PRIORITY, PERSISTENT, Batch, BatchBuilder
from shard.contents.errors import StoreError
from shard.queue.copying import LINE_BITS, MERGED, NEAR, Piece, Reader, Writer, path_of, remove_all
from shard.queue.queue_state import QueueState
from shard.store.journal import Journal
from tests.shard.making import batch_of, limits_of, queue_of

UNLIMITED = 1 << 62


def copied(queue: QueueState, path: Path) -> Writer:
    """Write the whole copy of a queue; return its writer."""
    writer = Writer(path, queue)
    writer.begin_last_round()
    write_on(writer)
    writer.close()
    return writer


def write_on(writer: Writer) -> None:
    """Write a round to its end."""
    while (chunk := writer.next_chunk()) is not None:
        writer.write(chunk)


def pieces_in(reader: Reader) -> Iterator[Piece]:
    while pieces := reader.next_pieces(UNLIMITED):
        yield from pieces


def messages_in(pieces: Iterator[Piece]) -> list[tuple[int, bytes, bool]]:
    """Return sequence, body and `again` of each message."""
    return [
        (piece.sequence + row, piece.batch.record(row)[2], piece.again)
        for piece in pieces
        for row in range(piece.batch.count)
    ]


def of_priority(priority: int, *bodies: bytes) -> Batch:
    """Return a batch of messages of a priority."""
    builder = BatchBuilder()
    for body in bodies:
        header = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + encode_properties({"priority": priority})
        builder.add(b"\0\1q", header, body, HAS_PRIORITY)
    return builder.finish()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return path_of(tmp_path, 7, 2)


def test_a_copy_that_is_cut_short_is_not_taken(path: Path) -> None:
    queue = queue_of()
    queue.enqueue(batch_of(*(b"%d" % number for number in range(10)), flags=PERSISTENT), 0, 10, 0)
    writer = copied(queue, path)
    assert writer.ended and writer.size == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    reader = Reader(path)
    assert [piece.batch.count for piece in pieces_in(reader)] == [10]
    assert reader.checksum == writer.checksum == zlib.crc32(path.read_bytes())
    assert reader.facts is not None and reader.size == writer.size
    reader.close()
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        cut = Reader(path)
        with pytest.raises(StoreError) as caught:
            list(pieces_in(cut))
        assert str(caught.value) == f"{path}: it is cut short"
        cut.close()


def test_a_changed_byte_changes_the_checksum(path: Path) -> None:
    queue = queue_of()
    queue.enqueue(batch_of(b"body"), 0, 1, 0)
    checksum = copied(queue, path).checksum
    path.write_bytes(path.read_bytes().replace(b"body", b"bodY"))
    reader = Reader(path)
    assert messages_in(pieces_in(reader)) == [(0, b"bodY", False)]
    assert reader.checksum != checksum
    reader.close()


@given(
    st.lists(
        st.tuples(st.sampled_from(("enqueue", "enqueue", "take", "settle", "requeue", "round")), st.integers(1, 5)),
        max_size=30,
    ),
    st.sampled_from((0, 3)),
)
def test_the_ready_messages_are_those_in_the_copy_that_are_not_gone(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], priorities: int
) -> None:
    """However many rounds there are. A message is in one of them, and those of a priority are in order."""
    queue = queue_of(base=1 << 36, max_priority=priorities)
    bodies: dict[int, bytes] = {}
    ready, unacked = set[int](), list[int]()
    path = tmp_path_factory.mktemp("copy") / "move-7-2"
    writer = Writer(path, queue)
    for step, count in steps:
        if step == "enqueue":
            new = [b"%d" % (len(bodies) + number) for number in range(count)]
            first = queue.contents.enqueue(of_priority(count, *new) if priorities else batch_of(*new), 0, count, 0)
            numbers = range(first, first + count)
            bodies |= dict(zip(numbers, new, strict=True))
            ready |= set(numbers)
        elif step == "round":
            writer.begin_round()
            write_on(writer)
        elif step == "take":
            for item in queue.contents.pop(count, UNLIMITED, False):
                unacked += range(item.sequence, item.sequence + item.count)
            ready -= set(unacked)
        elif unacked:
            number = unacked.pop(count % len(unacked))
            if step == "settle":
                queue.contents.settle(number, 1)
            else:
                queue.contents.requeue(number, 1)
                ready.add(number)
    writer.begin_last_round()
    write_on(writer)
    writer.close()
    reader = Reader(path)
    found = messages_in(pieces_in(reader))
    assert reader.facts is not None and reader.checksum == writer.checksum
    reader.close()
    gone = {number for first, end in reader.facts.gone for number in range(first, end)}
    numbers = [sequence for sequence, _, _ in found]
    assert len(set(numbers)) == len(numbers)
    for priority in {number >> LINE_BITS for number in numbers}:
        line = [number for number in numbers if number >> LINE_BITS == priority]
        assert line == sorted(line)
    assert {sequence: body for sequence, body, _ in found if sequence not in gone} == {
        number: bodies[number] for number in ready
    }
    assert gone <= set(numbers)


def test_the_last_round_is_small_once_a_round_has_most(path: Path) -> None:
    queue = queue_of()
    body = bytes(NEAR // 8)
    for _ in range(9):
        queue.enqueue(batch_of(body), 0, 1, 0)
    writer = Writer(path, queue)
    assert not writer.is_near()
    writer.begin_round()
    write_on(writer)
    assert writer.is_near()
    for _ in range(9):
        queue.enqueue(batch_of(body), 0, 1, 0)
    assert not writer.is_near()
    before = writer.size
    queue.contents.pop(12, UNLIMITED, True)
    writer.begin_last_round()
    write_on(writer)
    writer.close()
    assert writer.size - before < 7 * len(body)


def test_small_segments_share_a_piece_but_none_that_expires_otherwise(path: Path) -> None:
    """A piece has one expiry, or one for each message."""
    queue = queue_of(message_ttl=1000)
    for now in (0, 0, 5):
        queue.enqueue(batch_of(b"a", b"b"), 0, 2, now)
    builder = BatchBuilder()
    for milliseconds in ("7", "9"):
        header = b"\0\x3c\0\0" + bytes(8) + encode_properties({"expiration": milliseconds})
        builder.add(b"\0\1q", header, b"own", HAS_EXPIRATION)
    queue.enqueue(builder.finish(), 0, 2, 0)
    copied(queue, path)
    reader = Reader(path)
    pieces = list(pieces_in(reader))
    reader.close()
    assert [(piece.sequence, piece.batch.count) for piece in pieces] == [(0, 4), (4, 2), (6, 2)]
    assert [piece.expiry for piece in pieces[:2]] == [1_000_000, 1_000_005]
    assert [piece.expiries is None for piece in pieces] == [True, True, False]
    expiries = pieces[2].expiries
    assert expiries is not None
    assert [int.from_bytes(expiries[at : at + 8], "little") for at in (0, 8)] == [7000, 9000]


def test_a_piece_is_bounded(path: Path) -> None:
    queue = queue_of()
    body = bytes(10_000)
    for _ in range(100):
        queue.enqueue(batch_of(body), 0, 1, 0)
    copied(queue, path)
    reader = Reader(path)
    sizes = [piece.batch.whole(0, piece.batch.count) for piece in pieces_in(reader)]
    reader.close()
    assert max(sizes) <= MERGED + 11_000 and len(sizes) == 4


def test_messages_that_may_be_replaced_have_pieces_of_their_own(path: Path) -> None:
    """Each last value can be replaced at the new home, too."""
    queue = queue_of(limits_of("last-value"), last_value_key="k")
    for _ in range(3):
        queue.enqueue(batch_of(b"x"), 0, 1, 0)
    copied(queue, path)
    reader = Reader(path)
    assert [piece.batch.count for piece in pieces_in(reader)] == [1, 1, 1]
    reader.close()


def test_the_state_beside_the_messages_is_in_the_copy(path: Path) -> None:
    queue = queue_of(now=12, delivery_limit=5)
    queue.enqueue(batch_of(b"1", b"22", b"333"), 0, 3, 0)
    for settled in (True, False):
        queue.contents.pop(1, UNLIMITED, settled)
    queue.contents.requeue(1, 1)
    queue.usage.had_consumers = queue.usage.consumed = queue.exemption.lagging = True
    copied(queue, path)
    reader = Reader(path)
    list(pieces_in(reader))
    reader.close()
    facts = reader.facts
    assert facts is not None
    assert [tuple(each) for each in facts.positions] == queue.contents.positions()
    assert [tuple(each) for each in facts.deliveries] == queue.contents.delivery_counts() == [(1, 1)]
    assert tuple(facts.totals) == (3, 2, 1, 0, 0, 6, 3)
    assert (facts.counted_since, facts.stop, tuple(facts.lent)) == (12, None, (0, 0))
    assert facts.had_consumers and facts.consumed and facts.lagging


def test_contents_in_the_store_are_read_for_the_copy_and_stay_there(path: Path) -> None:
    written: dict[bytes, Batch] = {}
    journal = Journal(lambda key, count, spilled: written[key])
    queue = queue_of(journal=journal)
    queue.enqueue(batch_of(b"a", b"b", flags=PERSISTENT), 0, 2, 0)
    for key, parts in journal.hand_over().kept.contents.items():
        assert parts is not None
        written[key] = Batch(*map(bytes, parts))
    journal.written()
    queue.contents.page_out(UNLIMITED, 0)
    assert queue.weight == 0
    copied(queue, path)
    reader = Reader(path)
    assert messages_in(pieces_in(reader)) == [(0, b"a", False), (1, b"b", False)]
    reader.close()
    assert queue.weight == 0


def test_copies_of_an_earlier_run_are_removed_and_nothing_else(tmp_path: Path) -> None:
    copies = [path_of(tmp_path, queue, epoch) for queue, epoch in ((1, 1), (22, 333))]
    for path in (*copies, tmp_path / "data.mdb"):
        path.touch()
    remove_all(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "data.mdb"]
    remove_all(tmp_path / "absent")
