"""`penstock store check`: reads every record of every store, and compares it with the records that refer to it.

The store of a running node is checked piece by piece: space that is freed meanwhile is not reused while a snapshot is
open, so none is open for longer than SNAPSHOT_SECONDS, or than it takes to count the records of one queue. Each piece
is the store at one moment; a segment is in one piece with its contents, and a queue with its sums.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ops.store.opened import Opened, opened
from ops.store.progress import Step, progress
from ops.store.records import address_of, check_header, done_bits, rows
from penstock import bus
from penstock.batch.batch_cy import PERSISTENT
from shard.contents.segment_cy import Segment
from shard.store.environment import FILE_NAME
from shard.store.sealed_cy import CHECKSUM, SUMMED, TABLES, TOTALS, Sums, checksum, unseal
from shard.store.stored import KEY, NUMBER, QUEUE, TRANSACTION, unpack_index
from shard.transactions.prepared import split

PROBLEMS_MAX = 20
"""Problems of one store that are kept as texts; the rest are counted."""
SNAPSHOT_SECONDS = 1.0
OF_QUEUES = tuple(name for name in SUMMED if name not in TABLES)

Over = Callable[[], bool]
"""Whether the snapshot is to be released."""


@dataclass(slots=True)
class Findings:
    """The findings in one store. `message_bytes` is the size of its messages, `size` that of its file in bytes."""

    shard: int
    path: str
    queues: int = 0
    segments: int = 0
    messages: int = 0
    message_bytes: int = 0
    size: int = 0
    problems: int = 0
    first_problems: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        """Record a problem."""
        self.problems += 1
        if len(self.first_problems) < PROBLEMS_MAX:
            self.first_problems.append(text)

    def complain_if_wrong(self, examine: Callable[[], object]) -> None:
        """Call `examine`, and record the problem that it raises, if any."""
        try:
            examine()
        except (ValueError, struct.error) as error:
            self.complain(str(error))


def check(path: Path, shard: int, live: bool = False) -> Findings:
    """Check one store; `live` means that a node has it open. StoreError if it cannot be opened."""
    found = Findings(shard, str(path), size=(path / FILE_NAME).stat().st_size)
    with opened(path, shard, live) as store:
        total = sum(store.entries(name) for name in ("contents", *SUMMED, "links"))
    with progress(f"shard {shard}", total) as step:
        for examine in (_check_segments, _check_queues, _check_tables, _check_parts, _check_decisions, _check_links):
            first: bytes | None = b""
            while first is not None:
                with opened(path, shard, live) as store:
                    first = examine(store, first, found, step, _snapshot_is_over(live))
    return found


def _snapshot_is_over(live: bool) -> Over:
    if not live:
        return lambda: False
    until = time.monotonic() + SNAPSHOT_SECONDS
    return lambda: time.monotonic() >= until


# Each check begins at a key, and returns the key at which to continue, or None at the end


def _check_segments(store: Opened, first: bytes, found: Findings, step: Step, is_over: Over) -> bytes | None:
    queue, end = -1, 0
    for key, record, value in _paired(store, first):
        if key != first and is_over():
            return key
        step((record is not None) + (value is not None))
        if record is None:
            found.complain(f"{_named(key)}: contents without an index record")
            continue
        try:
            id, sequence = KEY.unpack(key)
            segment, expected = unpack_index(key, record)
            found.segments += 1
            found.messages += segment.kept
            begins_early = id == queue and sequence < end
            queue, end = id, sequence + segment.count
            if begins_early:
                raise ValueError("begins before the segment before it ends")
            if done_bits(segment) >> segment.count:
                raise ValueError("more messages are marked as done than it has")
            if value is None:
                raise ValueError("its contents are missing")
            if segment.damaged:
                raise ValueError("its contents were damaged, and were set aside")
            found.message_bytes += len(value)
            _check_contents(segment, value)
            if checksum(value) != expected:
                raise ValueError("its contents are damaged")
        except (ValueError, struct.error) as error:
            found.complain(f"{_named(key)}: {error}")
    return None


def _paired(store: Opened, first: bytes) -> Iterator[tuple[bytes, memoryview | None, memoryview | None]]:
    """Yield each key of index and contents with its values in both, in order, in one walk over both."""
    both = store.records("index", first), store.records("contents", first)
    heads = [next(each, None) for each in both]
    while keys := [head[0] for head in heads if head is not None]:
        key = min(keys)
        values = [head[1] if head is not None and head[0] == key else None for head in heads]
        yield key, values[0], values[1]
        heads = [
            next(each, None) if value is not None else head
            for each, head, value in zip(both, heads, values, strict=True)
        ]


def _check_contents(segment: Segment, value: memoryview) -> None:
    """Raise ValueError if the contents of a segment contradict its index record, or are not messages."""
    if segment.nbytes != len(value):
        raise ValueError(f"{len(value)} bytes of contents, {segment.nbytes} in the index")
    body_bytes, common = 0, PERSISTENT
    for row in rows(segment.count, value):
        address_of(row, value)
        check_header(row, value)
        body_bytes += row.end - row.body
        common &= row.flags
    if body_bytes != segment.body_bytes:
        raise ValueError(f"{body_bytes} bytes of bodies, {segment.body_bytes} in the index")
    if segment.mixed == bool(common & PERSISTENT):
        raise ValueError("the index is wrong about whether all of its messages are persistent")


def _check_queues(store: Opened, first: bytes, found: Findings, step: Step, is_over: Over) -> bytes | None:
    """Compare the records of each queue with its sums."""
    owner: bytes | None = first
    while owner is not None and (owner := _next_owner(store, owner)) is not None:
        if owner != first and is_over():
            return owner
        _check_queue(store, owner, found, step)
        owner = _after(owner)
    return None


def _next_owner(store: Opened, owner: bytes) -> bytes | None:
    """Return the first owner of any record, from `owner` on; None if there is none."""
    heads = (next(store.records(name, owner), None) for name in (*OF_QUEUES, TOTALS))
    return min((head[0][: QUEUE.size] for head in heads if head is not None), default=None)


def _after(owner: bytes) -> bytes | None:
    """Return the least key that a later owner may have; None if there can be none."""
    if len(owner) < QUEUE.size:
        return owner + b"\0"
    (id,) = QUEUE.unpack(owner)
    return QUEUE.pack(id + 1) if id + 1 < 1 << 64 else None


def _check_queue(store: Opened, owner: bytes, found: Findings, step: Step) -> None:
    if owner in TABLES.values():
        return
    sums = Sums()
    for name in OF_QUEUES:
        for key, value in _owned(store, name, owner):
            sums.replace(name, key, None, value)
            if name != "index":
                step(1)
                found.complain_if_wrong(partial(unseal, name, key, value))
            if name in ("leases", "counts") and (len(key), len(value)) != (KEY.size, NUMBER.size + CHECKSUM):
                found.complain(f"{name}: a record of {len(value)} bytes under a key of {len(key)}")
    found.queues += any(True for _ in _owned(store, "index", owner))
    _compare(store, owner, sums, found)


def _owned(store: Opened, name: str, owner: bytes) -> Iterator[tuple[bytes, memoryview]]:
    for key, value in store.records(name, owner):
        if key[: QUEUE.size] != owner:
            return
        yield key, value


def _compare(store: Opened, owner: bytes, sums: Sums, found: Findings) -> None:
    for key, value in _owned(store, TOTALS, owner):
        found.complain_if_wrong(partial(sums.compare, key, value))
    for text in sums.rest():
        found.complain(text)


def _check_tables(store: Opened, _: bytes, found: Findings, step: Step, is_over: Over) -> bytes | None:
    """Compare the numbers of transactions with their sums."""
    for name, owner in TABLES.items():
        sums = Sums()
        for key, value in store.records(name):
            sums.replace(name, key, None, value)
        _compare(store, owner, sums, found)
    return None


def _check_parts(store: Opened, first: bytes, found: Findings, step: Step, is_over: Over) -> bytes | None:
    return _each(store, "prepared", first, found, step, is_over, _check_part_record)


def _check_part_record(key: bytes, record: bytes) -> None:
    TRANSACTION.unpack(key)
    for publish in split(record)[2]:
        contents = memoryview(publish.value)
        for row in rows(publish.messages, contents):
            address_of(row, contents)
            check_header(row, contents)


def _check_decisions(store: Opened, first: bytes, found: Findings, step: Step, is_over: Over) -> bytes | None:
    return _each(store, "decisions", first, found, step, is_over, _check_decision_record)


def _check_decision_record(key: bytes, record: bytes) -> None:
    TRANSACTION.unpack(key)
    bus.unpack(record)


def _check_links(store: Opened, first: bytes, found: Findings, step: Step, is_over: Over) -> bytes | None:
    return _each(store, "links", first, found, step, is_over, lambda key, record: None)


def _each(
    store: Opened, name: str, first: bytes, found: Findings, step: Step, is_over: Over,
    examine: Callable[[bytes, bytes], object],
) -> bytes | None:  # fmt: skip
    """Check records that belong to no queue: their checksums, then their contents with `examine`."""
    for key, value in store.records(name, first):
        if key != first and is_over():
            return key
        step(1)
        try:
            examine(key, unseal(name, key, value))
        except (ValueError, struct.error) as error:
            found.complain(f"{name}: {key.hex()}: {error}")
    return None


def _named(key: bytes) -> str:
    if len(key) != KEY.size:
        return f"key {key.hex()}"
    queue, sequence = KEY.unpack(key)
    return f"queue {queue}, message {sequence}"
