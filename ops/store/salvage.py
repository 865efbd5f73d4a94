"""`penstock store salvage`: saves all that is readable in damaged stores into a new data directory.

Only records with a correct checksum are saved. If the index of a store is damaged, all its pages are scanned, older
ones too: messages that were removed may return, marked redelivered, rather than be lost. Unfinished transactions are
undone: messages that a part was to publish are dropped, those that it was to settle are kept.
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
    """The numbers of records saved from one shard, and of those known to be lost."""

    shard: int
    segments: int = 0
    messages: int = 0
    lost_segments: int = 0
    lost_messages: int = 0
    damaged_pages: int = 0
    undone: int = 0
    """Parts of unfinished transactions: their publishes and settlements are not done."""
    again: bool = False
    """Whether messages that were removed may return."""


def salvage(data: Path, new: Path) -> tuple[list[Salvaged], str]:
    """Salvage all stores of `data` into `new`. Returns the outcome of each shard, and the problem of the topology or
    "". CommandError if `new` is not empty or cannot be written.
    """
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
                loading.load(_items(Salvage(pages, saved), saved, loading, known, unknown))
        changes += [_queue(id, shard) for id, shard in unknown.items()]
        store_topology(new, changes, version, max([last_queue_id, *unknown]))
    except OSError as error:
        raise CommandError(f"{error.filename or new}: {error.strerror}") from None
    except (TopologyError, StoreError) as error:
        raise CommandError(str(error)) from None
    return found, problem


def _topology(data: Path) -> tuple[list[list[Any]], int, int, str]:
    """Return the topology's changes, version and last queue id, as far as they are readable, and its problem or ""."""
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
    """Return the changes with which a new node begins."""
    ledger = Ledger(Topology(), Slots(range(1), ()), 0)
    seed(ledger)
    return [step.change for step in ledger.take_steps()]


class Unchecked(TopologyStore):
    """A topology with wrong sums is opened all the same; `problem` describes them."""

    problem = ""

    def check_sums(self) -> None:
        try:
            super().check_sums()
        except TopologyError as error:
            self.problem = str(error)


def _queue(id: int, shard: int) -> list[Any]:
    """Return a queue for the messages of a queue that is missing from the topology."""
    limits = QueueLimits(None, None, "flow", Marks.NONE).to_wire()
    features = QueueFeatures().to_wire()
    return Queue("/", f"salvaged.{id}", id, -1, shard, True, False, None, {}, limits, features).change()


class Salvage:
    """The readable records of a store, by key: `index`, possible places of `contents`, `leases` and `returns`."""

    def __init__(self, pages: Pages, saved: Salvaged) -> None:
        self.pages = pages
        self.index: dict[bytes, bytes] = {}
        self.scanned: set[bytes] = set()
        self.contents: dict[bytes, list[Value]] = defaultdict(list)
        databases = pages.databases()
        for key, value in self._walk("index", databases):
            self._add_index_record(key, value)
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

    def _add_index_record(self, key: bytes, value: Value) -> bool:
        data = self.pages.read(value)
        try:
            unpack_index(key, data)
        except (ValueError, struct.error):
            return False
        self.index[key] = data
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
        """Sum up the records of each queue and each table of transactions."""
        sums = Sums()
        for name in summed(self._format(databases)):
            for key, value in self._walk(name, databases):
                sums.replace(name, key, None, self.pages.read(value))
        return sums

    def _format(self, databases: dict[str, int]) -> int:
        """Return the format of the store; the present one if it cannot be read."""
        for name, value in self._walk(FACTS, databases):
            if name == b"format" and value.size == NUMBER.size:
                return int(NUMBER.unpack(self.pages.read(value))[0])
        return FORMAT

    def _parts(self, sums: Sums, databases: dict[str, int]) -> int:
        """Return the number of parts of transactions, including those that cannot be read."""
        found, _ = sums.changes.get(TABLES["prepared"], (0, 0))
        for owner, value in self._walk(TOTALS, databases):
            with suppress(ValueError, struct.error):
                if owner == TABLES["prepared"]:
                    found = max(found, TOTAL.unpack(unseal(TOTALS, owner, self.pages.read(value)))[0])
        return max(found, sum(1 for _ in self._walk("prepared", databases)))

    def _is_whole(self, sums: Sums, databases: dict[str, int]) -> bool:
        """Whether the records of each queue and table agree with its sums."""
        try:
            for owner, value in self._walk(TOTALS, databases):
                sums.compare(owner, self.pages.read(value))
        except ValueError:
            return False
        return not sums.rest()

    def _walk(self, name: str, databases: dict[str, int]) -> Iterator[tuple[bytes, Value]]:
        """Yield the readable records of a database, if it exists."""
        return self.pages.walk(databases[name]) if name in databases else iter(())

    def _scan(self) -> None:
        """Scan all pages for index records that were not found, and for contents."""
        for key, value in self.pages.scan():
            if len(key) == KEY.size:
                if value.size <= CONTENTS_MAX:
                    self.contents[key].append(value)
                if key not in self.index and value.size < 1 << 20 and self._add_index_record(key, value):
                    self.scanned.add(key)

    def segments(self) -> Iterator[tuple[int, Segment, bytes | None]]:
        """Yield queue id, segment, and its contents or None if they are unreadable, in order."""
        for key in sorted(self.index):
            segment, expected = unpack_index(key, self.index[key])
            if segment.damaged or not segment.kept:
                continue
            values = (self.pages.read(value) for value in self.contents[key] if value.size == segment.nbytes)
            contents = next((value for value in values if checksum(value) == expected), None)
            yield KEY.unpack(key)[0], segment, contents


def _items(
    store: Salvage, saved: Salvaged, loading: Loading, known: set[int], unknown: dict[int, int]
) -> Iterator[list[Any]]:
    """Yield the saved records as items of a dump, for `Loading`."""
    yield [SHARD, saved.shard]
    for key, number in store.leases.items():
        yield [LEASE, *KEY.unpack(key), number]
    end = -1, 0
    for queue, segment, contents in store.segments():
        if contents is None:
            saved.lost_segments, saved.lost_messages = saved.lost_segments + 1, saved.lost_messages + segment.kept
            continue
        if (queue, segment.sequence) < end:
            continue  # an older one, part of which has been rewritten as another since
        end = queue, segment.sequence + segment.count
        if queue not in known:
            unknown[queue] = saved.shard
        saved.segments += 1
        for item in message_items(queue, segment, memoryview(contents), store.returns):
            if KEY.pack(queue, segment.sequence) in store.scanned:
                item[5] |= SENT_AGAIN
            saved.messages += 1
            yield item
    yield [END, loading.messages]
