"""A data directory with everything that a dump has to keep, and the contents expected after a restore."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.batch.batch_cy import PERSISTENT, BatchBuilder
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import Marks, QueueLimits
from router.authority.ledger import Step
from router.model.records import Queue as QueueRecord
from router.storage.store import Store as TopologyStore
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.contents.segment_cy import Segment
from shard.store.journal import Journal
from shard.store.store import Store
from tests.ops.store.making import LIMIT, address, fill, header

NAMES = {7: "plain", 8: b"caf\xe9".decode("utf-8", "surrogateescape"), 9: "other shard"}

GONE = (10, 77)
"""Queues that a restart of the node does not keep: a transient one, and one that was deleted."""


def with_topology(data: Path) -> None:
    """Store a topology of durable queues and a transient one."""
    store = TopologyStore(data / "topology.sqlite", 1)
    steps = [Step(["vhost", "/"], True)]
    limits, features = QueueLimits(None, None, "flow", Marks.NONE).to_wire(), QueueFeatures().to_wire()
    for id, name in {**NAMES, 10: "transient"}.items():
        arguments = {"x-odd": Decimal("1.5"), "x-octets": b"\xff"}
        record = QueueRecord(
            "/", name, id, id, id // 9, id != 10, False, None, arguments, limits, features, maker="bob"
        )
        steps.append(Step(record.change(), id != 10))
    store.commit(steps, 33, 10)
    store.close()


def everything(data: Path) -> dict[tuple[int, int], Any]:
    """Return everything that has to survive of two stores, by queue id and number."""
    found: dict[tuple[int, int], Any] = {}
    for shard in (0, 1):
        store = Store(data / "shards" / str(shard), LIMIT, False, 1, shard)
        journal = Journal(store.read)
        returns = {(queue, number): count for queue, number, count in store.numbers("counts")}
        leases = {(queue, priority): number for queue, priority, number in store.numbers("leases")}
        for id, segment in store.segments():
            batch = journal.load(id, segment)
            for offset, count in segment.undone():
                for row in range(offset, offset + count):
                    key = id, segment.sequence + row
                    if batch.flags(row) & PERSISTENT and id not in GONE:
                        found[key] = batch.record(row), batch.flags(row), expiry(segment, row), returns.get(key)
        found.update({(-1 - id, priority): number for (id, priority), number in leases.items() if id not in GONE})
        store.close()
    return found


def expiry(segment: Segment, row: int) -> int:
    """Return the expiry of a message of a segment."""
    if segment.expiries is None:
        return segment.expiry
    return int.from_bytes(segment.expiries[8 * row : 8 * row + 8], "little")


def eventful(data: Path) -> None:
    """Write messages of several incarnations: with expiries, settled, returned, in mixed batches, of deleted queues."""
    fill(data, 0, {7: 10, 8: 4, 10: 2, 77: 3})
    fill(data, 1, {9: 5})
    for incarnation in range(2):
        store = Store(data / "shards" / "0", LIMIT, False, 1, 0)
        journal = Journal(store.read)
        queue = Queue(7, None, store.starts << 36, journal, True)
        leases = {priority: number for id, priority, number in store.numbers("leases") if id == 7}
        queue.recover([segment for id, segment in store.segments() if id == 7], leases)
        queue.configure(5000 if incarnation else -1, False, 3)
        builder = BatchBuilder()
        for number in range(6):
            body = bytes([number]) * 300 * number
            flags = PERSISTENT if number != 2 else 0
            own = b"\x10\x00\x02" if number != 4 else b"\x11\x00\x02\x04" + b"9000"
            builder.add(address("x", "k"), header(body)[:-3] + own, body, flags | (4 if number == 4 else 0))
        queue.enqueue(builder.finish(), 0, 6, 1000)
        for item in queue.pop(4, UNLIMITED, False):
            for number in range(item.sequence, item.sequence + item.count):
                if number % 2:
                    queue.settle(number, 1)
                else:
                    queue.requeue(number, 1)
        store.write(journal.hand_over())
        store.close()
