"""`penstock store restore FILE`: loads a dump into a new data directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgpack

from ops.errors import CommandError
from ops.store.dumped import END, LEASE, MAGIC, MESSAGE, SHARD, TOPOLOGY, VERSION, Count, of_today
from ops.store.opened import FOLDER
from ops.store.progress import Step, progress
from penstock.batch.batch_cy import BatchBuilder
from penstock.bus import unpack_stream
from penstock.files import kept_clock
from penstock.node.clock import wall_us
from router.authority.ledger import Step as Change
from router.storage.store import FILE_NAME as TOPOLOGY_FILE
from router.storage.store import Store as TopologyStore
from router.storage.store import StoreError as TopologyError
from shard.contents.errors import StoreError
from shard.contents.queue_cy import NEVER
from shard.contents.segment_cy import Segment
from shard.store.journal import Journal
from shard.store.store import Store

ITEM_BYTES = (1 << 31) - 1
"""The largest item in bytes: a message may have a body of 1 GiB (`amqp.max_message_size`)."""
SEGMENT_BYTES = 256 * 1024
COMMIT_BYTES = 8 * 1024 * 1024
"""Messages are gathered into segments, and segments into commits, up to these sizes in bytes."""


def restore(file: Path, data: Path) -> Count:
    """Load a dump into a data directory. CommandError if that fails; nothing of it is then left."""
    if (data / TOPOLOGY_FILE).exists() or (data / FOLDER).exists():
        raise CommandError(f"{data} is not empty")
    try:
        return _restore(file, data)
    except BaseException as error:
        _remove(data)
        if isinstance(error, OSError):
            raise CommandError(f"cannot restore {file}: {error.strerror}") from None
        if isinstance(error, (TopologyError, StoreError)):
            raise CommandError(str(error)) from None
        if isinstance(error, (ValueError, TypeError, IndexError, KeyError, msgpack.UnpackException)):
            raise CommandError(f"{file} is not a dump, or it is damaged: {error}") from None
        raise


def _remove(data: Path) -> None:
    shutil.rmtree(data / FOLDER, ignore_errors=True)
    (data / kept_clock.FILE_NAME).unlink(missing_ok=True)
    for path in data.glob(f"{TOPOLOGY_FILE}*"):
        path.unlink(missing_ok=True)


def _restore(file: Path, data: Path) -> Count:
    with file.open("rb") as source, progress(str(file), file.stat().st_size) as step:
        items = unpack_stream(source, ITEM_BYTES)
        first: Any = next(items, None)
        if not isinstance(first, list) or first[:1] != [MAGIC]:
            raise CommandError(f"{file} is not a dump")
        version = first[1]
        if version not in range(1, VERSION + 1):
            raise CommandError(f"{file} is a dump of version {version}, this penstock knows versions 1 to {VERSION}")
        with Loading(data, file.stat().st_size) as loading:
            loading.load(_with_progress(items, source, step))
        changes = [of_today(change, version) for change in loading.changes]
        _store_clock(data, first[2].get("clock"))
        store_topology(data, changes, first[2]["topology"], first[2]["last_queue_id"])
        return Count(sum(change[0] == "queue" for change in changes), loading.messages, loading.nbytes)


def _with_progress(items: Iterator[Any], source: Any, step: Step) -> Iterator[Any]:
    at = 0
    for item in items:
        yield item
        here = source.tell()
        step(here - at)
        at = here


class Loading:
    """A loader of the items of a dump: it writes messages into the stores of their shards."""

    def __init__(self, data: Path, nbytes: int) -> None:
        """`nbytes` is the approximate size of the dump."""
        self.changes: list[list[Any]] = []
        self.messages = 0
        self.nbytes = 0
        self._data = data
        self._most = nbytes
        self._store: Store | None = None
        self._gathered = 0
        self._queue = self._first = 0
        self._builder = BatchBuilder()
        self._expiries: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def load(self, items: Iterator[Any]) -> None:
        """Load all items after the first. ValueError if one is unknown, or the end is missing or wrong."""
        for kind, *fields in items:
            if kind == TOPOLOGY:
                self.changes += fields
            elif kind == SHARD:
                self._finish_store()
                path = self._data / FOLDER / str(int(fields[0]))
                self._store = Store(path, self._most, durable=False, epoch=0, shard=fields[0])
                self._journal = Journal(self._store.read)
            elif kind == LEASE:
                self._journal.lease(*fields)
            elif kind == MESSAGE:
                self._message(*fields)
            elif kind == END:
                if fields != [self.messages]:
                    raise ValueError(f"it has {self.messages} messages instead of {fields[0]}")
                self._finish_store()
                return
            else:
                raise ValueError(f"it has a {kind!r}")
        raise ValueError("its end is missing")

    def _message(
        self, queue: int, number: int, expiry: int | None, returns: int, flags: int, exchange: bytes, key: bytes,
        header: bytes, body: bytes,
    ) -> None:  # fmt: skip
        if (queue, number) != (self._queue, self._first + len(self._builder)) or self._builder.used > SEGMENT_BYTES:
            self._finish_segment()
            self._queue, self._first = queue, number
        address = b"%c%b%c%b" % (len(exchange), exchange, len(key), key)
        self._builder.add(address, header, body, flags)
        self._expiries.append(NEVER if expiry is None else expiry)
        if returns:
            self._journal.count(queue, number, returns)
        self.messages += 1
        self.nbytes += len(body)

    def _finish_segment(self) -> None:
        if not self._expiries:
            return
        segment = Segment(self._builder.finish(), 0, len(self._expiries), self._first)
        segment.body_bytes = segment.batch.body_bytes(0, segment.count)
        segment.stored = True
        if min(self._expiries) == max(self._expiries):
            segment.expiry = self._expiries[0]
        else:
            segment.expiries = bytearray(b"".join(expiry.to_bytes(8, "little") for expiry in self._expiries))
        self._journal.add(self._queue, segment)
        self._gathered += self._builder.used
        self._builder, self._expiries = BatchBuilder(), []
        if self._gathered > COMMIT_BYTES:
            self._commit()

    def _commit(self) -> None:
        assert self._store is not None
        self._gathered = 0
        self._store.write(self._journal.hand_over())

    def _finish_store(self) -> None:
        if self._store is not None:
            self._finish_segment()
            self._commit()
            self._store.sync()
            self._store.close()
            self._store = None


def _store_clock(data: Path, noted: Any) -> None:
    """Restore the node's clock, on which its deadlines are based."""
    if noted is None:
        (data / kept_clock.FILE_NAME).unlink(missing_ok=True)
    else:
        kept_clock.write(data, kept_clock.Noted.of(noted))


def store_topology(data: Path, changes: list[list[Any]], version: int, last_queue_id: int) -> None:
    """Store the topology. This comes last: until then the messages belong to no queue."""
    store = TopologyStore(data / TOPOLOGY_FILE, wall_us())
    try:
        store.commit([Change(change, True) for change in changes], version, last_queue_id)
    finally:
        store.close()
