"""`penstock store dump`: writes all that a restart of the node would keep to one file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TypeVar

from ops.errors import CommandError
from ops.store.apart import apart
from ops.store.dumped import END, LEASE, MAGIC, MESSAGE, SHARD, TOPOLOGY, VERSION, Count
from ops.store.opened import Opened, opened, store_paths
from ops.store.progress import Step, progress
from ops.store.records import Row, address_of, done_bits, rows
from penstock import __version__
from penstock.batch.batch_cy import PERSISTENT
from penstock.bus import pack
from penstock.files import kept_clock
from penstock.node.clock import wall_us
from router.storage.store import FILE_NAME as TOPOLOGY_FILE
from router.storage.store import Store as TopologyStore
from router.storage.store import Stored
from router.storage.store import StoreError as TopologyError
from shard.contents.errors import StoreError
from shard.contents.queue_cy import NEVER
from shard.contents.segment_cy import Segment
from shard.store.sealed_cy import checksum
from shard.store.stored import KEY, NUMBER, unpack_index


def dump(data: Path, file: Path) -> Count:
    """Write the file, which must not exist yet. CommandError if that fails."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        if file.exists():
            raise CommandError(f"{file} exists already")
        count = apart(f"a store in {data}", partial(_dump, data, unfinished))
        unfinished.rename(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _dump(data: Path, file: Path) -> Count:
    with file.open("wb") as out:
        os.fchmod(out.fileno(), 0o600)
        count = _write(data, out)
        out.flush()
        os.fsync(out.fileno())
    return count


def _write(data: Path, out: BinaryIO) -> Count:
    stored = stored_topology(data)
    first = {"penstock": __version__, "topology": stored.version, "last_queue_id": stored.last_queue_id}
    try:
        noted = kept_clock.read(data)
    except ValueError as error:
        raise CommandError(f"{data / kept_clock.FILE_NAME} cannot be read: {error}") from None
    first |= {"clock": None if noted is None else asdict(noted)}
    out.write(pack([MAGIC, VERSION, first]))
    queues = {change[3] for change in stored.changes if change[0] == "queue"}
    out.writelines(pack([TOPOLOGY, change]) for change in stored.changes)
    messages = nbytes = 0
    _check_decided(data)
    for shard, path in store_paths(data):
        with opened(path, shard) as store, progress(f"shard {shard}", store.entries("index")) as step:
            out.write(pack([SHARD, shard]))
            for item, size in _items(store, queues, step):
                out.write(pack(item))
                messages += item[0] == MESSAGE
                nbytes += size
    out.write(pack([END, messages]))
    return Count(len(queues), messages, nbytes)


def _check_decided(data: Path) -> None:
    """Raise CommandError if a store has transactions whose outcome only other shards know."""
    for shard, path in store_paths(data):
        with opened(path, shard) as store:
            if undecided := store.entries("prepared"):
                raise CommandError(
                    f"shard {shard} does not know the outcome of {undecided} transactions: start the node once, it asks"
                )


def stored_topology(data: Path) -> Stored:
    """Read the durable part of the topology, from a copy: opening the file would begin a new run of the node.

    CommandError if it cannot be read.
    """
    with topology_copy(data, TopologyStore) as store:
        return store.load()


AnyStore = TypeVar("AnyStore", bound=TopologyStore)


@contextmanager
def topology_copy(data: Path, kind: type[AnyStore]) -> Iterator[AnyStore]:
    """Open a copy of the topology. CommandError if it cannot be read."""
    if not (data / TOPOLOGY_FILE).exists():
        raise CommandError(f"{data} is not the data directory of a node: it has no {TOPOLOGY_FILE}")
    with TemporaryDirectory() as copy:
        for name in (TOPOLOGY_FILE, f"{TOPOLOGY_FILE}-wal"):
            if (data / name).exists():
                shutil.copy(data / name, copy)
        try:
            store = kind(Path(copy) / TOPOLOGY_FILE, wall_us())
            try:
                yield store
            finally:
                store.close()
        except TopologyError as error:
            raise CommandError(str(error).replace(copy, str(data))) from None


def _items(store: Opened, queues: set[int], step: Step) -> Iterator[tuple[list[Any], int]]:
    """Yield the items of a store for the existing queues, each with its body size."""
    for key, number in store.unsealed("leases"):
        queue, priority = KEY.unpack(key)
        if queue in queues:
            yield [LEASE, queue, priority, NUMBER.unpack(number)[0]], 0
    returns = {key: NUMBER.unpack(number)[0] for key, number in store.unsealed("counts")}
    contents = store.records("contents")
    for key, record in store.records("index"):
        step(1)
        queue, sequence = KEY.unpack(key)
        if queue not in queues:
            continue
        try:
            segment, expected = unpack_index(key, record)
            if segment.damaged:
                continue
            value = next((value for found, value in contents if found == key), None)
            if value is None:
                raise ValueError("its contents are missing")
            if checksum(value) != expected:
                raise ValueError("its contents are damaged")
            for item in message_items(queue, segment, value, returns):
                yield item, len(item[-1])
        except ValueError as error:
            raise StoreError(store.path, f"queue {queue}, message {sequence}: {error}") from None


def message_items(queue: int, segment: Segment, value: memoryview, returns: dict[bytes, int]) -> Iterator[list[Any]]:
    """Yield items for the messages of a segment that a restart would keep. ValueError if its contents are damaged."""
    for row in rows(segment.count, value):
        if row.flags & PERSISTENT and not done_bits(segment) >> row.offset & 1:
            number = segment.sequence + row.offset
            yield _message(queue, number, segment, row, value, returns.get(KEY.pack(queue, number), 0))


def _message(queue: int, number: int, segment: Segment, row: Row, value: memoryview, returns: int) -> list[Any]:
    expiry: int | None = segment.expiry
    if segment.expiries is not None:
        expiry = int.from_bytes(segment.expiries[8 * row.offset : 8 * row.offset + 8], "little")
    exchange, key = address_of(row, value)
    header, body = bytes(value[row.header : row.body]), bytes(value[row.body : row.end])
    return [
        *(MESSAGE, queue, number, expiry if expiry is not None and expiry < NEVER else None, returns, row.flags),
        *(exchange, key, header, body),
    ]
