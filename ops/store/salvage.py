"""`penstock store salvage`: all that can be read of damaged stores, into a new data directory.

Only what its checksum vouches for is taken. Where the index of a store is damaged, all pages are looked through, older
ones too: messages that were done with may come again, marked redelivered, rather than be lost. Transactions that were
not over are undone: what a part was to publish is nowhere, what it was to settle is there.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.errors import CommandError
from ops.store.dump import message_items, topology_copy
from ops.store.dumped import END, LEASE, SHARD
from ops.store.opened import FOLDER
from ops.store.restore import Loading, store_topology
from penstock.batch.batch_cy import SENT_AGAIN
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import Marks, QueueLimits
from router.authority.ledger import Ledger
from router.authority.slots import Slots
from router.commands.accounts import seed
from router.model.records import Queue
from router.model.topology import Topology
from router.storage.store import FILE_NAME as TOPOLOGY_FILE
from router.storage.store import Store as TopologyStore
from router.storage.store import StoreError as TopologyError
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.store.environment import FILE_NAME
from shard.store.facts import FACTS
from shard.store.pages import Pages, Value
from shard.store.sealed_cy import TABLES, TOTAL, TOTALS, Sums, checksum, summed, unseal
from shard.store.stored import FORMAT, KEY, NUMBER, unpack_index

CONTENTS_MAX = 1 << 30


@dataclass(slots=True)
class Salvaged:
    """What was saved of one shard, and what is known to be lost."""

    shard: int
    segments: int = 0
    messages: int = 0
    lost_segments: int = 0
    lost_messages: int = 0
    damaged_pages: int = 0
    undone: int = 0
    """Parts of transactions that were not over: what they were to publish or settle is not done."""
    again: bool = False
    """Whether messages may come that were done with."""


def salvage(data: Path, new: Path) -> tuple[list[Salvaged], str]:
    """What was saved of each shard, and what became of the topology. CommandError if it cannot be written."""
    if (new / TOPOLOGY_FILE).exists() or (new / FOLDER).exists():
        raise CommandError(f"{new} is not empty")
    changes, version, last_queue_id, problem = _topology(data)
    known = {change[3] for change in changes if change[0] == "queue"}
    shards = sorted(path for path in (data / FOLDER).glob("*/" + FILE_NAME) if path.parent.name.isdecimal())
    found = [Salvaged(int(path.parent.name)) for path in shards]
    unknown: dict[int, int] = {}
    try:
        for path, saved in zip(shards, found, strict=True):
            with Loading(new, path.stat().st_size) as loading, Pages(path) as pages:
                loading.take(_items(Salvage(pages, saved), saved, loading, known, unknown))
        changes += [_queue(id, shard) for id, shard in unknown.items()]
        store_topology(new, changes, version, max([last_queue_id, *unknown]))
    except OSError as error:
        raise CommandError(f"{error.filename or new}: {error.strerror}") from None
    except (TopologyError, StoreError) as error:
        raise CommandError(str(error)) from None
    return found, problem


def _topology(data: Path) -> tuple[list[list[Any]], int, int, str]:
    """Its changes, version and last queue id as far as they can be read, and what was wrong."""
    changes: list[list[Any]] = []
    try:
        with topology_copy(data, Unchecked) as store:
            problem = store.problem
            try:
                changes.extend(store.changes())
            except (sqlite3.Error, ValueError) as error:
                problem = str(error)
            return (
                changes,
                store.version(),
                max([0, *(change[3] for change in changes if change[0] == "queue")]),
                problem,
            )
    except (CommandError, TopologyError) as error:
        return _new_node(), 1, 0, f"{error}; users and vhosts are those of a new node"


def _new_node() -> list[list[Any]]:
    """What a new node begins with."""
    ledger = Ledger(Topology(), Slots(0, 1, ()), 0)
    seed(ledger)
    return [step.change for step in ledger.take_steps()]


class Unchecked(TopologyStore):
    """A topology that is taken as it is."""

    problem = ""

    def check_sums(self) -> None:
        try:
            super().check_sums()
        except TopologyError as error:
            self.problem = str(error)


def _queue(id: int, shard: int) -> list[Any]:
    """A queue for messages of one that nobody knows."""
    limits = QueueLimits(None, None, "flow", Marks.NONE).to_wire()
    features = QueueFeatures().to_wire()
    return Queue("/", f"salvaged.{id}", id, -1, shard, True, False, None, {}, limits, features).change()


class Salvage:
    """What can be read of a store: `index` and where the contents may be, `leases` and `returns` by key."""

    def __init__(self, pages: Pages, saved: Salvaged) -> None:
        self.pages = pages
        self.index: dict[bytes, bytes] = {}
        self.again: set[bytes] = set()
        self.contents: dict[bytes, list[Value]] = defaultdict(list)
        databases = pages.databases()
        for key, value in self._walk("index", databases):
            self._take(key, value)
        for key, value in self._walk("contents", databases):
            self.contents[key].append(value)
        self.leases = self._numbers("leases", databases)
        self.returns = self._numbers("counts", databases)
        sums = self._sums(databases)
        saved.undone = self._parts(sums, databases)
        if pages.damaged or not self._is_whole(sums, databases):
            saved.again = True
            self._scan()
        saved.damaged_pages = pages.damaged

    def _take(self, key: bytes, value: Value) -> bool:
        octets = self.pages.read(value)
        try:
            unpack_index(key, octets)
        except (ValueError, struct.error):
            return False
        self.index[key] = octets
        return True

    def _numbers(self, name: str, databases: dict[str, int]) -> dict[bytes, int]:
        found = {}
        for key, value in self._walk(name, databases):
            try:
                found[key] = NUMBER.unpack(unseal(name, key, self.pages.read(value)))[0]
            except (ValueError, struct.error):
                self.pages.damaged += 1
        return found

    def _sums(self, databases: dict[str, int]) -> Sums:
        """What each queue and each table of transactions comes to."""
        sums = Sums()
        for name in summed(self._format(databases)):
            for key, value in self._walk(name, databases):
                sums.replace(name, key, None, self.pages.read(value))
        return sums

    def _format(self, databases: dict[str, int]) -> int:
        """That of today if it cannot be read."""
        for name, value in self._walk(FACTS, databases):
            if name == b"format" and value.size == NUMBER.size:
                return int(NUMBER.unpack(self.pages.read(value))[0])
        return FORMAT

    def _parts(self, sums: Sums, databases: dict[str, int]) -> int:
        """How many parts of transactions the store has, or had: those that cannot be read count too."""
        found, _ = sums.changes.get(TABLES["prepared"], (0, 0))
        for owner, value in self._walk(TOTALS, databases):
            with suppress(ValueError, struct.error):
                if owner == TABLES["prepared"]:
                    found = max(found, TOTAL.unpack(unseal(TOTALS, owner, self.pages.read(value)))[0])
        return max(found, sum(1 for _ in self._walk("prepared", databases)))

    def _is_whole(self, sums: Sums, databases: dict[str, int]) -> bool:
        """Whether each queue and table has what its sums say."""
        try:
            for owner, value in self._walk(TOTALS, databases):
                sums.compare(owner, self.pages.read(value))
        except ValueError:
            return False
        return not sums.rest()

    def _walk(self, name: str, databases: dict[str, int]) -> Iterator[tuple[bytes, Value]]:
        """All that can be read of a database, if it is there."""
        return self.pages.walk(databases[name]) if name in databases else iter(())

    def _scan(self) -> None:
        """Take what looks like records of the index that were not found, and like contents."""
        for key, value in self.pages.scan():
            if len(key) == KEY.size:
                if value.size <= CONTENTS_MAX:
                    self.contents[key].append(value)
                if key not in self.index and value.size < 1 << 20 and self._take(key, value):
                    self.again.add(key)

    def segments(self) -> Iterator[tuple[int, Segment, bytes | None]]:
        """Queue id, segment, its contents if they can be read; in order."""
        for key in sorted(self.index):
            segment, expected = unpack_index(key, self.index[key])
            if segment.damaged or not segment.kept:
                continue
            values = (self.pages.read(value) for value in self.contents[key] if value.size == segment.octets)
            contents = next((value for value in values if checksum(value) == expected), None)
            yield KEY.unpack(key)[0], segment, contents


def _items(
    store: Salvage, saved: Salvaged, loading: Loading, known: set[int], unknown: dict[int, int]
) -> Iterator[list[Any]]:
    """What `Loading` takes, as of a dump."""
    yield [SHARD, saved.shard]
    for key, number in store.leases.items():
        yield [LEASE, *KEY.unpack(key), number]
    end = -1, 0
    for queue, segment, contents in store.segments():
        if contents is None:
            saved.lost_segments, saved.lost_messages = saved.lost_segments + 1, saved.lost_messages + segment.kept
            continue
        if (queue, segment.sequence) < end:
            continue  # an older one, of which part was made another since
        end = queue, segment.sequence + segment.count
        if queue not in known:
            unknown[queue] = saved.shard
        saved.segments += 1
        for item in message_items(queue, segment, memoryview(contents), store.returns):
            if KEY.pack(queue, segment.sequence) in store.again:
                item[5] |= SENT_AGAIN
            saved.messages += 1
            yield item
    yield [END, loading.messages]
