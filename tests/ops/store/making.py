"""Stores as shards leave them, made without a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lmdb

from penstock.batch.batch_cy import PERSISTENT, BatchBuilder
from router.storage.store import Store as TopologyStore
from shard.contents.queue_cy import Queue
from shard.store.journal import Journal
from shard.store.store import Store
from shard.store.stored import DATABASES

LIMIT = 1 << 24
PERSISTENT_HEADER_END = b"\x10\x00\x02"
"""Property flags of a message with a delivery mode, and the mode."""


def header(body: bytes) -> bytes:
    """Return the payload of a content header frame for a persistent message."""
    return b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + PERSISTENT_HEADER_END


def address(exchange: str, key: str) -> bytes:
    """Return exchange and routing key as two short strings."""
    names = exchange.encode(), key.encode()
    return b"".join(bytes([len(name)]) + name for name in names)


def topology(data: Path) -> None:
    """Make an empty topology."""
    TopologyStore(data / "topology.sqlite", 1).close()


def made(data: Path, shard: int) -> Path:
    """Make the empty store of a shard; an existing one stays as it is."""
    path = data / "shards" / str(shard)
    Store(path, LIMIT, False, 1, shard).close()
    return path


def fill(data: Path, shard: int, queues: Mapping[int, int], epoch: int = 1) -> Path:
    """Write messages to a store, given their number by queue id, three a segment; return the path of the store."""
    path = data / "shards" / str(shard)
    store = Store(path, LIMIT, False, epoch, shard)
    journal = Journal(store.read)
    for id, count in queues.items():
        queue = Queue(id, None, store.starts << 36, journal, True)
        for first in range(0, count, 3):
            builder = BatchBuilder()
            for number in range(first, min(first + 3, count)):
                body = b"%d of queue %d" % (number, id)
                builder.add(address("", f"q{id}"), header(body), body, PERSISTENT)
            queue.enqueue(builder.finish(), 0, len(builder))
    store.write(journal.hand_over())
    store.close()
    return path


def change(path: Path, alter: Callable[[Any, dict[str, Any]], None]) -> None:
    """Alter a store behind its back; `alter` gets a transaction and the databases by name."""
    with lmdb.open(str(path), max_dbs=len(DATABASES), map_size=1 << 24) as env:
        dbs = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            alter(txn, dbs)
