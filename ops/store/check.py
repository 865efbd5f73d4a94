"""`penstock store check`: every record of every store is read and compared with what others say of it."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ops.store.opened import Opened, opened
from ops.store.progress import Step, progress
from ops.store.records import address_of, check_header, done_bits, rows
from penstock import bus
from penstock.batch_cy import PERSISTENT
from router.store import FILE_NAME as TOPOLOGY
from shard.prepared import split
from shard.sealed import CHECKSUM, SEALED, SUMMED, TOTALS, Sums, checksum, unseal
from shard.segment_cy import Segment
from shard.stored import KEY, NUMBER, TRANSACTION, unpack_index

PROBLEMS_MAX = 20
"""Of one store so many problems are kept as texts, the rest is counted."""


@dataclass(slots=True)
class Findings:
    """What was found in one store. `octets` is what messages take in it, `size` that of its file."""

    shard: int
    path: str
    queues: int = 0
    segments: int = 0
    messages: int = 0
    octets: int = 0
    size: int = 0
    problems: int = 0
    first_problems: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        self.problems += 1
        if len(self.first_problems) < PROBLEMS_MAX:
            self.first_problems.append(text)


def check(path: Path, shard: int) -> Findings:
    """Look through one store. StoreError if it cannot be opened."""
    found = Findings(shard, str(path), size=(path / "data.mdb").stat().st_size)
    with opened(path, shard) as store:
        names = ("index", "contents", "leases", "counts", "prepared", "decisions")
        total = sum(store.entries(name) for name in names)
        with progress(f"shard {shard}", total) as step:
            _check_segments(store, found, step)
            for name in ("leases", "counts"):
                _check_numbers(store, name, found, step)
            _check_transactions(store, found, step)
        _check_sums(store, found)
    return found


def _check_segments(store: Opened, found: Findings, step: Step) -> None:
    queue, end = -1, 0
    for key, record, value in _paired(store):
        step((record is not None) + (value is not None))
        if record is None:
            found.complain(f"{_named(key)}: contents that the index does not know")
            continue
        try:
            id, sequence = KEY.unpack(key)
            segment, expected = unpack_index(key, record)
            found.queues += id != queue
            begins_early = id == queue and sequence < end
            queue, end = id, sequence + segment.count
            found.segments += 1
            found.messages += segment.kept
            if begins_early:
                raise ValueError("begins before the segment before it ends")
            if done_bits(segment) >> segment.count:
                raise ValueError("more messages are done with than there are")
            if value is None:
                raise ValueError("its contents are missing")
            if segment.damaged:
                raise ValueError("its contents were damaged, and were set aside")
            found.octets += len(value)
            _check_contents(segment, value)
            if checksum(value) != expected:
                raise ValueError("its contents are damaged")
        except (ValueError, struct.error) as error:
            found.complain(f"{_named(key)}: {error}")


def _paired(store: Opened) -> Iterator[tuple[bytes, memoryview | None, memoryview | None]]:
    """Each key of index and contents with what it has in the one and in the other, in order: one walk over both."""
    both = store.records("index"), store.records("contents")
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
    """ValueError if the contents of a segment are not what its index record says, or not messages."""
    if segment.octets != len(value):
        raise ValueError(f"{len(value)} octets of contents, {segment.octets} in the index")
    body_bytes, common = 0, PERSISTENT
    for row in rows(segment.count, value):
        address_of(row, value)
        check_header(row, value)
        body_bytes += row.end - row.body
        common &= row.flags
    if body_bytes != segment.body_bytes:
        raise ValueError(f"{body_bytes} octets of bodies, {segment.body_bytes} in the index")
    if segment.mixed == bool(common & PERSISTENT):
        raise ValueError("the index is wrong about whether all of its messages are persistent")


def _check_numbers(store: Opened, name: str, found: Findings, step: Step) -> None:
    for key, record in store.records(name):
        step(1)
        if len(key) != KEY.size or len(record) != NUMBER.size + CHECKSUM:
            found.complain(f"{name}: a record of {len(record)} octets under a key of {len(key)}")


def _check_transactions(store: Opened, found: Findings, step: Step) -> None:
    for key, value in store.records("prepared"):
        step(1)
        try:
            TRANSACTION.unpack(key)
            for publish in split(unseal("prepared", key, value))[2]:
                contents = memoryview(publish.value)
                for row in rows(publish.messages, contents):
                    address_of(row, contents)
                    check_header(row, contents)
        except (ValueError, struct.error) as error:
            found.complain(f"prepared: {key.hex()}: {error}")
    for key, value in store.records("decisions"):
        step(1)
        try:
            TRANSACTION.unpack(key)
            bus.unpack(unseal("decisions", key, value))
        except (ValueError, struct.error) as error:
            found.complain(f"decisions: {key.hex()}: {error}")


def _check_sums(store: Opened, found: Findings) -> None:
    """Each record with its checksum, each queue and table with its sums. Some were looked at already."""
    sums = Sums()
    for name in SEALED:
        for key, value in store.records(name):
            if name in SUMMED:
                sums.replace(name, key, None, value)
            if name not in ("index", "prepared", "decisions"):
                _complain_of(found, partial(unseal, name, key, value))
    for owner, value in store.records(TOTALS):
        _complain_of(found, partial(sums.compare, owner, value))
    for text in sums.rest():
        found.complain(text)


def _complain_of(found: Findings, look: Callable[[], object]) -> None:
    try:
        look()
    except (ValueError, struct.error) as error:
        found.complain(str(error))


def _named(key: bytes) -> str:
    if len(key) != KEY.size:
        return f"key {key.hex()}"
    queue, sequence = KEY.unpack(key)
    return f"queue {queue}, message {sequence}"


def check_topology(data: Path) -> list[str]:
    """What is wrong with the file of exchanges, queues and bindings; nothing if there is none."""
    path = data / TOPOLOGY
    if not path.exists():
        return []
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            found = [str(row[0]) for row in database.execute("PRAGMA integrity_check")]
        finally:
            database.close()
    except sqlite3.Error as error:
        return [f"{path}: {error}"]
    return [f"{path}: {text}" for text in found if text != "ok"]
